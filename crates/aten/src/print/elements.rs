//! The elements that are shown: all, or the edges of each dimension.

use c10_core::{Complex, Device, F8E4M3Fn, F8E5M2, Scalar, ScalarType, bf16, f16};

use super::PrintOptions;
use crate::error::Result;
use crate::tensor::{Fresh, Plain, Read, Tensor, access};

/// Elements to show, in row-major order.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) values: Vec<Scalar>,
    /// How many of each dimension.
    pub(super) sizes: Vec<usize>,
    /// Whether some of the dimension are left out, in its middle.
    pub(super) is_cut: Vec<bool>,
}

/// Reads what is shown of a tensor that has elements.
pub(super) fn shown(tensor: &Tensor, options: &PrintOptions) -> Result<Shown> {
    let summarize = usize::try_from(tensor.numel()).is_ok_and(|numel| numel > options.threshold);
    let (mut sizes, mut is_cut) = (Vec::new(), Vec::new());
    for &size in &tensor.sizes() {
        let size = size as usize;
        let cut = summarize && (options.edge_items == 0 || size > options.edge_items.saturating_mul(2));
        sizes.push(if cut { 2 * options.edge_items } else { size });
        is_cut.push(cut);
    }
    // Other devices lend no bytes.
    let tensor = if tensor.device() == Device::CPU { tensor.clone() } else { tensor.to(Device::CPU)? };
    let tensor = tensor.resolved()?;
    let values = access([&*tensor], [], Fresh::No, |[read], []| scalars(&read, tensor.dtype(), &sizes))?;
    Ok(Shown { values, sizes, is_cut })
}

/// The elements at the first and the last places of each dimension, `shown` in all.
fn scalars(read: &Read<'_>, dtype: ScalarType, shown: &[usize]) -> Result<Vec<Scalar>> {
    use ScalarType as S;
    match dtype {
        S::Bool => collect(read, shown, |value: u8| Scalar::Bool(value != 0)),
        S::UInt8 => collect::<u8>(read, shown, Scalar::from),
        S::Int8 => collect::<i8>(read, shown, Scalar::from),
        S::UInt16 => collect::<u16>(read, shown, Scalar::from),
        S::Int16 => collect::<i16>(read, shown, Scalar::from),
        S::UInt32 => collect::<u32>(read, shown, Scalar::from),
        S::Int32 => collect::<i32>(read, shown, Scalar::from),
        S::UInt64 => collect::<u64>(read, shown, Scalar::from),
        S::Int64 => collect::<i64>(read, shown, Scalar::from),
        S::Float16 => collect::<f16>(read, shown, Scalar::from),
        S::BFloat16 => collect::<bf16>(read, shown, Scalar::from),
        S::Float32 => collect::<f32>(read, shown, Scalar::from),
        S::Float64 => collect::<f64>(read, shown, Scalar::from),
        S::Float8E5M2 => collect::<F8E5M2>(read, shown, Scalar::from),
        S::Float8E4M3Fn => collect::<F8E4M3Fn>(read, shown, Scalar::from),
        S::Complex32 => collect::<Complex<f16>>(read, shown, Scalar::from),
        S::BComplex32 => collect::<Complex<bf16>>(read, shown, Scalar::from),
        S::Complex64 => collect::<Complex<f32>>(read, shown, Scalar::from),
        S::Complex128 => collect::<Complex<f64>>(read, shown, Scalar::from),
    }
}

fn collect<T: Plain>(
    read: &Read<'_>,
    shown: &[usize],
    scalar: impl Fn(T) -> Scalar + Copy,
) -> Result<Vec<Scalar>> {
    let elements = read.elements::<T>()?;
    let mut values = Vec::new();
    visit(read, shown, 0, 0, &mut |at| values.push(scalar(elements[at])));
    Ok(values)
}

/// Calls `f` with where each shown element is, row-major.
fn visit(read: &Read<'_>, shown: &[usize], dim: usize, at: usize, f: &mut dyn FnMut(usize)) {
    let Some(&count) = shown.get(dim) else { return f(at) };
    let (size, stride) = (read.sizes()[dim] as usize, read.strides()[dim] as usize);
    for place in 0..count {
        // In a dimension that is cut the second half are the last places.
        let place = if count < size && place >= count / 2 { size - count + place } else { place };
        visit(read, shown, dim + 1, at + place * stride, f);
    }
}
