//! [`Bilinear`]: `yₖ = x₁ᵀ Wₖ x₂ + bₖ`.

use aten::{Error, Result, Tensor};

use super::init;
use super::linear::LinearConfig;
use super::module::Module;
use super::parameter::Parameter;

/// `yₖ = x₁ᵀ Wₖ x₂ + bₖ` over the last dimensions (`torch.nn.Bilinear`).
#[derive(Debug)]
pub struct Bilinear {
    /// `[out_features, in1_features, in2_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// With a bias.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when `in1_features` is not positive; when a size
    /// is negative or there is no memory.
    pub fn new(in1_features: i64, in2_features: i64, out_features: i64) -> Result<Self> {
        Self::with(in1_features, in2_features, out_features, LinearConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        in1_features: i64,
        in2_features: i64,
        out_features: i64,
        config: LinearConfig,
    ) -> Result<Self> {
        if in1_features <= 0 {
            return Err(Error::invalid_argument(format!("in1_features must be > 0, and is {in1_features}")));
        }
        let weight = Tensor::empty(&[out_features, in1_features, in2_features], config.tensor)?;
        let bias = config.bias.then(|| Tensor::empty(&[out_features], config.tensor)).transpose()?;
        let bound = 1.0 / (in1_features as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        bias.as_ref().map_or(Ok(()), |bias| init::uniform_(bias, -bound, bound))?;
        Ok(Self { weight: Parameter::new(&weight)?, bias: bias.as_ref().map(Parameter::new).transpose()? })
    }

    /// The result for two inputs whose sizes agree but for the last.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when they do not, or the last ones are not those of the weight.
    pub fn forward(&self, input1: &Tensor, input2: &Tensor) -> Result<Tensor> {
        let misfit = || {
            Error::shape("bilinear takes inputs that agree but for the last dimension, which is the weight's")
                .with_operator("bilinear")
                .with_tensors([input1, input2, self.weight.tensor()])
        };
        let (sizes1, sizes2, weight) = (input1.sizes(), input2.sizes(), self.weight.sizes());
        let (Some((last1, outer1)), Some((last2, outer2))) = (sizes1.split_last(), sizes2.split_last())
        else {
            return Err(misfit());
        };
        if outer1 != outer2 || weight.len() != 3 || weight[1..] != [*last1, *last2] {
            return Err(misfit());
        }
        let (flat1, flat2) = (input1.reshape(&[-1, *last1])?, input2.reshape(&[-1, *last2])?);
        // [out, batch, in2], then the product with each row of the second input.
        let halfway = flat1.matmul(&self.weight)?;
        let product = halfway.mul(&flat2)?.sum_dim(Some(&[-1]))?.transpose(0, 1)?;
        let product = match &self.bias {
            Some(bias) => product.add(bias)?,
            None => product,
        };
        let sizes: Vec<i64> = outer1.iter().copied().chain([weight[0]]).collect();
        product.reshape(&sizes)
    }
}

impl Module for Bilinear {
    crate::parts!(weight, bias);
}
