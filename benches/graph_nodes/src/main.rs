//! Makes chains of so many nodes, for tools that count what that takes: `graph_nodes CASE NODES`.

#![expect(clippy::print_stderr, reason = "a program: it says how it is called")]

use aten::Tensor;
use tensorplay_autograd::{TensorAutograd, init, no_grad};

/// A chain's nodes.
const LENGTH: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(case), Some(nodes)) = (arguments.next(), arguments.next()) else {
        eprintln!("graph_nodes chain_no_grad|chain_forward|chain_backward NODES");
        std::process::exit(2);
    };
    let nodes: u64 = nodes.parse()?;
    init()?;
    let x = Tensor::from_slice(&[0.5_f32], &[1])?;
    if case != "chain_no_grad" {
        x.requires_grad_(true)?;
    }
    for _ in 0..nodes / LENGTH {
        match case.as_str() {
            "chain_no_grad" => drop(no_grad(|| chain(&x))?),
            "chain_forward" => drop(chain(&x)?),
            "chain_backward" => {
                chain(&x)?.backward()?;
                x.set_grad(None)?;
            }
            _ => return Err(format!("{case:?} is no case").into()),
        }
    }
    Ok(())
}

fn chain(x: &Tensor) -> aten::Result<Tensor> {
    let mut y = x.mul_scalar(1.0001)?;
    for _ in 1..LENGTH {
        y = y.mul_scalar(1.0001)?;
    }
    Ok(y)
}
