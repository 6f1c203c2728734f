//! Files in NumPy's npy format: one array each.
//!
//! Both orders of bytes and of dimensions are read; an array in Fortran order becomes a tensor with its
//! strides. What is written is in C order and little endian, as NumPy itself writes it on such machines.
//! NumPy has no `bfloat16`, no `complex32` and no eight-bit floats: tensors of those are refused, and so are
//! records and objects.

mod header;

use std::io::{Read, Write};

use super::io_error;
use super::packed::{check_host, new_tensor, packed, swap_bytes};
use crate::error::Result;
use crate::shape;
use crate::tensor::{Dims, Tensor};
use header::{Header, refused, unread};

/// The array of a file of these bytes. What stands behind it is left, as NumPy leaves it.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(mut bytes: &[u8]) -> Result<Tensor> {
    read(&mut bytes)
}

/// Reads one array, and nothing behind it.
///
/// # Errors
/// [`ErrorKind::Parse`](crate::ErrorKind::Parse) when it is none, or ends early,
/// [`ErrorKind::Dtype`](crate::ErrorKind::Dtype) when its type is one that no tensor here has,
/// [`ErrorKind::Overflow`](crate::ErrorKind::Overflow) when it has more bytes than can be counted,
/// [`ErrorKind::Io`](crate::ErrorKind::Io) when the reader fails,
/// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
pub fn read(from: &mut impl Read) -> Result<Tensor> {
    let Header { dtype, is_big_endian, is_fortran_order, sizes } = Header::read(from)?;
    let count = c10_core::bytes::contiguous_bytes(&sizes, dtype.element_size(), 0)?;
    // Grows with what is there, not with what the header says.
    let mut bytes = Vec::new();
    from.take(count as u64).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() < count {
        return Err(refused(format!("{} of the {count} bytes of its elements are there", bytes.len())));
    }
    if is_big_endian != cfg!(target_endian = "big") {
        swap_bytes(dtype, &mut bytes);
    }
    let strides = if is_fortran_order { Some(fortran_strides(&sizes)?) } else { None };
    new_tensor(sizes.as_slice().into(), strides, dtype, |memory| memory[..count].copy_from_slice(&bytes))
}

/// Writes a tensor as an array.
///
/// # Errors
/// Before anything is written: [`ErrorKind::Dtype`](crate::ErrorKind::Dtype) when NumPy lacks the type,
/// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the host cannot reach the elements.
/// Later [`ErrorKind::Io`](crate::ErrorKind::Io) when the writer refuses.
pub fn write(out: &mut impl Write, tensor: &Tensor) -> Result<()> {
    check_host(tensor)?;
    let header = Header {
        dtype: tensor.dtype(),
        is_big_endian: cfg!(target_endian = "big"),
        is_fortran_order: false,
        sizes: tensor.sizes().to_vec(),
    };
    let (header, elements) = (header.to_bytes()?, packed(tensor)?);
    let failed = |error| io_error("the npy file cannot be written", error);
    out.write_all(&header).map_err(failed)?;
    out.write_all(&elements).map_err(failed)?;
    out.flush().map_err(failed)
}

/// The strides of elements whose first dimension is the innermost one.
fn fortran_strides(sizes: &[i64]) -> Result<Dims> {
    let reversed: Vec<i64> = sizes.iter().rev().copied().collect();
    let mut strides = shape::contiguous_strides(&reversed)?;
    strides.reverse();
    Ok(strides)
}
