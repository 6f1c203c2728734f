//! Fills. Those without a stream are issued on the legacy default stream, and do not wait for it.

use crate::abi::Handle;
use crate::entry::exports;

exports! {
    Context fn cuMemsetD8_v2(dst: u64, value: u8, count: usize) |machine| {
        let on = machine.stream(Handle::NULL)?;
        machine.fill(on, dst, &[value], count as u64)
    }

    Context fn cuMemsetD16_v2(dst: u64, value: u16, count: usize) |machine| {
        let on = machine.stream(Handle::NULL)?;
        machine.fill(on, dst, &value.to_ne_bytes(), count as u64)
    }

    Context fn cuMemsetD32_v2(dst: u64, value: u32, count: usize) |machine| {
        let on = machine.stream(Handle::NULL)?;
        machine.fill(on, dst, &value.to_ne_bytes(), count as u64)
    }

    Context fn cuMemsetD8Async(dst: u64, value: u8, count: usize, stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.fill(on, dst, &[value], count as u64)
    }

    Context fn cuMemsetD16Async(dst: u64, value: u16, count: usize, stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.fill(on, dst, &value.to_ne_bytes(), count as u64)
    }

    Context fn cuMemsetD32Async(dst: u64, value: u32, count: usize, stream: Handle) |machine| {
        let on = machine.stream(stream)?;
        machine.fill(on, dst, &value.to_ne_bytes(), count as u64)
    }
}
