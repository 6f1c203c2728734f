//! [`ConvTranspose`]: the gradient of a convolution as a layer, over one, two or three dimensions.

use aten::tensor::{ConvTranspose1dOptions, ConvTranspose2dInputOptions, ConvTranspose3dInputOptions};
use aten::{Result, Tensor, TensorOptions};

use super::conv::check_kernel;
use super::init;
use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What a [`ConvTranspose`] takes beside channels and kernel size.
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeConfig<const N: usize> {
    /// By how much the output is larger than the input. By default one.
    pub stride: [i64; N],
    /// By how much the output is cut off on both sides. By default none.
    pub padding: [i64; N],
    /// By how much the output is longer on one side. By default none.
    pub output_padding: [i64; N],
    /// How far apart the kernel's elements are. By default one.
    pub dilation: [i64; N],
    /// Into how many parts channels are divided. By default one.
    pub groups: i64,
    /// Adds a learnt bias. By default it does.
    pub bias: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl<const N: usize> Default for ConvTransposeConfig<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: [0; N],
            output_padding: [0; N],
            dilation: [1; N],
            groups: 1,
            bias: true,
            tensor: TensorOptions::default(),
        }
    }
}

/// A transposed convolution over `N` dimensions, one to three.
#[derive(Debug)]
pub struct ConvTranspose<const N: usize> {
    /// `[in_channels, out_channels / groups, kernel…]`.
    pub weight: Parameter,
    /// `[out_channels]`.
    pub bias: Option<Parameter>,
    config: ConvTransposeConfig<N>,
}

/// Over `[batch, channels, length]` (`torch.nn.ConvTranspose1d`).
pub type ConvTranspose1d = ConvTranspose<1>;
/// Over `[batch, channels, height, width]` (`torch.nn.ConvTranspose2d`).
pub type ConvTranspose2d = ConvTranspose<2>;
/// Over `[batch, channels, depth, height, width]` (`torch.nn.ConvTranspose3d`).
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// With a stride of one and no padding.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(in_channels: i64, out_channels: i64, kernel_size: [i64; N]) -> Result<Self> {
        Self::with(in_channels, out_channels, kernel_size, ConvTransposeConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when groups do not divide the channels; when a
    /// size is negative or there is no memory.
    pub fn with(
        in_channels: i64,
        out_channels: i64,
        kernel_size: [i64; N],
        config: ConvTransposeConfig<N>,
    ) -> Result<Self> {
        check_kernel(in_channels, out_channels, config.groups, &kernel_size)?;
        let mut sizes = vec![in_channels, out_channels / config.groups];
        sizes.extend(kernel_size);
        let (weight, bias) =
            init::linear_parameters(&sizes, config.bias.then_some(out_channels), config.tensor)?;
        Ok(Self { weight, bias, config })
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    crate::parts!(weight, bias);
}

impl<const N: usize> Forward for ConvTranspose<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
        let ConvTransposeConfig { stride, padding, output_padding, dilation, groups, .. } = &self.config;
        let groups = *groups;
        match N {
            1 => {
                let options =
                    ConvTranspose1dOptions { bias, stride, padding, output_padding, groups, dilation };
                input.conv_transpose1d_with(weight, options)
            }
            2 => {
                let options =
                    ConvTranspose2dInputOptions { bias, stride, padding, output_padding, groups, dilation };
                input.conv_transpose2d_input_with(weight, options)
            }
            _ => {
                let options =
                    ConvTranspose3dInputOptions { bias, stride, padding, output_padding, groups, dilation };
                input.conv_transpose3d_input_with(weight, options)
            }
        }
    }
}
