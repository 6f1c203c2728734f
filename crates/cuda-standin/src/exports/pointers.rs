//! What an address is.

use crate::abi::{Code, Handle, In, OutAny, Outcome};
use crate::entry::exports;
use crate::machine::{AllocationKind, Machine, is_device_address};

/// `CU_POINTER_ATTRIBUTE_*`.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const IS_LEGACY_IPC_CAPABLE: u32 = 10;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;
const POOL: u32 = 17;

/// `CU_MEMORYTYPE_*`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// What is known of an address that the driver knows.
struct Known {
    context: Handle,
    device: i32,
    base: u64,
    bytes: u64,
    id: u64,
    kind: Option<AllocationKind>,
}

fn known(machine: &Machine, ptr: u64) -> Option<Known> {
    let device_of = |context| machine.contexts.get(context).map_or(0, |found| i32::from(found.device));
    let memory = &machine.memory;
    if let Some((base, found)) = memory.allocation_at(ptr) {
        let (context, bytes, id, kind) = (found.context, found.bytes, found.id, Some(found.kind));
        return Some(Known { context, device: device_of(context), base, bytes, id, kind });
    }
    if let Some((base, mapping)) = memory.mapping_at(ptr) {
        let physical = memory.physical.get(mapping.physical).ok()?;
        let (device, bytes, id) = (i32::from(physical.sim.device), mapping.bytes, mapping.physical.0);
        return Some(Known { context: Handle::NULL, device, base, bytes, id, kind: None });
    }
    let (base, found) = memory.host_at(ptr)?;
    let (context, bytes) = (found.context, found.bytes);
    Some(Known { context, device: device_of(context), base, bytes, id: base, kind: None })
}

fn put(machine: &Machine, attribute: u32, ptr: u64, known: &Known, value: OutAny) -> Outcome {
    let on_device = is_device_address(ptr);
    let flag = |set: bool| value.of::<u32>().put(u32::from(set));
    match attribute {
        CONTEXT if known.context.is_null() => Err(Code::INVALID_VALUE),
        CONTEXT => value.of::<Handle>().put(known.context),
        MEMORY_TYPE => value.of::<u32>().put(if on_device { DEVICE } else { HOST }),
        DEVICE_POINTER => value.of::<u64>().put(ptr),
        HOST_POINTER if on_device => Err(Code::INVALID_VALUE),
        HOST_POINTER => value.of::<u64>().put(ptr),
        SYNC_MEMOPS => flag(false),
        BUFFER_ID => value.of::<u64>().put(known.id),
        IS_MANAGED => flag(false),
        DEVICE_ORDINAL => value.of::<i32>().put(known.device),
        IS_LEGACY_IPC_CAPABLE => flag(known.kind == Some(AllocationKind::Plain)),
        RANGE_START => value.of::<u64>().put(known.base),
        RANGE_SIZE => value.of::<usize>().put(known.bytes as usize),
        MAPPED => flag(true),
        POOL => {
            let pooled = known.kind == Some(AllocationKind::Pooled);
            let pool = machine.pools.get(known.device as usize).filter(|_| pooled);
            value.of::<Handle>().put(pool.copied().unwrap_or(Handle::NULL))
        }
        _ => Err(Code::INVALID_VALUE),
    }
}

/// What several attributes ask of an address that the driver does not know.
fn put_nothing(attribute: u32, value: OutAny) -> Outcome {
    match attribute {
        CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE | POOL => {
            value.of::<u64>().put(0)
        }
        DEVICE_ORDINAL => value.of::<i32>().put(-2),
        MEMORY_TYPE | SYNC_MEMOPS | IS_MANAGED | IS_LEGACY_IPC_CAPABLE | MAPPED => value.of::<u32>().put(0),
        _ => Err(Code::INVALID_VALUE),
    }
}

exports! {
    Context fn cuPointerGetAttribute(value: OutAny, attribute: u32, ptr: u64) |machine| {
        value.of::<u8>().check()?;
        let known = known(machine, ptr).ok_or(Code::INVALID_VALUE)?;
        put(machine, attribute, ptr, &known, value)
    }

    /// An address that is not known is no error here.
    Context fn cuPointerGetAttributes(
        count: u32,
        attributes: In<u32>,
        values: In<OutAny>,
        ptr: u64,
    ) |machine| {
        let attributes = attributes.read_all(count as usize)?;
        let values = values.read_all(count as usize)?;
        let known = known(machine, ptr);
        for (attribute, value) in attributes.into_iter().zip(values) {
            let known = known.as_ref().ok_or(Code::INVALID_VALUE);
            // What an address does not have is nothing here, too.
            let told = known.and_then(|known| put(machine, attribute, ptr, known, value));
            told.or_else(|_| put_nothing(attribute, value))?;
        }
        Ok(())
    }
}
