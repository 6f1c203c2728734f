//! Checked arithmetic on sizes: how many bytes a tensor needs, rounding up, and sizes in words.
//!
//! Results are at most `isize::MAX`, which is as much as one allocation can have; nothing wraps. Sizes,
//! strides and offsets count elements, and none of them may be negative.

use crate::error::{Error, ErrorKind, Result};

/// The largest number of bytes of one storage.
pub const BYTES_MAX: usize = isize::MAX as usize;

/// The number of elements: the product of the sizes, 1 for none.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a negative size, [`ErrorKind::Overflow`] when the product is above
/// `i64::MAX`. A size of 0 makes it 0 whatever the others are.
pub fn numel(sizes: &[i64]) -> Result<i64> {
    refuse_negative("size", sizes)?;
    if sizes.contains(&0) {
        return Ok(0);
    }
    sizes.iter().try_fold(1, |n: i64, &size| n.checked_mul(size)).ok_or_else(|| {
        Error::new(
            ErrorKind::Overflow,
            format!("the number of elements of sizes={sizes:?} does not fit 64 bits"),
        )
    })
}

/// The bytes of a storage for contiguous elements after an offset (`computeStorageNbytesContiguous`):
/// `element_size * (storage_offset + numel)`. Without elements only the offset counts.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a negative number, [`ErrorKind::Overflow`] when the bytes are above
/// [`BYTES_MAX`].
pub fn contiguous_bytes(sizes: &[i64], element_size: usize, storage_offset: i64) -> Result<usize> {
    refuse_negative("storage offset", &[storage_offset])?;
    refuse_negative("size", sizes)?;
    numel(sizes)
        .ok()
        .and_then(|numel| numel.checked_add(storage_offset))
        .and_then(|elements| bytes_of(elements, element_size))
        .ok_or_else(|| overflow(format!("sizes={sizes:?}"), element_size, storage_offset))
}

/// The bytes of a storage for elements at strides after an offset (`computeStorageNbytes`): 0 if any size
/// is 0, else `element_size * (storage_offset + 1 + Σ (size - 1) * stride)`.
///
/// ```
/// use c10_core::bytes::strided_bytes;
///
/// assert_eq!(strided_bytes(&[3, 5], &[4, 1], 4, 0)?, 52);
/// assert_eq!(strided_bytes(&[3, 0], &[4, 1], 4, 100)?, 0);
/// # Ok::<(), c10_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a negative number, or when there are not as many strides as sizes;
/// [`ErrorKind::Overflow`] when the bytes are above [`BYTES_MAX`].
pub fn strided_bytes(
    sizes: &[i64],
    strides: &[i64],
    element_size: usize,
    storage_offset: i64,
) -> Result<usize> {
    if sizes.len() != strides.len() {
        return Err(Error::invalid_argument(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            sizes.len(),
            strides.len()
        )));
    }
    refuse_negative("storage offset", &[storage_offset])?;
    refuse_negative("size", sizes)?;
    refuse_negative("stride", strides)?;
    if sizes.contains(&0) {
        return Ok(0);
    }
    sizes
        .iter()
        .zip(strides)
        .try_fold(storage_offset, |last, (size, stride)| last.checked_add((size - 1).checked_mul(*stride)?))
        .and_then(|last| last.checked_add(1))
        .and_then(|elements| bytes_of(elements, element_size))
        .ok_or_else(|| {
            overflow(format!("sizes={sizes:?} and strides={strides:?}"), element_size, storage_offset)
        })
}

/// `a * b` bytes.
///
/// # Errors
/// [`ErrorKind::Overflow`] when it is above [`BYTES_MAX`].
pub fn checked_mul(a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b)
        .filter(|&bytes| bytes <= BYTES_MAX)
        .ok_or_else(|| Error::new(ErrorKind::Overflow, format!("{a} times {b} bytes is above {BYTES_MAX}")))
}

/// The smallest multiple of `alignment` that is not below `bytes`. The alignment need not be a power of
/// two.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for an alignment of 0, [`ErrorKind::Overflow`] when the result is above
/// [`BYTES_MAX`].
pub fn align_up(bytes: usize, alignment: usize) -> Result<usize> {
    if alignment == 0 {
        return Err(Error::invalid_argument("an alignment of 0 bytes"));
    }
    bytes.checked_next_multiple_of(alignment).filter(|&aligned| aligned <= BYTES_MAX).ok_or_else(|| {
        Error::new(
            ErrorKind::Overflow,
            format!("{bytes} bytes rounded up to a multiple of {alignment} is above {BYTES_MAX}"),
        )
    })
}

/// A size as PyTorch's out-of-memory texts and memory summaries write it (`format_size`): two decimals, and
/// a unit is left only when its 1024 of them are passed, so that 1 MiB is `1024.00 KiB`.
pub fn format_size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let in_units_of = |unit: u64| bytes as f64 / unit as f64;
    if bytes <= KIB {
        format!("{bytes} bytes")
    } else if bytes <= MIB {
        format!("{:.2} KiB", in_units_of(KIB))
    } else if bytes <= GIB {
        format!("{:.2} MiB", in_units_of(MIB))
    } else {
        format!("{:.2} GiB", in_units_of(GIB))
    }
}

/// The bytes of so many elements, or `None` above [`BYTES_MAX`].
fn bytes_of(elements: i64, element_size: usize) -> Option<usize> {
    let bytes = usize::try_from(elements).ok()?.checked_mul(element_size)?;
    (bytes <= BYTES_MAX).then_some(bytes)
}

fn refuse_negative(what: &str, values: &[i64]) -> Result<()> {
    match values.iter().find(|&&v| v < 0) {
        None => Ok(()),
        Some(v) => Err(Error::invalid_argument(format!("negative {what} {v} in {values:?}"))),
    }
}

#[cold]
fn overflow(geometry: String, element_size: usize, storage_offset: i64) -> Error {
    Error::new(
        ErrorKind::Overflow,
        format!(
            "Storage size calculation overflowed with {geometry} \
             (storage offset {storage_offset}, element size {element_size}, at most {BYTES_MAX} bytes)"
        ),
    )
}
