//! Our side.

use aten::{Result, Tensor, TensorOptions};
use c10_core::ScalarType;
use tensorplay_autograd::{TensorAutograd, no_grad};

/// One call of a case.
pub(super) fn call(case: &str) -> Box<dyn FnMut()> {
    let ran = "the operators take what the bench gives them";
    match case {
        "chain 1e3, forward" => {
            let x = leaf(&[1]).expect(ran);
            Box::new(move || drop(chain(&x, 1000).expect(ran)))
        }
        "chain 1e3, forward and backward" | "chain 1e5, forward and backward" => {
            let x = leaf(&[1]).expect(ran);
            let length = if case.starts_with("chain 1e3") { 1000 } else { 100_000 };
            Box::new(move || {
                chain(&x, length).and_then(|y| y.backward()).expect(ran);
                x.set_grad(None).expect(ran);
            })
        }
        "mlp step, 64x784-256-256-10" => {
            let mlp = Mlp::new().expect(ran);
            Box::new(move || mlp.step().expect(ran))
        }
        _ => {
            let net = ConvNet::new().expect(ran);
            Box::new(move || net.step().expect(ran))
        }
    }
}

fn chain(x: &Tensor, length: usize) -> Result<Tensor> {
    let mut y = x.mul_scalar(1.0001)?;
    for _ in 1..length {
        y = y.mul_scalar(1.0001)?;
    }
    Ok(y)
}

/// Numbers of all sides: small, and of many values.
fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i % 1000) as f32 - 500.0) * 1e-4).collect();
    Tensor::from_slice(&values, sizes)
}

fn leaf(sizes: &[i64]) -> Result<Tensor> {
    numbers(sizes)?.requires_grad_(true)
}

fn classes(n: i64) -> Result<Tensor> {
    Tensor::arange(n, TensorOptions::default().dtype(ScalarType::Int64))?.remainder_scalar(10)
}

/// Descends by the gradients of the parameters.
fn descend(parameters: &[Tensor]) -> Result<()> {
    no_grad(|| {
        for parameter in parameters {
            let Some(grad) = parameter.grad() else { continue };
            aten::ops::handles::ADD__TENSOR.call(parameter, &grad, (-1e-3).into())?;
            parameter.set_grad(None)?;
        }
        Ok(())
    })
}

struct Mlp {
    parameters: Vec<Tensor>,
    input: Tensor,
    target: Tensor,
}

impl Mlp {
    fn new() -> Result<Self> {
        let sizes: [&[i64]; 6] = [&[256, 784], &[256], &[256, 256], &[256], &[10, 256], &[10]];
        let parameters = sizes.iter().map(|sizes| leaf(sizes)).collect::<Result<_>>()?;
        Ok(Self { parameters, input: numbers(&[64, 784])?, target: classes(64)? })
    }

    fn step(&self) -> Result<()> {
        let mut x = self.input.clone();
        for (at, layer) in self.parameters.chunks(2).enumerate() {
            x = linear(&x, layer)?;
            if at < 2 {
                x = x.relu()?;
            }
        }
        x.cross_entropy_loss(&self.target)?.backward()?;
        descend(&self.parameters)
    }
}

fn linear(x: &Tensor, layer: &[Tensor]) -> Result<Tensor> {
    aten::ops::handles::LINEAR.call(x, &layer[0], Some(&layer[1]))
}

struct ConvNet {
    parameters: Vec<Tensor>,
    input: Tensor,
    target: Tensor,
}

impl ConvNet {
    fn new() -> Result<Self> {
        let sizes: [&[i64]; 6] = [&[16, 1, 3, 3], &[16], &[32, 16, 3, 3], &[32], &[10, 32 * 7 * 7], &[10]];
        let parameters = sizes.iter().map(|sizes| leaf(sizes)).collect::<Result<_>>()?;
        Ok(Self { parameters, input: numbers(&[32, 1, 28, 28])?, target: classes(32)? })
    }

    fn step(&self) -> Result<()> {
        let mut x = self.input.clone();
        for layer in self.parameters[..4].chunks(2) {
            let (weight, bias) = (&layer[0], Some(&layer[1]));
            x = aten::ops::handles::CONV2D.call(&x, weight, bias, &[1, 1], &[1, 1], &[1, 1], 1)?;
            x = x.relu()?;
            x = aten::ops::handles::MAX_POOL2D.call(&x, &[2, 2], &[2, 2], &[0, 0], &[1, 1], false)?;
        }
        let x = linear(&x.reshape(&[32, -1])?, &self.parameters[4..])?;
        x.cross_entropy_loss(&self.target)?.backward()?;
        descend(&self.parameters)
    }
}
