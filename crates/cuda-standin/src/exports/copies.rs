//! Copies. An address says by itself where it is, so that all kinds come to the same; what a kind's name says of its
//! ends is checked.

use crate::abi::{Code, Handle, Outcome};
use crate::entry::exports;
use crate::machine::{Machine, is_device_address};

/// What a call's name says of an end.
#[derive(Clone, Copy)]
enum Side {
    Host,
    Device,
    Any,
}

impl Side {
    fn check(self, address: u64, bytes: usize) -> Outcome {
        let right = match self {
            Self::Host => !is_device_address(address),
            Self::Device => is_device_address(address),
            Self::Any => true,
        };
        if right || bytes == 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

fn now(machine: &mut Machine, (dst, on): (u64, Side), (src, from): (u64, Side), bytes: usize) -> Outcome {
    on.check(dst, bytes)?;
    from.check(src, bytes)?;
    machine.copy_now(dst, src, bytes as u64)
}

fn issue(
    machine: &mut Machine,
    (dst, on): (u64, Side),
    (src, from): (u64, Side),
    bytes: usize,
    stream: Handle,
) -> Outcome {
    on.check(dst, bytes)?;
    from.check(src, bytes)?;
    let stream = machine.stream(stream)?;
    machine.copy(stream, dst, src, bytes as u64)
}

/// The contexts of the ends of a copy between devices are there.
fn check_contexts(machine: &Machine, contexts: [Handle; 2]) -> Outcome {
    for context in contexts {
        machine.contexts.get(context).map_err(|_| Code::INVALID_CONTEXT)?;
    }
    Ok(())
}

exports! {
    Context fn cuMemcpy(dst: u64, src: u64, bytes: usize) |machine| {
        now(machine, (dst, Side::Any), (src, Side::Any), bytes)
    }

    Context fn cuMemcpyAsync(dst: u64, src: u64, bytes: usize, stream: Handle) |machine| {
        issue(machine, (dst, Side::Any), (src, Side::Any), bytes, stream)
    }

    Context fn cuMemcpyHtoD_v2(dst: u64, src: u64, bytes: usize) |machine| {
        now(machine, (dst, Side::Device), (src, Side::Host), bytes)
    }

    Context fn cuMemcpyDtoH_v2(dst: u64, src: u64, bytes: usize) |machine| {
        now(machine, (dst, Side::Host), (src, Side::Device), bytes)
    }

    Context fn cuMemcpyDtoD_v2(dst: u64, src: u64, bytes: usize) |machine| {
        now(machine, (dst, Side::Device), (src, Side::Device), bytes)
    }

    Context fn cuMemcpyHtoDAsync_v2(dst: u64, src: u64, bytes: usize, stream: Handle) |machine| {
        issue(machine, (dst, Side::Device), (src, Side::Host), bytes, stream)
    }

    Context fn cuMemcpyDtoHAsync_v2(dst: u64, src: u64, bytes: usize, stream: Handle) |machine| {
        issue(machine, (dst, Side::Host), (src, Side::Device), bytes, stream)
    }

    Context fn cuMemcpyDtoDAsync_v2(dst: u64, src: u64, bytes: usize, stream: Handle) |machine| {
        issue(machine, (dst, Side::Device), (src, Side::Device), bytes, stream)
    }

    Context fn cuMemcpyPeer(dst: u64, to: Handle, src: u64, from: Handle, bytes: usize) |machine| {
        check_contexts(machine, [to, from])?;
        now(machine, (dst, Side::Device), (src, Side::Device), bytes)
    }

    Context fn cuMemcpyPeerAsync(
        dst: u64,
        to: Handle,
        src: u64,
        from: Handle,
        bytes: usize,
        stream: Handle,
    ) |machine| {
        check_contexts(machine, [to, from])?;
        issue(machine, (dst, Side::Device), (src, Side::Device), bytes, stream)
    }
}
