//! Fourier transforms as they are asked for: lengths, norms by name, one dimension or several.

use c10_core::{Scalar, ScalarType};

use super::handles;
use super::matmul_composite::into;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::shape::{wrap_dim, wrap_dims};
use crate::tensor::{Tensor, default_dtype};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! one_dimension {
        ($($name:literal, $kind:ident;)*) => {$(
            lib.composite($name, |x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>| {
                along_one(Kind::$kind, x, n, dim, norm)
            })?;
            lib.all_backends(
                concat!($name, ".out"),
                |x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, out: &Tensor| {
                    into(out, &along_one(Kind::$kind, x, n, dim, norm)?)
                },
            )?;
        )*};
    }
    one_dimension! {
        "fft_fft", Fft; "fft_ifft", InverseFft; "fft_rfft", RealFft; "fft_irfft", InverseRealFft;
        "fft_hfft", HermitianFft; "fft_ihfft", InverseHermitianFft;
    }
    macro_rules! two_dimensions {
        ($($name:literal, $kind:ident;)*) => {$(
            lib.composite($name, |x: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>| {
                along(Kind::$kind, x, s, Some(dim), norm)
            })?;
            lib.all_backends(
                concat!($name, ".out"),
                |x: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>, out: &Tensor| {
                    into(out, &along(Kind::$kind, x, s, Some(dim), norm)?)
                },
            )?;
        )*};
    }
    two_dimensions! {
        "fft_fft2", Fft; "fft_ifft2", InverseFft; "fft_rfft2", RealFft; "fft_irfft2", InverseRealFft;
        "fft_hfft2", HermitianFft; "fft_ihfft2", InverseHermitianFft;
    }
    macro_rules! all_dimensions {
        ($($name:literal, $kind:ident;)*) => {$(
            lib.composite($name, |x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>| {
                along(Kind::$kind, x, s, dim, norm)
            })?;
            lib.all_backends(
                concat!($name, ".out"),
                |x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>, out: &Tensor| {
                    into(out, &along(Kind::$kind, x, s, dim, norm)?)
                },
            )?;
        )*};
    }
    all_dimensions! {
        "fft_fftn", Fft; "fft_ifftn", InverseFft; "fft_rfftn", RealFft; "fft_irfftn", InverseRealFft;
        "fft_hfftn", HermitianFft; "fft_ihfftn", InverseHermitianFft;
    }
    lib.composite("fft_fftshift", |x: &Tensor, dim: Option<&[i64]>| shifted(x, dim, |len| len / 2))?;
    lib.composite("fft_ifftshift", |x: &Tensor, dim: Option<&[i64]>| shifted(x, dim, |len| (len + 1) / 2))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fft,
    InverseFft,
    RealFft,
    InverseRealFft,
    HermitianFft,
    InverseHermitianFft,
}

impl Kind {
    fn is_forward(self) -> bool {
        matches!(self, Self::Fft | Self::RealFft | Self::HermitianFft)
    }

    /// Whether the result is real, and the argument half of what it is of.
    fn is_to_real(self) -> bool {
        matches!(self, Self::InverseRealFft | Self::HermitianFft)
    }

    /// The number of the normalization that a name has in this direction.
    fn norm(self, name: Option<&str>) -> Result<i64> {
        match (name.unwrap_or("backward"), self.is_forward()) {
            ("backward", true) | ("forward", false) => Ok(0),
            ("backward", false) | ("forward", true) => Ok(2),
            ("ortho", _) => Ok(1),
            (other, _) => Err(Error::invalid_argument(format!("Invalid normalization mode: \"{other}\""))),
        }
    }

    /// The argument in the dtype that is transformed.
    fn promoted(self, x: &Tensor, complex: bool) -> Result<Tensor> {
        let dtype = x.dtype();
        let float = if dtype.is_complex() || dtype.is_floating_point() { dtype } else { default_dtype() };
        let dtype = match float {
            ScalarType::Float32 if complex => ScalarType::Complex64,
            ScalarType::Float64 if complex => ScalarType::Complex128,
            ScalarType::Float32 | ScalarType::Float64 => float,
            ScalarType::Complex64 | ScalarType::Complex128 if complex => float,
            ScalarType::Complex64 | ScalarType::Complex128 => {
                return Err(Error::dtype("expects a real input tensor"));
            }
            other => return Err(Error::dtype(format!("Unsupported dtype {}", other.name()))),
        };
        if dtype == x.dtype() { Ok(x.clone()) } else { handles::TO_DTYPE.call(x, dtype, false, false, None) }
    }
}

fn check_len(len: i64) -> Result<i64> {
    if len >= 1 {
        return Ok(len);
    }
    Err(Error::invalid_argument(format!("Invalid number of data points ({len}) specified")))
}

/// Cut, or padded with zeros, to so many elements along each dimension.
fn resized(x: &Tensor, dims: &[i64], lens: &[i64]) -> Result<Tensor> {
    let mut x = x.clone();
    let mut padding = vec![0; 2 * x.rank()];
    for (&dim, &len) in dims.iter().zip(lens) {
        let own = x.sizes()[dim as usize];
        if own < len {
            padding[2 * (x.rank() - 1 - dim as usize) + 1] = len - own;
        } else if own > len {
            x = handles::NARROW.call(&x, dim, 0, len)?;
        }
    }
    if padding.iter().all(|&pad| pad == 0) {
        return Ok(x);
    }
    handles::CONSTANT_PAD_ND.call(&x, &padding, Scalar::Int(0))
}

fn along_one(kind: Kind, x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    if x.rank() == 0 {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    let real_to_full = matches!(kind, Kind::Fft | Kind::InverseFft) && !x.dtype().is_complex();
    if !real_to_full {
        return along(kind, x, n.as_ref().map(std::slice::from_ref), Some(&[dim]), norm);
    }
    // Half of the result of real numbers mirrors the other.
    let dim = wrap_dim(dim, x.rank())? as i64;
    let x = kind.promoted(x, false)?;
    let len = check_len(n.unwrap_or(x.sizes()[dim as usize]))?;
    let result = handles::_FFT_R2C.call(&resized(&x, &[dim], &[len])?, &[dim], kind.norm(norm)?, false)?;
    if kind.is_forward() { Ok(result) } else { handles::CONJ_PHYSICAL.call(&result) }
}

/// The dimensions, and the length of the transform along each.
fn dims_and_lens(
    x: &Tensor,
    s: Option<&[i64]>,
    dims: Option<&[i64]>,
) -> Result<(Vec<i64>, Vec<Option<i64>>)> {
    if x.rank() == 0
        && let Some([dim, ..]) = dims
    {
        return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
    }
    let rank = x.rank();
    let dims: Vec<i64> = match (dims, s) {
        (Some(dims), _) => wrap_dims(dims, rank)?.iter().map(|&dim| dim as i64).collect(),
        (None, Some(s)) if s.len() > rank => {
            return Err(Error::invalid_argument(format!(
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                s.len()
            )));
        }
        (None, Some(s)) => ((rank - s.len()) as i64..rank as i64).collect(),
        (None, None) => (0..rank as i64).collect(),
    };
    let Some(s) = s else {
        let none = vec![None; dims.len()];
        return Ok((dims, none));
    };
    if s.len() != dims.len() {
        return Err(Error::invalid_argument("When given, dim and shape arguments must have the same length"));
    }
    let lens = s.iter().map(|&len| if len == -1 { Ok(None) } else { check_len(len).map(Some) });
    let lens = lens.collect::<Result<_>>()?;
    Ok((dims, lens))
}

fn along(
    kind: Kind,
    x: &Tensor,
    s: Option<&[i64]>,
    dims: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let (dims, given) = dims_and_lens(x, s, dims)?;
    let norm = kind.norm(norm)?;
    let full = matches!(kind, Kind::Fft | Kind::InverseFft);
    let x = kind.promoted(x, full || kind.is_to_real())?;
    let sizes = x.sizes();
    let mut lens: Vec<i64> =
        dims.iter().zip(&given).map(|(&dim, len)| len.unwrap_or(sizes[dim as usize])).collect();
    let Some((&last, rest)) = dims.split_last() else {
        if full {
            return handles::CLONE.call(&x, None);
        }
        return Err(Error::invalid_argument("must transform at least one axis"));
    };
    if kind.is_to_real() {
        return to_real(kind, &x, &dims, lens, given.last().copied().flatten(), norm);
    }
    lens.iter().try_for_each(|&len| check_len(len).map(drop))?;
    let x = resized(&x, &dims, &std::mem::take(&mut lens))?;
    match kind {
        Kind::Fft | Kind::InverseFft => handles::_FFT_C2C.call(&x, &dims, norm, kind.is_forward()),
        Kind::RealFft => handles::_FFT_R2C.call(&x, &dims, norm, true),
        _ => {
            let half = handles::CONJ_PHYSICAL.call(&handles::_FFT_R2C.call(&x, &[last], norm, true)?)?;
            if rest.is_empty() { Ok(half) } else { handles::_FFT_C2C.call(&half, rest, norm, false) }
        }
    }
}

fn to_real(
    kind: Kind,
    x: &Tensor,
    dims: &[i64],
    mut lens: Vec<i64>,
    last_given: Option<i64>,
    norm: i64,
) -> Result<Tensor> {
    let (&last, rest) =
        dims.split_last().ok_or_else(|| Error::invalid_argument("must transform at least one axis"))?;
    let last_len = check_len(last_given.unwrap_or(2 * (x.sizes()[last as usize] - 1)))?;
    if let Some(len) = lens.last_mut() {
        *len = last_len / 2 + 1;
    }
    lens.iter().try_for_each(|&len| check_len(len).map(drop))?;
    let x = resized(x, dims, &lens)?;
    if kind == Kind::InverseRealFft {
        return handles::_FFT_C2R.call(&x, dims, norm, last_len);
    }
    let x = if rest.is_empty() { x } else { handles::_FFT_C2C.call(&x, rest, norm, true)? };
    handles::_FFT_C2R.call(&handles::CONJ_PHYSICAL.call(&x)?, &[last], norm, last_len)
}

fn shifted(x: &Tensor, dims: Option<&[i64]>, shift: impl Fn(i64) -> i64) -> Result<Tensor> {
    let dims: Vec<i64> = match dims {
        Some(dims) => wrap_dims(dims, x.rank())?.iter().map(|&dim| dim as i64).collect(),
        None => (0..x.rank() as i64).collect(),
    };
    let sizes = x.sizes();
    let shifts: Vec<i64> =
        dims.iter().map(|&dim| shift(sizes.get(dim as usize).copied().unwrap_or(1))).collect();
    handles::ROLL.call(x, &shifts, &dims)
}
