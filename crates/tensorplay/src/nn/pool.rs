//! [`MaxPool`] and [`AvgPool`] over one, two or three dimensions.

use aten::tensor::{
    AvgPool1dOptions, AvgPool2dOptions, AvgPool3dOptions, MaxPool1dOptions, MaxPool2dOptions,
    MaxPool3dOptions,
};
use aten::{Result, Tensor};

use super::module::{Forward, Module};

/// What a [`MaxPool`] takes beside its kernel size.
#[derive(Clone, Copy, Debug)]
pub struct MaxPoolConfig<const N: usize> {
    /// How far the window moves. By default its own size.
    pub stride: Option<[i64; N]>,
    /// By how much the input is padded with what is never the largest. By default nothing.
    pub padding: [i64; N],
    /// How far apart the window's elements are. By default one.
    pub dilation: [i64; N],
    /// Windows may reach over the end.
    pub ceil_mode: bool,
}

impl<const N: usize> Default for MaxPoolConfig<N> {
    fn default() -> Self {
        Self { stride: None, padding: [0; N], dilation: [1; N], ceil_mode: false }
    }
}

/// The largest element of each window, over `N` dimensions, one to three.
#[derive(Clone, Debug)]
pub struct MaxPool<const N: usize> {
    kernel_size: [i64; N],
    config: MaxPoolConfig<N>,
}

/// Over the last dimension (`torch.nn.MaxPool1d`).
pub type MaxPool1d = MaxPool<1>;
/// Over the last two dimensions (`torch.nn.MaxPool2d`).
pub type MaxPool2d = MaxPool<2>;
/// Over the last three dimensions (`torch.nn.MaxPool3d`).
pub type MaxPool3d = MaxPool<3>;

impl<const N: usize> MaxPool<N> {
    /// With windows side by side.
    pub fn new(kernel_size: [i64; N]) -> Self {
        Self::with(kernel_size, MaxPoolConfig::default())
    }

    /// As the config says.
    pub fn with(kernel_size: [i64; N], config: MaxPoolConfig<N>) -> Self {
        Self { kernel_size, config }
    }
}

impl<const N: usize> Module for MaxPool<N> {
    crate::parts!();
}

impl<const N: usize> Forward for MaxPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (kernel, MaxPoolConfig { stride, padding, dilation, ceil_mode }) =
            (&self.kernel_size, &self.config);
        let (stride, ceil_mode) = (stride.as_ref().unwrap_or(kernel), *ceil_mode);
        match N {
            1 => input.max_pool1d_with(kernel, MaxPool1dOptions { stride, padding, dilation, ceil_mode }),
            2 => input.max_pool2d_with(kernel, MaxPool2dOptions { stride, padding, dilation, ceil_mode }),
            _ => input.max_pool3d_with(kernel, MaxPool3dOptions { stride, padding, dilation, ceil_mode }),
        }
    }
}

/// What an [`AvgPool`] takes beside its kernel size.
#[derive(Clone, Copy, Debug)]
pub struct AvgPoolConfig<const N: usize> {
    /// How far the window moves. By default its own size.
    pub stride: Option<[i64; N]>,
    /// By how much the input is padded with zeros. By default nothing.
    pub padding: [i64; N],
    /// Windows may reach over the end.
    pub ceil_mode: bool,
    /// Zeros of the padding count in the mean. By default they do.
    pub count_include_pad: bool,
}

impl<const N: usize> Default for AvgPoolConfig<N> {
    fn default() -> Self {
        Self { stride: None, padding: [0; N], ceil_mode: false, count_include_pad: true }
    }
}

/// The mean of each window, over `N` dimensions, one to three.
#[derive(Clone, Debug)]
pub struct AvgPool<const N: usize> {
    kernel_size: [i64; N],
    config: AvgPoolConfig<N>,
}

/// Over the last dimension (`torch.nn.AvgPool1d`).
pub type AvgPool1d = AvgPool<1>;
/// Over the last two dimensions (`torch.nn.AvgPool2d`).
pub type AvgPool2d = AvgPool<2>;
/// Over the last three dimensions (`torch.nn.AvgPool3d`).
pub type AvgPool3d = AvgPool<3>;

impl<const N: usize> AvgPool<N> {
    /// With windows side by side.
    pub fn new(kernel_size: [i64; N]) -> Self {
        Self::with(kernel_size, AvgPoolConfig::default())
    }

    /// As the config says.
    pub fn with(kernel_size: [i64; N], config: AvgPoolConfig<N>) -> Self {
        Self { kernel_size, config }
    }
}

impl<const N: usize> Module for AvgPool<N> {
    crate::parts!();
}

impl<const N: usize> Forward for AvgPool<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (kernel, config) = (&self.kernel_size, &self.config);
        let AvgPoolConfig { stride, padding, ceil_mode, count_include_pad } = config;
        let stride = stride.as_ref().unwrap_or(kernel);
        let (ceil_mode, count_include_pad, divisor_override) = (*ceil_mode, *count_include_pad, None);
        match N {
            1 => input
                .avg_pool1d_with(kernel, AvgPool1dOptions { stride, padding, ceil_mode, count_include_pad }),
            2 => input.avg_pool2d_with(
                kernel,
                AvgPool2dOptions { stride, padding, ceil_mode, count_include_pad, divisor_override },
            ),
            _ => input.avg_pool3d_with(
                kernel,
                AvgPool3dOptions { stride, padding, ceil_mode, count_include_pad, divisor_override },
            ),
        }
    }
}
