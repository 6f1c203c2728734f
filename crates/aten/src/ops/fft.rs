//! Fourier transforms: their sizes and strides.

use c10_core::{Complex, ScalarType};

use super::handles;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::no_kernel;
use crate::kernels;
use crate::kernels::cpu::blend::Weight;
use crate::kernels::cpu::fft::transform_dim;
use crate::tensor::{Dims, Fresh, New, Plain, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("_fft_c2c", c2c)?;
    lib.cpu_meta("_fft_r2c", r2c)?;
    lib.cpu_meta("_fft_c2r", c2r)
}

/// The dimensions, each of at least one element.
fn transformed_dims(x: &Tensor, dims: &[i64]) -> Result<Vec<usize>> {
    let wrapped = crate::shape::wrap_dims(dims, x.rank())?.to_vec();
    match wrapped.iter().find(|&&dim| x.rank() == 0 || x.sizes()[dim] < 1) {
        None => Ok(wrapped),
        Some(dim) => Err(Error::shape(format!("Invalid number of data points (0) in dimension {dim}"))),
    }
}

/// What results are multiplied by: for `normalization` 0 one, for 1 the root of that for 2, one over the count.
fn scale(normalization: i64, counts: impl Iterator<Item = i64>) -> Result<f64> {
    let count: f64 = counts.map(|count| count as f64).product();
    match normalization {
        0 => Ok(1.0),
        1 => Ok(1.0 / count.sqrt()),
        2 => Ok(1.0 / count),
        other => Err(Error::invalid_argument(format!("Unsupported normalization type: {other}"))),
    }
}

/// Strides of a result: dimensions that are not transformed first, by falling stride of the argument; then the
/// transformed ones in their order.
fn result_strides(sizes: &[i64], strides: &[i64], dims: &[usize]) -> Result<Dims> {
    let mut order: Vec<usize> = (0..sizes.len()).filter(|dim| !dims.contains(dim)).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(strides[dim]));
    order.extend(dims);
    let permuted: Dims = order.iter().map(|&dim| sizes[dim]).collect();
    let dense = crate::shape::contiguous_strides(&permuted)?;
    let mut result = Dims::filled(0, sizes.len());
    order.iter().zip(&dense).for_each(|(&dim, &stride)| result[dim] = stride);
    Ok(result)
}

/// The dimensions by falling stride, but for the last `kept`.
fn sorted(x: &Tensor, dims: &[usize], kept: usize) -> Vec<usize> {
    let strides = x.strides();
    let mut sorted = dims.to_vec();
    let free = sorted.len() - kept;
    sorted[..free].sort_by_key(|&dim| std::cmp::Reverse(strides[dim]));
    sorted
}

/// A new tensor with these strides, that `fill` writes row-major.
fn filled(
    sizes: Dims,
    strides: Dims,
    dtype: ScalarType,
    like: &Tensor,
    fill: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    let out = New::strided(sizes.clone(), strides, dtype, like.device()).make()?;
    if out.is_meta() || out.numel() == 0 {
        return Ok(out);
    }
    if out.is_contiguous() {
        fill(&out)?;
        return Ok(out);
    }
    let row_major = New::contiguous(sizes, dtype, like.device()).make()?;
    fill(&row_major)?;
    kernels::copy_fresh(&out, &row_major)?;
    Ok(out)
}

fn lens(sizes: &[i64]) -> Vec<usize> {
    sizes.iter().map(|&size| size as usize).collect()
}

/// Calls `$body` with the float type of a dtype.
macro_rules! floats {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ScalarType::Float32 | ScalarType::Complex64 => {
                type $T = f32;
                $body
            }
            ScalarType::Float64 | ScalarType::Complex128 => {
                type $T = f64;
                $body
            }
            other => Err(no_kernel("fft", other)),
        }
    };
}

fn check_dtype(x: &Tensor, complex: bool) -> Result<ScalarType> {
    match (x.dtype(), complex) {
        (ScalarType::Complex64, true) => Ok(ScalarType::Float32),
        (ScalarType::Complex128, true) => Ok(ScalarType::Float64),
        (ScalarType::Float32, false) => Ok(ScalarType::Complex64),
        (ScalarType::Float64, false) => Ok(ScalarType::Complex128),
        (other, _) => Err(Error::dtype(format!(
            "expected a {} tensor of single or double precision, but got {}",
            if complex { "complex" } else { "real" },
            other.name()
        ))),
    }
}

fn c2c(x: &Tensor, dims: &[i64], normalization: i64, forward: bool) -> Result<Tensor> {
    check_dtype(x, true)?;
    if dims.is_empty() {
        return handles::CLONE.call(x, None);
    }
    let dims = transformed_dims(x, dims)?;
    let sizes = x.sizes();
    let scale = scale(normalization, dims.iter().map(|&dim| sizes[dim]))?;
    let strides = result_strides(&sizes, &x.strides(), &sorted(x, &dims, 0))?;
    filled(sizes.clone(), strides, x.dtype(), x, |out| {
        let x = x.to_contiguous()?;
        floats!(x.dtype(), T => access([&x], [out], Fresh::Yes, |[x], [out]| {
            let out = out.slice::<Complex<T>>()?;
            out.copy_from_slice(x.slice::<Complex<T>>()?);
            transform(out, &lens(&sizes), &dims, forward, scale);
            Ok(())
        }))
    })
}

/// Transforms along each dimension, and scales in the end.
fn transform<T: Weight>(data: &mut [Complex<T>], sizes: &[usize], dims: &[usize], forward: bool, scale: f64) {
    for (index, &dim) in dims.iter().enumerate() {
        let scale = if index + 1 == dims.len() { T::of(scale) } else { T::of(1.0) };
        transform_dim(data, sizes, dim, forward, scale);
    }
}

fn r2c(x: &Tensor, dims: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
    let dtype = check_dtype(x, false)?;
    let dims = transformed_dims(x, dims)?;
    let Some(&last) = dims.last() else {
        return Err(Error::invalid_argument("a transform needs a dimension"));
    };
    let sizes = x.sizes();
    let scale = scale(normalization, dims.iter().map(|&dim| sizes[dim]))?;
    let mut halved = sizes.clone();
    if onesided {
        halved[last] = sizes[last] / 2 + 1;
    }
    let strides = result_strides(&halved, &x.strides(), &sorted(x, &dims, 1))?;
    filled(halved.clone(), strides, dtype, x, |out| {
        let x = x.to_contiguous()?;
        floats!(x.dtype(), T => access([&x], [out], Fresh::Yes, |[x], [out]| {
            let mut data: Vec<Complex<T>> = x.slice::<T>()?.iter().map(|&re| Complex::from(re)).collect();
            // The last dimension alone is real: it goes first, and the rest on what is kept of it.
            transform_dim(&mut data, &lens(&sizes), last, true, 1.0);
            drop_imaginary(&mut data, &lens(&sizes), last, sizes[last] as usize);
            let out = out.slice::<Complex<T>>()?;
            keep_half(&data, &lens(&sizes), last, halved[last] as usize, out);
            let rest = &dims[..dims.len() - 1];
            transform(out, &lens(&halved), rest, true, scale);
            if rest.is_empty() {
                let scale = scale as T;
                out.iter_mut().for_each(|value| *value = value.map(|part| part * scale));
            }
            Ok(())
        }))
    })
}

/// Copies the first `kept` elements along a dimension.
fn keep_half<T: Plain>(from: &[T], sizes: &[usize], dim: usize, kept: usize, to: &mut [T]) {
    let inner: usize = sizes[dim + 1..].iter().product();
    let lines = from.chunks_exact(sizes[dim] * inner);
    for (from, to) in lines.zip(to.chunks_exact_mut(kept * inner)) {
        to.copy_from_slice(&from[..kept * inner]);
    }
}

fn c2r(x: &Tensor, dims: &[i64], normalization: i64, last_len: i64) -> Result<Tensor> {
    let dtype = check_dtype(x, true)?;
    let wrapped = transformed_dims(x, dims)?;
    let Some((&last, rest)) = wrapped.split_last() else {
        return Err(Error::invalid_argument("a transform needs a dimension"));
    };
    if last_len < 1 {
        return Err(Error::shape(format!("Invalid number of data points ({last_len}) specified")));
    }
    let half = last_len / 2 + 1;
    if x.sizes()[last] < half {
        return Err(Error::shape(format!(
            "{half} elements are needed in dimension {last}, got {:?}",
            x.sizes()
        )));
    }
    let x = if rest.is_empty() {
        x.clone()
    } else {
        c2c(x, &rest.iter().map(|&dim| dim as i64).collect::<Vec<_>>(), normalization, false)?
    };
    let scale = scale(normalization, std::iter::once(last_len))?;
    let sizes = x.sizes();
    let mut full = sizes.clone();
    full[last] = last_len;
    c10_core::bytes::numel(&full)?;
    let strides = result_strides(&full, &x.strides(), &[last])?;
    filled(full.clone(), strides, dtype, &x, |out| {
        let x = x.to_contiguous()?;
        floats!(x.dtype(), T => access([&x], [out], Fresh::Yes, |[x], [out]| {
            let mut data = mirrored::<T>(x.slice()?, &lens(&sizes), last, last_len as usize);
            drop_imaginary(&mut data, &lens(&full), last, last_len as usize);
            transform_dim(&mut data, &lens(&full), last, false, scale as T);
            out.slice::<T>()?.iter_mut().zip(&data).for_each(|(to, value)| *to = value.re);
            Ok(())
        }))
    })
}

/// All `len` elements along a dimension of which the first half are given: the rest are their conjugates.
fn mirrored<T: Weight>(from: &[Complex<T>], sizes: &[usize], dim: usize, len: usize) -> Vec<Complex<T>> {
    let inner: usize = sizes[dim + 1..].iter().product();
    let mut full = Vec::with_capacity(from.len() / sizes[dim] * len);
    for from in from.chunks_exact(sizes[dim] * inner) {
        for index in 0..len {
            if index <= len / 2 {
                full.extend_from_slice(&from[index * inner..][..inner]);
            } else {
                let given = &from[(len - index) * inner..][..inner];
                full.extend(given.iter().map(|value| Complex::new(value.re, -value.im)));
            }
        }
    }
    full
}

/// Clears the imaginary parts of the frequency 0 and the highest of an even number of real numbers: they have
/// none, whatever rounding and infinities made of them.
fn drop_imaginary<T: Weight>(data: &mut [Complex<T>], sizes: &[usize], dim: usize, len: usize) {
    let inner: usize = sizes[dim + 1..].iter().product();
    for piece in data.chunks_exact_mut(len * inner) {
        piece[..inner].iter_mut().for_each(|value| value.im = T::default());
        if len.is_multiple_of(2) {
            piece[len / 2 * inner..][..inner].iter_mut().for_each(|value| value.im = T::default());
        }
    }
}
