//! Issuing copies, fills and kernels.

use std::sync::{Arc, Mutex};

use super::clock::{device_cost, link_cost};
use super::module::touched;
use super::node::{NodeEnd, NodeWork};
use super::report::Touched;
use super::state::State;
use super::work::{End, Item};
use crate::driver::{DevicePtr, KernelLaunch, Status, StreamHandle};

impl State {
    pub(super) fn copy(&mut self, on: StreamHandle, dst: End, src: End, bytes: u64) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        let within = match (&dst, &src) {
            (End::Device(dst), End::Device(src)) => {
                self.memory.device_at(dst.0) == self.memory.device_at(src.0)
            }
            _ => false,
        };
        let cost = if within { device_cost(bytes) } else { link_cost(bytes) };
        if self.captures(id)? {
            let (dst, src) = (NodeEnd::of(&dst), NodeEnd::of(&src));
            self.add_node(id, NodeWork::Copy { dst, src, bytes }, cost);
            return Ok(());
        }
        self.order_with_default(id)?;
        let ends = || [(&src, false), (&dst, true)].into_iter();
        let device = ends().filter_map(|(end, write)| end.on_device(bytes, write));
        let host = ends().filter_map(|(end, write)| end.on_host(bytes, write));
        self.watch_issue(id, "copy", true, device, host);
        self.issue(id, Item::Copy { dst, src, bytes }, cost, 0);
        Ok(())
    }

    pub(super) fn fill(
        &mut self,
        on: StreamHandle,
        dst: DevicePtr,
        value: u8,
        bytes: u64,
    ) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        if bytes == 0 {
            return Ok(());
        }
        if self.captures(id)? {
            self.add_node(id, NodeWork::Fill { dst, value, bytes }, device_cost(bytes));
        } else {
            self.order_with_default(id)?;
            self.watch_issue(id, "fill", false, [Touched { ptr: dst, bytes, write: true }], []);
            self.issue(id, Item::Fill { dst, value, bytes }, device_cost(bytes), 0);
        }
        Ok(())
    }

    /// Takes the kernel when it is issued, and leaves it to the caller when it is refused.
    pub(super) fn launch(
        &mut self,
        on: StreamHandle,
        kernel: &mut Option<KernelLaunch>,
    ) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        let captures = self.captures(id)?;
        if !captures {
            self.order_with_default(id)?;
        }
        let kernel = kernel.take().ok_or(Status::InvalidValue)?;
        let used = || touched(&kernel.reads, &kernel.writes);
        let cost = device_cost(used().fold(0u64, |sum, range| sum.saturating_add(range.bytes)));
        if captures {
            self.add_node(id, NodeWork::Kernel(Arc::new(Mutex::new(kernel))), cost);
            return Ok(());
        }
        self.watch_issue(id, kernel.name, false, used(), []);
        self.issue(id, Item::Kernel(Box::new(kernel)), cost, 0);
        Ok(())
    }
}
