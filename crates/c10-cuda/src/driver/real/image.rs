//! Whether an image of kernels is as long as it says. The driver is given an address alone, and believes the image.

use crate::driver::Status;

const ELF: &[u8] = b"\x7fELF";
/// The first bytes of a fatbin, and of the wrapper that a compiler's object files put around one.
const FATBIN: u32 = 0xba55_ed50;
const FATBIN_WRAPPER: u32 = 0x4662_43b1;

/// The image as the driver may read it: checked where it says how long it is, and ended by a NUL where it is text.
pub(super) fn readable(image: &[u8]) -> Result<Vec<u8>, Status> {
    let whole = match word(image, 0) {
        _ if image.starts_with(ELF) => elf_length(image),
        Some(FATBIN) => fatbin_length(image),
        // It holds an address, which nobody can check.
        Some(FATBIN_WRAPPER) => None,
        // Text: PTX, or what a simulated device takes.
        _ => Some(if image.contains(&0) { image.len().min(text_length(image)) } else { image.len() }),
    };
    match whole {
        Some(length) if length != 0 && length <= image.len() => {
            let mut copy = Vec::with_capacity(image.len() + 1);
            copy.extend_from_slice(image);
            copy.push(0);
            Ok(copy)
        }
        _ => Err(Status::InvalidImage),
    }
}

fn text_length(image: &[u8]) -> usize {
    image.iter().position(|byte| *byte == 0).unwrap_or(image.len())
}

/// Where an ELF file of 64 bits ends: behind its headers and all sections.
fn elf_length(image: &[u8]) -> Option<usize> {
    const BITS_64: u8 = 2;
    const NO_BITS: u32 = 8;
    if *image.get(4)? != BITS_64 {
        return None;
    }
    let table = |at: usize, entry: usize, count: usize| {
        let (start, entry, count) = (long(image, at)?, half(image, entry)?, half(image, count)?);
        start.checked_add(entry.checked_mul(count)?).map(|end| (start, entry, count, end))
    };
    let (_, _, _, programs_end) = table(0x20, 0x36, 0x38)?;
    let (sections, entry, count, sections_end) = table(0x28, 0x3a, 0x3c)?;
    let mut end = programs_end.max(sections_end).max(0x40);
    if end > image.len() || (count != 0 && entry < 0x40) {
        return None;
    }
    for section in (0..count).map(|index| sections + index * entry) {
        if word(image, section + 4)? != NO_BITS {
            end = end.max(long(image, section + 0x18)?.checked_add(long(image, section + 0x20)?)?);
        }
    }
    Some(end)
}

/// Where a fatbin ends: its header says how long that is, and what follows.
fn fatbin_length(image: &[u8]) -> Option<usize> {
    half(image, 6)?.checked_add(long(image, 8)?)
}

fn bytes<const N: usize>(image: &[u8], at: usize) -> Option<[u8; N]> {
    image.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn half(image: &[u8], at: usize) -> Option<usize> {
    bytes(image, at).map(|bytes| usize::from(u16::from_le_bytes(bytes)))
}

fn word(image: &[u8], at: usize) -> Option<u32> {
    bytes(image, at).map(u32::from_le_bytes)
}

fn long(image: &[u8], at: usize) -> Option<usize> {
    bytes(image, at).and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok())
}
