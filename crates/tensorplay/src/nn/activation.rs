//! Activations as modules: functions of one tensor that learn nothing. Those with settings have public fields with
//! PyTorch's defaults.

use aten::tensor::{
    CeluOptions, EluOptions, GeluOptions, HardshrinkOptions, HardtanhOptions, LeakyReluOptions,
    SoftplusOptions, SoftshrinkOptions,
};
use aten::{Result, Tensor};

use super::init;
use super::module::{Forward, Module};
use super::parameter::Parameter;

macro_rules! activation {
    ($(#[$docs:meta])* $Name:ident, |$input:ident| $body:expr) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Name;

        impl Module for $Name {
            crate::parts!();
        }

        impl Forward for $Name {
            fn forward(&self, $input: &Tensor) -> Result<Tensor> {
                $body
            }
        }
    };
    ($(#[$docs:meta])* $Name:ident { $($(#[$field_docs:meta])* $field:ident: $type:ty = $default:expr),* }, |$module:ident, $input:ident| $body:expr) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Name {
            $($(#[$field_docs])* pub $field: $type,)*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl Module for $Name {
            crate::parts!();
        }

        impl Forward for $Name {
            fn forward(&self, $input: &Tensor) -> Result<Tensor> {
                let $module = self;
                $body
            }
        }
    };
}

activation!(
    /// Gives back what it is given (`torch.nn.Identity`).
    Identity, |input| Ok(input.clone())
);
activation!(
    /// `max(x, 0)` (`torch.nn.ReLU`).
    Relu, |input| input.relu()
);
activation!(
    /// `min(max(x, 0), 6)` (`torch.nn.ReLU6`).
    Relu6, |input| input.relu6()
);
activation!(
    /// `1 / (1 + exp(-x))` (`torch.nn.Sigmoid`).
    Sigmoid, |input| input.sigmoid()
);
activation!(
    /// The hyperbolic tangent (`torch.nn.Tanh`).
    Tanh, |input| input.tanh()
);
activation!(
    /// `x sigmoid(x)` (`torch.nn.SiLU`).
    Silu, |input| input.silu()
);
activation!(
    /// `x tanh(softplus(x))` (`torch.nn.Mish`).
    Mish, |input| input.mish()
);
activation!(
    /// The logarithm of the sigmoid (`torch.nn.LogSigmoid`).
    LogSigmoid, |input| input.log_sigmoid()
);
activation!(
    /// The scaled exponential unit (`torch.nn.SELU`).
    Selu, |input| input.selu()
);
activation!(
    /// Three straight lines in place of the sigmoid (`torch.nn.Hardsigmoid`).
    Hardsigmoid, |input| input.hardsigmoid()
);
activation!(
    /// `x hardsigmoid(x)` (`torch.nn.Hardswish`).
    Hardswish, |input| input.hardswish()
);
activation!(
    /// `x / (1 + |x|)` (`torch.nn.Softsign`).
    Softsign, |input| input.div(&input.abs()?.add_scalar(1)?)
);
activation!(
    /// `x - tanh(x)` (`torch.nn.Tanhshrink`).
    Tanhshrink, |input| input.sub(&input.tanh()?)
);
activation!(
    /// `x Φ(x)` with the normal distribution's Φ (`torch.nn.GELU`).
    Gelu {
        /// Approximates Φ by a hyperbolic tangent (`approximate="tanh"`).
        tanh: bool = false
    },
    |gelu, input| input.gelu_with(GeluOptions { approximate: if gelu.tanh { "tanh" } else { "none" } })
);
activation!(
    /// `x`, less steep where it is negative (`torch.nn.LeakyReLU`).
    LeakyRelu {
        /// The slope there.
        negative_slope: f64 = 0.01
    },
    |leaky, input| input.leaky_relu_with(LeakyReluOptions { negative_slope: leaky.negative_slope.into() })
);
activation!(
    /// `x`, or `alpha (exp(x) - 1)` where it is negative (`torch.nn.ELU`).
    Elu {
        /// The bound below.
        alpha: f64 = 1.0
    },
    |elu, input| input.elu_with(EluOptions { alpha: elu.alpha.into(), ..Default::default() })
);
activation!(
    /// As [`Elu`], with one slope at zero for every `alpha` (`torch.nn.CELU`).
    Celu {
        /// The bound below.
        alpha: f64 = 1.0
    },
    |celu, input| input.celu_with(CeluOptions { alpha: celu.alpha.into() })
);
activation!(
    /// `log(1 + exp(beta x)) / beta` (`torch.nn.Softplus`).
    Softplus {
        /// How sharp the bend is.
        beta: f64 = 1.0,
        /// Above it, times `beta`, it is the identity.
        threshold: f64 = 20.0
    },
    |plus, input| {
        input.softplus_with(SoftplusOptions { beta: plus.beta.into(), threshold: plus.threshold.into() })
    }
);
activation!(
    /// `x` within bounds (`torch.nn.Hardtanh`).
    Hardtanh {
        /// The lower bound.
        min_val: f64 = -1.0,
        /// The upper bound.
        max_val: f64 = 1.0
    },
    |hard, input| {
        input.hardtanh_with(HardtanhOptions { min_val: hard.min_val.into(), max_val: hard.max_val.into() })
    }
);
activation!(
    /// Zero within `lambd` of zero (`torch.nn.Hardshrink`).
    Hardshrink {
        /// How far.
        lambd: f64 = 0.5
    },
    |shrink, input| input.hardshrink_with(HardshrinkOptions { lambd: shrink.lambd.into() })
);
activation!(
    /// Nearer to zero by `lambd`, and zero within it (`torch.nn.Softshrink`).
    Softshrink {
        /// How far.
        lambd: f64 = 0.5
    },
    |shrink, input| input.softshrink_with(SoftshrinkOptions { lambd: shrink.lambd.into() })
);
activation!(
    /// Exponentials along a dimension, divided by their sum (`torch.nn.Softmax`).
    Softmax {
        /// The dimension.
        dim: i64 = -1
    },
    |softmax, input| input.softmax(softmax.dim)
);
activation!(
    /// The logarithm of [`Softmax`] (`torch.nn.LogSoftmax`).
    LogSoftmax {
        /// The dimension.
        dim: i64 = -1
    },
    |softmax, input| input.log_softmax(softmax.dim)
);

/// A [`LeakyRelu`] whose slope is learnt (`torch.nn.PReLU`).
#[derive(Debug)]
pub struct Prelu {
    /// The slopes, one or one a channel, 0.25 at first.
    pub weight: Parameter,
}

impl Prelu {
    /// With so many slopes.
    ///
    /// # Errors
    /// When the number is negative or there is no memory.
    pub fn new(num_parameters: i64) -> Result<Self> {
        let weight = Tensor::empty(&[num_parameters], aten::TensorOptions::default())?;
        init::constant_(&weight, 0.25)?;
        Ok(Self { weight: Parameter::new(&weight)? })
    }
}

impl Module for Prelu {
    crate::parts!(weight);
}

impl Forward for Prelu {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.prelu(&self.weight)
    }
}
