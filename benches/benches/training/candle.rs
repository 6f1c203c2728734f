//! candle's side.

use candle_core::{D, DType, Device, Result, Tensor, Var};

/// One call of a case.
pub(super) fn call(case: &str) -> Box<dyn FnMut()> {
    let ran = "candle takes what the bench gives it";
    match case {
        "chain 1e3, forward" => {
            let x = leaf(&[1]).expect(ran);
            Box::new(move || drop(chain(&x, 1000).expect(ran)))
        }
        "chain 1e3, forward and backward" | "chain 1e5, forward and backward" => {
            let x = leaf(&[1]).expect(ran);
            let length = if case.starts_with("chain 1e3") { 1000 } else { 100_000 };
            // The end of a chain of 1e5 is a recursion as deep in candle: it gets a thread with the stack for it.
            if length > 1000 {
                return Box::new(move || {
                    let run = || drop(chain(&x, length).and_then(|y| y.backward()).expect(ran));
                    std::thread::scope(|scope| {
                        let thread = std::thread::Builder::new().stack_size(2 << 30);
                        thread.spawn_scoped(scope, run).expect("there is a thread").join().expect(ran);
                    });
                });
            }
            Box::new(move || drop(chain(&x, length).and_then(|y| y.backward()).expect(ran)))
        }
        "mlp step, 64x784-256-256-10" => {
            let sizes: [&[usize]; 6] = [&[256, 784], &[256], &[256, 256], &[256], &[10, 256], &[10]];
            let parameters = leaves(&sizes).expect(ran);
            let (input, target) = (numbers(&[64, 784]).expect(ran), classes(64).expect(ran));
            Box::new(move || mlp(&parameters, &input, &target).expect(ran))
        }
        _ => {
            let sizes: [&[usize]; 6] =
                [&[16, 1, 3, 3], &[16], &[32, 16, 3, 3], &[32], &[10, 32 * 7 * 7], &[10]];
            let parameters = leaves(&sizes).expect(ran);
            let (input, target) = (numbers(&[32, 1, 28, 28]).expect(ran), classes(32).expect(ran));
            Box::new(move || convnet(&parameters, &input, &target).expect(ran))
        }
    }
}

fn chain(x: &Var, length: usize) -> Result<Tensor> {
    let mut y = (x.as_tensor() * 1.0001)?;
    for _ in 1..length {
        y = (y * 1.0001)?;
    }
    Ok(y)
}

fn numbers(sizes: &[usize]) -> Result<Tensor> {
    let n: usize = sizes.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i % 1000) as f32 - 500.0) * 1e-4).collect();
    Tensor::from_vec(values, sizes, &Device::Cpu)
}

fn leaf(sizes: &[usize]) -> Result<Var> {
    Var::from_tensor(&numbers(sizes)?)
}

fn leaves(sizes: &[&[usize]]) -> Result<Vec<Var>> {
    sizes.iter().map(|sizes| leaf(sizes)).collect()
}

fn classes(n: u32) -> Result<Tensor> {
    Tensor::from_vec((0..n).map(|i| i % 10).collect(), n as usize, &Device::Cpu)?.to_dtype(DType::U32)
}

fn linear(x: &Tensor, layer: &[Var]) -> Result<Tensor> {
    x.matmul(&layer[0].t()?)?.broadcast_add(&layer[1])
}

/// As `candle_nn::loss::cross_entropy` does it.
fn cross_entropy(x: &Tensor, target: &Tensor) -> Result<Tensor> {
    let shifted = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?;
    let log_softmax = shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?;
    log_softmax.gather(&target.unsqueeze(1)?, 1)?.mean_all()?.neg()
}

fn descend(parameters: &[Var], loss: &Tensor) -> Result<()> {
    let grads = loss.backward()?;
    for parameter in parameters {
        if let Some(grad) = grads.get(parameter) {
            parameter.set(&(parameter.as_tensor() - (grad * 1e-3)?)?)?;
        }
    }
    Ok(())
}

fn mlp(parameters: &[Var], input: &Tensor, target: &Tensor) -> Result<()> {
    let mut x = input.clone();
    for (at, layer) in parameters.chunks(2).enumerate() {
        x = linear(&x, layer)?;
        if at < 2 {
            x = x.relu()?;
        }
    }
    descend(parameters, &cross_entropy(&x, target)?)
}

fn convnet(parameters: &[Var], input: &Tensor, target: &Tensor) -> Result<()> {
    let mut x = input.clone();
    for layer in parameters[..4].chunks(2) {
        let channels = layer[1].elem_count();
        x = x.conv2d(&layer[0], 1, 1, 1, 1)?.broadcast_add(&layer[1].reshape((1, channels, 1, 1))?)?;
        x = x.relu()?.max_pool2d(2)?;
    }
    let x = linear(&x.reshape((32, ()))?, &parameters[4..])?;
    descend(parameters, &cross_entropy(&x, target)?)
}
