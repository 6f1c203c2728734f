//! The geometry that a snapshot must have before anything is computed with it: ranges that end within the
//! address space, segments that do not overlap, blocks that lie inside their segments in order.

use super::error::ReadError;
use super::path::Path;
use super::segment::{BlockState, Segment};
use super::{Action, Snapshot};

/// Puts the segments in order of device and address, and checks everything.
///
/// # Errors
/// The path of the range that is not where it can be. Paths number the segments as the file does.
pub(crate) fn check(snapshot: &mut Snapshot) -> Result<(), ReadError> {
    let path = Path::Root.key("segments");
    for (index, segment) in snapshot.segments.iter().enumerate() {
        check_segment(segment, &path.index(index))?;
    }
    let mut order: Vec<usize> = (0..snapshot.segments.len()).collect();
    order.sort_by_key(|&index| (snapshot.segments[index].device, snapshot.segments[index].address));
    for pair in order.windows(2) {
        let (first, second) = (&snapshot.segments[pair[0]], &snapshot.segments[pair[1]]);
        if first.device == second.device && first.end() > second.address {
            let first = path.index(pair[0]).to_string();
            return Err(path.index(pair[1]).error(format!("overlaps {first}")));
        }
    }
    snapshot.segments.sort_by_key(|segment| (segment.device, segment.address));
    check_traces(snapshot)
}

fn check_segment(segment: &Segment, path: &Path<'_>) -> Result<(), ReadError> {
    if segment.address == 0 {
        return Err(path.key("address").error("is 0"));
    }
    if segment.total_size == 0 {
        return Err(path.key("total_size").error("is 0"));
    }
    if segment.address.checked_add(segment.total_size).is_none() {
        return Err(path.error(format!(
            "{} bytes at {:#x} end beyond the address space",
            segment.total_size, segment.address
        )));
    }
    let path = path.key("blocks");
    let mut free_from = segment.address;
    for (index, block) in segment.blocks.iter().enumerate() {
        let path = path.index(index);
        let end = block.address.checked_add(block.size);
        if block.size == 0 {
            return Err(path.key("size").error("is 0"));
        }
        match end {
            Some(end) if block.address >= segment.address && end <= segment.end() => {
                if block.address < free_from {
                    return Err(path.error("overlaps the block before it"));
                }
                free_from = end;
            }
            _ => {
                return Err(path.error(format!(
                    "{} bytes at {:#x} are not inside their segment, {:#x} to {:#x}",
                    block.size,
                    block.address,
                    segment.address,
                    segment.end()
                )));
            }
        }
        if block.state != BlockState::Inactive && block.requested_size > block.size {
            return Err(path.key("requested_size").error(format!(
                "is {}, more than the {} bytes of the block",
                block.requested_size, block.size
            )));
        }
    }
    Ok(())
}

fn check_traces(snapshot: &Snapshot) -> Result<(), ReadError> {
    let path = Path::Root.key("device_traces");
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        let path = path.index(device);
        for (index, event) in trace.iter().enumerate() {
            if event.action == Action::Alloc && event.size == 0 {
                return Err(path.index(index).key("size").error("is 0: PyTorch has no block for nothing"));
            }
            if event.action.has_address() && event.address.checked_add(event.size).is_none() {
                return Err(path.index(index).error(format!(
                    "{} bytes at {:#x} end beyond the address space",
                    event.size, event.address
                )));
            }
        }
    }
    Ok(())
}
