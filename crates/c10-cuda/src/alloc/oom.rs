//! Out of memory: the numbers, PyTorch's text, and who is told.

use c10_core::DeviceIndex;
use c10_core::bytes::format_size;

use super::allocate::{Refused, Request};
use super::callbacks::Callbacks;
use super::device::Locked;
use super::expandable::NoAddresses;
use super::mempool_id::MempoolId;
use super::report::report_out_of_memory;
use super::trace::TraceAction;
use crate::driver::{DriverError, MemoryInfo};
use crate::error::{Error, ErrorKind, OutOfMemory};

const HINT: &str = " If reserved but unallocated memory is large try setting \
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
    Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html\
    #optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

const OWN_HINT: &str = " The custom allocator backing this MemPool returned nullptr. Check preceding allocator \
    warnings or logs for the underlying cause. This can indicate an allocator-specific error or memory \
    constraint, even when device-wide free memory is available.";
const EXPANDABLE_HINT: &str = " expandable_segments is enabled. If instead the process is running out of virtual \
    address space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, \
    times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / \
    expandable_segments_reserve_by_class.";

/// Ends a request that is refused: gives up the lock, tells the observers, makes the error.
pub(crate) fn refuse(locked: Locked<'_>, refused: Refused, callbacks: &Callbacks) -> Error {
    let device = locked.device.index;
    let error = match refused {
        Refused::Driver(error) => Err(error),
        Refused::Suspended(pool) => Ok(suspended(pool)),
        Refused::NoAddresses(numbers) => Ok(no_addresses(device, &numbers)),
        Refused::TooLarge(requested) => Ok(too_large(device, requested)),
        Refused::Rejected(request) => rejected(locked, &request, callbacks),
        Refused::OutOfMemory(request) => out_of_memory(locked, &request, callbacks),
    };
    error.unwrap_or_else(Error::from)
}

fn rejected(locked: Locked<'_>, request: &Request, callbacks: &Callbacks) -> Result<Error, DriverError> {
    let numbers = numbers(&locked, request)?;
    drop(locked);
    tell(&numbers, callbacks);
    let text = format!(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed \
         per_process_memory_fraction limit. Requested size: {}",
        format_size(request.requested)
    );
    Ok(Error::oom(numbers, text))
}

fn out_of_memory(
    mut locked: Locked<'_>,
    request: &Request,
    callbacks: &Callbacks,
) -> Result<Error, DriverError> {
    let numbers = numbers(&locked, request)?;
    let hint = hint(&locked, request, &numbers)?;
    locked.record(TraceAction::Oom, request.pool, numbers.device_free, request.size, request.stream);
    locked.stats.num_ooms += 1;
    // Beyond the limit it was not asked.
    let is_asked = locked.limit.is_none_or(|limit| locked.total_allocated + request.segment <= limit);
    let is_own = is_asked && locked.pools.owner(request.pool.owner).allocator.is_some();
    drop(locked);
    tell(&numbers, callbacks);
    let text = text(&numbers, &hint) + if is_own { OWN_HINT } else { "" };
    Ok(Error::oom(numbers, text))
}

/// The error of a request that no device could ever serve.
pub(crate) fn too_large(device: DeviceIndex, requested: u64) -> Error {
    Error::oom(
        OutOfMemory { device, requested, ..OutOfMemory::default() },
        "CUDA out of memory. Tried to allocate more than 1EB memory.".into(),
    )
}

/// The error of a request that goes to a pool with no memory behind it.
fn suspended(pool: MempoolId) -> Error {
    let text = format!("the pool {pool} is suspended: allocations from it come after `resume_pool`");
    Error::new(ErrorKind::InvalidArgument, text)
}

/// The error of a request for which there are no addresses left.
fn no_addresses(device: DeviceIndex, numbers: &NoAddresses) -> Error {
    let NoAddresses { error, bytes, segments, reserved } = *numbers;
    let text = format!(
        "There are no addresses for another expandable segment of {} on device {device}, which has {segments} of \
         them with {} of addresses. This is no lack of memory: set expandable_segments_reserve or \
         expandable_segments_reserve_by_class, or use fewer streams and pools.",
        format_size(bytes),
        format_size(reserved),
    );
    Error::with_driver(error, text)
}

/// What PyTorch advises.
fn hint(locked: &Locked<'_>, request: &Request, numbers: &OutOfMemory) -> Result<String, DriverError> {
    if !locked.config.expandable_segments {
        return Ok(HINT.into());
    }
    let limit = locked.reserve_limit(request.stream)?;
    if !limit.is_set || numbers.tried <= limit.bytes || numbers.tried > numbers.device_total {
        return Ok(EXPANDABLE_HINT.into());
    }
    let whose = limit.class.map_or("this stream".into(), |class| format!("stream reserve class '{class}'"));
    Ok(format!(
        " This allocation exceeds the expandable-segment reserve of {} for {whose}, and a single allocation cannot \
         span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or \
         expandable_segments_reserve_by_class (or unset it) so that a segment is at least {}.",
        format_size(limit.bytes),
        format_size(numbers.tried),
    ))
}

pub(crate) fn tell(numbers: &OutOfMemory, callbacks: &Callbacks) {
    report_out_of_memory(numbers);
    callbacks.out_of_memory(numbers);
}

fn numbers(locked: &Locked<'_>, request: &Request) -> Result<OutOfMemory, DriverError> {
    let free = locked.pools.private_pools().flat_map(|pool| pool.free.iter(&locked.blocks));
    let blocks = free.map(|id| &locked.blocks[id]);
    let awake = blocks.filter(|block| locked.pools.owner(block.pool.owner).asleep.is_none());
    let private = awake.map(|block| block.size).sum();
    let MemoryInfo { free, total } = locked.driver().memory_info(locked.device.index)?;
    Ok(OutOfMemory {
        device: locked.device.index,
        requested: request.requested,
        tried: request.segment,
        device_total: total,
        device_free: free,
        allowed: locked.limit,
        allocated: locked.usage.allocated_bytes(),
        private,
        reserved: locked.stats.reserved_bytes.all.current as u64,
    })
}

fn text(numbers: &OutOfMemory, hint: &str) -> String {
    let allowed = numbers.allowed.map_or(String::new(), |bytes| format!("{} allowed; ", format_size(bytes)));
    // PyTorch counts what is free in private pools as allocated.
    let private = match numbers.private {
        0 => String::new(),
        bytes => {
            format!("with {} allocated in private pools (e.g., CUDA Graphs), ", format_size(bytes))
        }
    };
    let allocated = numbers.allocated + numbers.private;
    format!(
        "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. \
         {allowed}Of the allocated memory {} is allocated by PyTorch, {private}and {} is reserved by PyTorch but \
         unallocated.{hint}",
        format_size(numbers.tried),
        numbers.device,
        format_size(numbers.device_total),
        format_size(numbers.device_free),
        format_size(allocated),
        format_size(numbers.reserved.saturating_sub(allocated)),
    )
}

/// The error for a call on memory that this allocator did not hand out.
pub(crate) fn foreign(call: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("{call}: {what} was not handed out by this allocator, or has been freed"),
    )
}
