//! Normalisation of the channels of contiguous tensors: over the batch, or in groups for each sample.

use c10_core::{bf16, f16};

use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::iter::run::GRAIN_SIZE;
use crate::kernels::cpu::reduce::{Layout, MomentElement, Order, RealElement, Reduced, means_and_squares};
use crate::math::Float;
use crate::ops::Output;
use crate::parallel::{parallel_rows, parallel_slice};
use crate::tensor::{Fresh, Tensor, access};

/// The shape of a contiguous tensor: samples, channels, places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) places: usize,
}

impl Channels {
    /// Of a tensor of at least two dimensions.
    pub(crate) fn of(sizes: &[i64]) -> Self {
        let places: i64 = sizes[2..].iter().product();
        Self { samples: sizes[0] as usize, channels: sizes[1] as usize, places: places as usize }
    }

    /// How many elements a channel has in all samples.
    pub(crate) fn count(self) -> usize {
        self.samples * self.places
    }

    fn layout(self, is_reduced: [bool; 3]) -> Layout {
        let (channels, places) = (self.channels as i64, self.places as i64);
        Layout::new(
            &[self.samples as i64, channels, places],
            &[channels * places, places, 1],
            &is_reduced,
            Order::Any,
        )
    }
}

/// Mean and sum of squares around it of each channel.
pub(crate) fn channel_moments(input: &Tensor, shape: Channels) -> Result<Vec<(f64, f64)>> {
    dispatch!(input.dtype(), "batch_norm", [f16, bf16, f32, f64], T => {
        access([input], [], Fresh::Yes, |[x], []| {
            Ok(means_and_squares(x.slice::<T>()?, &shape.layout([true, false, true])))
        })
    })
}

/// Mean and sum of squares around it of each group of each sample.
pub(crate) fn group_moments(input: &Tensor, groups: usize, size: usize) -> Result<Vec<(f64, f64)>> {
    dispatch!(input.dtype(), "GroupNormKernelImpl", [f16, bf16, f32, f64], T => {
        access([input], [], Fresh::Yes, |[x], []| {
            let sizes = [groups as i64, size as i64];
            let layout = Layout::new(&sizes, &[size as i64, 1], &[false, true], Order::Any);
            Ok(means_and_squares(x.slice::<T>()?, &layout))
        })
    })
}

/// `out = (x − mean) · scale + shift`, for each channel of each sample by the factors that `of` has.
pub(crate) fn normalise_channels(
    input: &Tensor,
    out: &Output<'_>,
    shape: Channels,
    of: impl Fn(usize, usize) -> [f64; 3] + Sync,
) -> Result<()> {
    let n = shape.places;
    dispatch!(input.dtype(), "batch_norm", [f16, bf16, f32, f64], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            if n == 0 {
                return Ok(());
            }
            let rows = shape.samples * shape.channels;
            parallel_rows(rows, (GRAIN_SIZE / n).max(1), [(out, n)], |rows, [out]| {
                for (row, out) in rows.zip(out.chunks_exact_mut(n)) {
                    let [mean, scale, shift] =
                        of(row / shape.channels, row % shape.channels).map(<<T as RealElement>::Real as Float>::of);
                    for (out, x) in out.iter_mut().zip(&x[row * n..]) {
                        *out = T::narrow((x.widen() - mean) * scale + shift);
                    }
                }
            });
            Ok(())
        })
    })
}

/// `out = ((x − mean) · invstd) · weight + bias` in half precision, rounded after each step, for each channel by the
/// factors that `of` has.
pub(crate) fn normalise_channels_in_steps(
    input: &Tensor,
    out: &Output<'_>,
    shape: Channels,
    of: impl Fn(usize) -> [f64; 4] + Sync,
) -> Result<()> {
    let n = shape.places.max(1);
    dispatch!(input.dtype(), "batch_norm", [f16, bf16], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            for (row, (out, x)) in out.chunks_exact_mut(n).zip(x.chunks_exact(n)).enumerate() {
                let [mean, invstd, weight, bias] =
                    of(row % shape.channels).map(|factor| T::from_f32(factor as f32));
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = (x - mean) * invstd * weight + bias;
                }
            }
            Ok(())
        })
    })
}

/// For each channel of each sample, the sum of the gradient and that of its product with `x − mean`.
pub(crate) fn channel_gradients(
    grad: &Tensor,
    input: &Tensor,
    shape: Channels,
    mean: impl Fn(usize, usize) -> f64 + Sync,
) -> Result<Vec<(f64, f64)>> {
    let n = shape.places;
    dispatch!(input.dtype(), "batch_norm_backward", [f16, bf16, f32, f64], T => {
        access([grad, input], [], Fresh::Yes, |[grad, x], []| {
            let (grad, x) = (grad.slice::<T>()?, x.slice::<T>()?);
            let mut sums = vec![(0.0, 0.0); shape.samples * shape.channels];
            parallel_slice(&mut sums, (GRAIN_SIZE / n.max(1)).max(1), |first, sums| {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let row = first + i;
                    let mean = mean(row / shape.channels, row % shape.channels);
                    let pairs = grad[row * n..][..n].iter().zip(&x[row * n..][..n]);
                    *sum = pairs.fold((0.0, 0.0), |(sum, dot), (grad, x)| {
                        let grad = MomentElement::wide(*grad);
                        (sum + grad, dot + grad * (MomentElement::wide(*x) - mean))
                    });
                }
            });
            Ok(sums)
        })
    })
}

/// `out = grad · scale + x · slope + shift`, for each channel of each sample by the factors that `of` has.
pub(crate) fn group_gradient(
    grad: &Tensor,
    input: &Tensor,
    out: &Tensor,
    shape: Channels,
    of: impl Fn(usize, usize) -> [f64; 3] + Sync,
) -> Result<()> {
    let n = shape.places;
    dispatch!(input.dtype(), "batch_norm_backward", [f16, bf16, f32, f64], T => {
        access([grad, input], [out], Fresh::Yes, |[grad, x], [out]| {
            let (grad, x, out) = (grad.slice::<T>()?, x.slice::<T>()?, out.slice::<T>()?);
            if n == 0 {
                return Ok(());
            }
            let rows = shape.samples * shape.channels;
            parallel_rows(rows, (GRAIN_SIZE / n).max(1), [(out, n)], |rows, [out]| {
                for (row, out) in rows.zip(out.chunks_exact_mut(n)) {
                    let [scale, slope, shift] = of(row / shape.channels, row % shape.channels);
                    for ((out, grad), x) in out.iter_mut().zip(&grad[row * n..]).zip(&x[row * n..]) {
                        let value = MomentElement::wide(*grad) * scale + MomentElement::wide(*x) * slope + shift;
                        *out = <T as MomentElement>::of_mean(value);
                    }
                }
            });
            Ok(())
        })
    })
}
