//! Issuing copies, fills and kernels.

use super::clock::{device_cost, link_cost};
use super::report::Touched;
use super::state::State;
use super::work::{End, Item};
use crate::driver::{Access, DevicePtr, KernelLaunch, Status, StreamHandle};

impl State {
    pub(super) fn copy(&mut self, on: StreamHandle, dst: End, src: End, bytes: u64) -> Result<(), Status> {
        let id = self.stream_id(on)?;
        if self.capture_node(id)? {
            return Ok(());
        }
        let within = match (&dst, &src) {
            (End::Device(dst), End::Device(src)) => {
                self.memory.device_at(dst.0) == self.memory.device_at(src.0)
            }
            _ => false,
        };
        let cost = if within { device_cost(bytes) } else { link_cost(bytes) };
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
        if bytes != 0 && !self.capture_node(id)? {
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
        if self.capture_node(id)? {
            return Ok(());
        }
        let kernel = kernel.take().ok_or(Status::InvalidValue)?;
        let declared = kernel.reads.iter().chain(&kernel.writes);
        let moved = declared.fold(0u64, |sum, access| sum.saturating_add(access.bytes));
        let touched = |write| move |&Access { ptr, bytes }: &Access| Touched { ptr, bytes, write };
        let reads = kernel.reads.iter().map(touched(false));
        let writes = kernel.writes.iter().map(touched(true));
        self.watch_issue(id, kernel.name, false, reads.chain(writes), []);
        self.issue(id, Item::Kernel(Box::new(kernel)), device_cost(moved), 0);
        Ok(())
    }
}
