//! [`Conv`]: convolutions over one, two or three dimensions.

use aten::tensor::{
    Conv1dOptions, Conv1dPaddingOptions, Conv2dOptions, Conv2dPaddingOptions, Conv3dOptions,
    Conv3dPaddingOptions,
};
use aten::{Error, Result, Tensor, TensorOptions};

use super::init;
use super::module::{Forward, Module};
use super::parameter::Parameter;

/// How far the input is padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding<const N: usize> {
    /// By so many on both sides of each dimension.
    Each([i64; N]),
    /// So that the output has the sizes of the input, for strides of one.
    Same,
}

/// What a [`Conv`] takes beside channels and kernel size.
#[derive(Clone, Copy, Debug)]
pub struct ConvConfig<const N: usize> {
    /// How far the kernel moves. By default one.
    pub stride: [i64; N],
    /// By default none.
    pub padding: Padding<N>,
    /// How far apart the kernel's elements are. By default one.
    pub dilation: [i64; N],
    /// Into how many parts channels are divided. By default one.
    pub groups: i64,
    /// Adds a learnt bias. By default it does.
    pub bias: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl<const N: usize> Default for ConvConfig<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: Padding::Each([0; N]),
            dilation: [1; N],
            groups: 1,
            bias: true,
            tensor: TensorOptions::default(),
        }
    }
}

/// A convolution over `N` dimensions, one to three.
#[derive(Debug)]
pub struct Conv<const N: usize> {
    /// `[out_channels, in_channels / groups, kernel…]`.
    pub weight: Parameter,
    /// `[out_channels]`.
    pub bias: Option<Parameter>,
    config: ConvConfig<N>,
}

/// Over `[batch, channels, length]` (`torch.nn.Conv1d`).
pub type Conv1d = Conv<1>;
/// Over `[batch, channels, height, width]` (`torch.nn.Conv2d`).
pub type Conv2d = Conv<2>;
/// Over `[batch, channels, depth, height, width]` (`torch.nn.Conv3d`).
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// With a stride of one and no padding.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(in_channels: i64, out_channels: i64, kernel_size: [i64; N]) -> Result<Self> {
        Self::with(in_channels, out_channels, kernel_size, ConvConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when groups do not divide the channels, or
    /// [`Padding::Same`] meets another stride than one; when a size is negative or there is no memory.
    pub fn with(
        in_channels: i64,
        out_channels: i64,
        kernel_size: [i64; N],
        config: ConvConfig<N>,
    ) -> Result<Self> {
        check_kernel(in_channels, out_channels, config.groups, &kernel_size)?;
        if config.padding == Padding::Same && config.stride != [1; N] {
            return Err(Error::invalid_argument("padding='same' is for convolutions with a stride of one"));
        }
        let mut sizes = vec![out_channels, in_channels / config.groups];
        sizes.extend(kernel_size);
        let (weight, bias) =
            init::linear_parameters(&sizes, config.bias.then_some(out_channels), config.tensor)?;
        Ok(Self { weight, bias, config })
    }
}

/// What a convolution and a transposed one ask of their channels and kernel.
pub(super) fn check_kernel(
    in_channels: i64,
    out_channels: i64,
    groups: i64,
    kernel_size: &[i64],
) -> Result<()> {
    if kernel_size.iter().any(|size| *size <= 0) {
        return Err(Error::invalid_argument(format!("no kernel has the size {kernel_size:?}")));
    }
    let divides = |channels: i64| channels >= 0 && channels % groups == 0;
    if groups > 0 && divides(in_channels) && divides(out_channels) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "{groups} groups do not divide {in_channels} channels in and {out_channels} channels out"
    )))
}

impl<const N: usize> Module for Conv<N> {
    crate::parts!(weight, bias);
}

impl<const N: usize> Forward for Conv<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
        let ConvConfig { stride, padding, dilation, groups, .. } = &self.config;
        let groups = *groups;
        match (N, padding) {
            (1, Padding::Each(padding)) => {
                input.conv1d_with(weight, Conv1dOptions { bias, stride, padding, dilation, groups })
            }
            (2, Padding::Each(padding)) => {
                input.conv2d_with(weight, Conv2dOptions { bias, stride, padding, dilation, groups })
            }
            (_, Padding::Each(padding)) => {
                input.conv3d_with(weight, Conv3dOptions { bias, stride, padding, dilation, groups })
            }
            (1, Padding::Same) => {
                let options = Conv1dPaddingOptions { bias, stride, padding: "same", dilation, groups };
                input.conv1d_padding_with(weight, options)
            }
            (2, Padding::Same) => {
                let options = Conv2dPaddingOptions { bias, stride, padding: "same", dilation, groups };
                input.conv2d_padding_with(weight, options)
            }
            (_, Padding::Same) => {
                let options = Conv3dPaddingOptions { bias, stride, padding: "same", dilation, groups };
                input.conv3d_padding_with(weight, options)
            }
        }
    }
}
