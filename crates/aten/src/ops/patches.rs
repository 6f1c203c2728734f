//! Patches of images as columns, and back; and elements of channels that become places, and back.

use c10_core::{Complex, MemoryFormat, bf16, f16};

use super::images::{check_image, image, numbers};
use super::{Dest, Made};
use crate::conv::geometry::{ConvGeometry, output_len};
use crate::conv::patches::{gather, scatter_add};
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::sum::Summed;
use crate::parallel::for_each_piece;
use crate::tensor::{Dims, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("im2col", |x: &Tensor, k: &[i64], d: &[i64], p: &[i64], s: &[i64]| {
        im2col(Dest::New, x, k, d, p, s).map(Made::new_tensor)
    })?;
    lib.cpu_meta("im2col.out", |x: &Tensor, k: &[i64], d: &[i64], p: &[i64], s: &[i64], out: &Tensor| {
        im2col(Dest::Out(out), x, k, d, p, s).map(drop)
    })?;
    lib.cpu_meta("col2im", |x: &Tensor, size: &[i64], k: &[i64], d: &[i64], p: &[i64], s: &[i64]| {
        col2im(Dest::New, x, size, k, d, p, s).map(Made::new_tensor)
    })?;
    lib.cpu_meta(
        "col2im.out",
        |x: &Tensor, size: &[i64], k: &[i64], d: &[i64], p: &[i64], s: &[i64], out: &Tensor| {
            col2im(Dest::Out(out), x, size, k, d, p, s).map(drop)
        },
    )
}

/// The geometry of patches of one channel, over an image of `size`.
fn geometry(
    size: &[i64],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<ConvGeometry> {
    let kernel = numbers("kernel_size", kernel, 2)?;
    let dilation = numbers("dilation", dilation, 2)?;
    let padding = numbers("padding", padding, 2)?;
    let stride = numbers("stride", stride, 2)?;
    for (name, values, least) in [
        ("kernel_size", &kernel, 1),
        ("dilation", &dilation, 1),
        ("padding", &padding, 0),
        ("stride", &stride, 1),
    ] {
        if values.iter().any(|&value| value < least) {
            return Err(Error::invalid_argument(format!(
                "{name} must be at least {least}, but got {values:?}"
            )));
        }
    }
    let flat = |values: &[i64], default: usize| [default, values[0] as usize, values[1] as usize];
    let mut geometry = ConvGeometry {
        batch: 1,
        groups: 1,
        channels_in: 1,
        channels_out: 1,
        input: flat(size, 1),
        kernel: flat(&kernel, 1),
        stride: flat(&stride, 1),
        padding: flat(&padding, 0),
        dilation: flat(&dilation, 1),
        output: [1; 3],
    };
    for dim in 1..3 {
        let g = &geometry;
        let len = output_len(g.input[dim], g.kernel[dim], g.stride[dim], g.padding[dim], g.dilation[dim]);
        geometry.output[dim] = len.ok_or_else(|| {
            Error::shape(format!(
                "an image of {size:?} with kernel_size {kernel:?}, dilation {dilation:?} and padding {padding:?} has \
                 no patch"
            ))
        })?;
    }
    Ok(geometry)
}

fn im2col(
    dest: Dest<'_>,
    x: &Tensor,
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Made> {
    check_image(x, 2)?;
    let sizes = x.sizes();
    let lead = sizes.len() - 2;
    let geometry = geometry(&sizes[lead..], kernel, dilation, padding, stride)?;
    let (taps, outputs, inputs) = (geometry.taps(), geometry.output_len(), geometry.input_len());
    let overflow = || Error::new(ErrorKind::Overflow, "the number of patches overflows");
    let rows =
        i64::try_from(taps).ok().and_then(|taps| taps.checked_mul(sizes[lead - 1])).ok_or_else(overflow)?;
    let mut columns = Dims::from(&sizes[..lead - 1]);
    columns.extend([rows, outputs as i64]);
    c10_core::bytes::numel(&columns)?;
    image(dest, columns, x.dtype(), MemoryFormat::Contiguous, [x], |[x], out| {
        dispatch!(
            plain(x.dtype()),
            "im2col",
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
            T => {
                let x = x.slice::<T>()?;
                for_each_piece(out.slice::<T>()?, outputs, outputs, |row, columns| {
                    let channel = &x[row / taps * inputs..][..inputs];
                    gather(&geometry, geometry.tap(row % taps), channel, columns, T::default());
                });
                Ok(())
            }
        )
    })
}

/// `bool`s are moved as bytes.
fn plain(dtype: c10_core::ScalarType) -> c10_core::ScalarType {
    if dtype == c10_core::ScalarType::Bool { c10_core::ScalarType::UInt8 } else { dtype }
}

fn col2im(
    dest: Dest<'_>,
    x: &Tensor,
    size: &[i64],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Made> {
    let size = numbers("output_size", size, 2)?;
    if size.iter().any(|&len| len < 1) {
        return Err(Error::invalid_argument(format!("output_size must be positive, got {size:?}")));
    }
    c10_core::bytes::numel(&size)?;
    let geometry = geometry(&size, kernel, dilation, padding, stride)?;
    let (taps, outputs, inputs) = (geometry.taps(), geometry.output_len(), geometry.input_len());
    let columns = x.sizes();
    let lead = columns.len().saturating_sub(2);
    if !(2..=3).contains(&columns.len()) || columns[lead..].contains(&0) {
        return Err(Error::shape(format!(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions, \
             but got: {columns:?}"
        )));
    }
    if columns[lead] % taps as i64 != 0 || columns[lead + 1] != outputs as i64 {
        return Err(Error::shape(format!(
            "columns {columns:?} do not fit a kernel of {taps} elements at {outputs} places"
        )));
    }
    let mut sizes = Dims::from(&columns[..lead]);
    sizes.extend([columns[lead] / taps as i64, size[0], size[1]]);
    c10_core::bytes::numel(&sizes)?;
    image(dest, sizes, x.dtype(), MemoryFormat::Contiguous, [x], |[x], out| {
        dispatch!(
            x.dtype(),
            "col2im",
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
            T => {
                let x = x.slice::<T>()?;
                for_each_piece(out.slice::<T>()?, inputs, taps * outputs, |channel, out| {
                    let columns = &x[channel * taps * outputs..][..taps * outputs];
                    add_columns::<T>(&geometry, columns, out);
                });
                Ok(())
            }
        )
    })
}

fn add_columns<T: Summed>(geometry: &ConvGeometry, columns: &[T], out: &mut [T]) {
    let mut sums = vec![T::Sum::default(); out.len()];
    for (tap, column) in columns.chunks_exact(geometry.output_len()).enumerate() {
        scatter_add(geometry, geometry.tap(tap), column, &mut sums, |sum, value| T::add(sum, value.widen()));
    }
    out.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
}
