//! Contexts: a device's primary one, counted, and those that the program makes. All of one device share its default
//! streams.

use std::collections::{BTreeMap, BTreeSet};

use c10_core::DeviceIndex;
use c10_cuda::driver::{Driver, StreamHandle};

use super::{AllocationKind, Machine, current};
use crate::abi::{Code, Handle, Outcome};

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: DeviceIndex,
    pub(crate) flags: u32,
    pub(crate) is_primary: bool,
    /// What every call in it fails with.
    pub(crate) lost: Option<Code>,
    /// The contexts whose memory it was let into.
    pub(crate) peers: BTreeSet<Handle>,
    pub(crate) limits: BTreeMap<u32, usize>,
    pub(crate) cache_config: u32,
    pub(crate) id: u64,
}

/// A device's primary context.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub(crate) context: Option<Handle>,
    pub(crate) retains: u32,
    pub(crate) flags: u32,
}

/// The flags that a context can have.
const FLAGS: u32 = 0xff;
/// Those of how to wait, of which one is set at most.
const SCHEDULE: u32 = 0x7;

pub(crate) fn check_flags(flags: u32) -> Outcome {
    if flags & !FLAGS != 0 || (flags & SCHEDULE).count_ones() > 1 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}

impl Machine {
    /// The context of a handle that the program names, or the current one where it names none.
    pub(crate) fn context_or_current(&self, context: Handle) -> Outcome<(Handle, &Context)> {
        if context.is_null() {
            return self.current_context();
        }
        Ok((context, self.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?))
    }

    pub(crate) fn current_context_mut(&mut self) -> Outcome<&mut Context> {
        let (handle, _) = self.current_context()?;
        self.contexts.get_mut(handle)
    }

    /// Lets the current context's device into the memory of another's.
    pub(crate) fn enable_peer(&mut self, peer: Handle) -> Outcome {
        let on = self.contexts.get(peer).map_err(|_| Code::INVALID_CONTEXT)?.device;
        let device = self.current_device()?;
        if device == on {
            return Err(Code::INVALID_DEVICE);
        }
        if self.current_context_mut()?.peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        if !self.sim.can_access_peer(device, on)? {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        self.sim.enable_peer_access(device, on)?;
        self.current_context_mut()?.peers.insert(peer);
        Ok(())
    }

    pub(crate) fn make_context(&mut self, device: DeviceIndex, flags: u32, is_primary: bool) -> Handle {
        let id = self.next_number();
        self.contexts.insert(Context {
            device,
            flags,
            is_primary,
            lost: None,
            peers: BTreeSet::new(),
            limits: BTreeMap::new(),
            cache_config: 0,
            id,
        })
    }

    pub(crate) fn retain_primary(&mut self, device: DeviceIndex) -> Outcome<Handle> {
        let Primary { context, retains, flags } = self.primaries[usize::from(device)];
        let retains = retains.checked_add(1).ok_or(Code::INVALID_VALUE)?;
        let context = match context {
            Some(context) => context,
            None => self.make_context(device, flags, true),
        };
        self.primaries[usize::from(device)] = Primary { context: Some(context), retains, flags };
        Ok(context)
    }

    /// The last release ends it.
    pub(crate) fn release_primary(&mut self, device: DeviceIndex) -> Outcome {
        let primary = &mut self.primaries[usize::from(device)];
        primary.retains = primary.retains.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        if primary.retains == 0 {
            self.reset_primary(device);
        }
        Ok(())
    }

    /// Ends it, whoever has retained it.
    pub(crate) fn reset_primary(&mut self, device: DeviceIndex) {
        let flags = self.primaries[usize::from(device)].flags;
        let Primary { context, .. } = std::mem::replace(
            &mut self.primaries[usize::from(device)],
            Primary { flags, ..Primary::default() },
        );
        if let Some(context) = context {
            self.end_context(context);
        }
    }

    /// `cuCtxDestroy`: one that the program made; the calling thread's stack loses it if it is on top.
    pub(crate) fn destroy_context(&mut self, context: Handle) -> Outcome {
        let found = self.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?;
        if found.is_primary {
            return Err(Code::INVALID_CONTEXT);
        }
        self.end_context(context);
        if current::top() == context {
            current::pop();
        }
        Ok(())
    }

    /// Ends a context with all that is of it. That is counted as swept: the program did not give it back.
    fn end_context(&mut self, context: Handle) {
        let Ok(Context { device, .. }) = self.contexts.remove(context) else { return };
        let before = self.live_handles();
        let streams = self.streams.handles(|stream| stream.context == context);
        for &stream in &streams {
            self.abandon_capture(stream);
        }
        // What faulted has been told; the next program of the device begins afresh.
        let _told = self.sim.device_synchronize(device);
        for event in self.events.handles(|event| event.context == context) {
            let _gone = self.destroy_event(event);
        }
        for module in self.modules.handles(|module| module.context == context) {
            let _gone = self.unload_module(module);
        }
        for exec in self.execs.handles(|exec| exec.context == context) {
            let _gone = self.destroy_exec(exec);
        }
        for (ptr, kind) in self.memory.of_context(context) {
            let _gone = match kind {
                AllocationKind::Opened => self.close_allocation(ptr),
                _ => self.free(ptr, StreamHandle::default_of(device)),
            };
        }
        for (address, registered) in self.memory.host_of_context(context) {
            let _gone = if registered { self.unregister_host(address) } else { self.free_host(address) };
        }
        for stream in streams {
            let _gone = self.destroy_stream(stream);
        }
        // What another thread's capture keeps the simulator from ending is nobody's from here on.
        self.streams.retain(|stream| stream.context != context);
        self.memory.forget_context(context);
        self.swept += before - self.live_handles();
    }
}
