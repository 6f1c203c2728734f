//! Large operators of `f32` beside PyTorch's, and candle's and ndarray's (feature `peers`), all with equally many
//! threads.
//!
//! PyTorch is asked through `torch_large.py`, by the Python that `TORCH_PYTHON` names. `BENCH_THREADS`: how many
//! threads each side has; as many as the machine, unless said. Each round times every side once.
//!
//! `--quick` makes two rounds. A filter picks cases by name, as `tensor_large/matmul`.

#![expect(clippy::print_stdout, reason = "a program: it prints the table")]

use std::cell::RefCell;

use aten::Tensor;
use tensorplay_benches::arguments::Arguments;
use tensorplay_benches::sides::{ROUNDS, Sides};
use tensorplay_benches::torch::LargeOps;

const CASES: [&str; 14] = [
    "add 1e6",
    "mul 1e6",
    "exp 1e6",
    "sum 1e6",
    "add of transposed 512x2048",
    "broadcast add 512x2048 + 2048",
    "softmax 2048x512",
    "matmul 64",
    "matmul 128",
    "matmul 256",
    "matmul 512",
    "matmul 1024",
    "matmul 2048",
    "conv2d 8x64x56x56, 64 of 3x3",
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = Arguments::new(&words);
    let asked = || CASES.iter().filter(|case| arguments.selects(&format!("tensor_large/{case}")));
    if asked().next().is_none() {
        return;
    }
    let threads = std::env::var("BENCH_THREADS").ok().and_then(|threads| threads.parse().ok());
    let threads = threads.unwrap_or_else(aten::parallel::num_threads);
    aten::parallel::set_num_threads(threads);
    #[cfg(feature = "peers")]
    peers::set_num_threads(threads);
    println!("tensor_large: {threads} threads a side");
    let torch = match LargeOps::start("torch_large.py", threads) {
        Ok(torch) => Some(RefCell::new(torch)),
        Err(why) => {
            println!("skipped: PyTorch: {why}");
            None
        }
    };
    if cfg!(not(feature = "peers")) {
        println!("skipped: candle, ndarray: the feature `peers` is off");
    }
    let rounds = if arguments.quick { 2 } else { ROUNDS };
    for (i, case) in asked().enumerate() {
        let mut sides = Sides::new(*case);
        ours(&mut sides, case);
        sides.given("torch", || torch.as_ref()?.borrow_mut().time(case));
        #[cfg(feature = "peers")]
        peers::add(&mut sides, case);
        let row = sides.compare(rounds);
        if i == 0 {
            println!("\n{}", row.heading());
        }
        println!("{row}");
    }
}

/// The numbers of all sides: small, and of many values.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 1e-6).collect()
}

fn tensor(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_slice(&numbers(n as usize), sizes).expect("there is memory for the operands")
}

/// The size in `matmul 512`.
fn matmul_size(case: &str) -> Option<usize> {
    case.strip_prefix("matmul ")?.parse().ok()
}

fn ours(sides: &mut Sides<'_>, case: &str) {
    if let Some(n) = matmul_size(case) {
        let (a, b) = (tensor(&[n as i64, n as i64]), tensor(&[n as i64, n as i64]));
        return sides.side("ours", move || a.mm(&b));
    }
    let (a, b) = (tensor(&[1_000_000]), tensor(&[1_000_000]));
    let (m, tall, row) = (tensor(&[512, 2048]), tensor(&[2048, 512]), tensor(&[2048]));
    match case {
        "add 1e6" => sides.side("ours", move || a.add(&b)),
        "mul 1e6" => sides.side("ours", move || a.mul(&b)),
        "exp 1e6" => sides.side("ours", move || a.exp()),
        "sum 1e6" => sides.side("ours", move || a.sum()),
        "add of transposed 512x2048" => {
            let transposed = m.t().expect("a matrix has a transpose");
            sides.side("ours", move || transposed.add(&tall));
        }
        "broadcast add 512x2048 + 2048" => sides.side("ours", move || m.add(&row)),
        "softmax 2048x512" => sides.side("ours", move || tall.softmax(1)),
        _ => {
            let (image, kernel) = (tensor(&[8, 64, 56, 56]), tensor(&[64, 64, 3, 3]));
            sides.side("ours", move || {
                image.convolution(&kernel, None, &[1, 1], &[1, 1], &[1, 1], false, &[0, 0], 1)
            });
        }
    }
}

#[cfg(feature = "peers")]
mod peers {
    use candle_core::{D, Device, Tensor};
    use ndarray::{Array1, Array2, Axis};
    use tensorplay_benches::sides::Sides;

    use super::{matmul_size, numbers};

    /// Both have rayon's own pool.
    pub(super) fn set_num_threads(threads: usize) {
        if threads != std::thread::available_parallelism().map_or(1, Into::into) {
            // Read when the pool is first used, in this process and in candle's matrix products alike.
            println!("note: candle and ndarray take RAYON_NUM_THREADS={threads} from the environment");
        }
    }

    pub(super) fn add(sides: &mut Sides<'_>, case: &str) {
        candle(sides, case);
        ndarray(sides, case);
    }

    fn tensor(sizes: &[usize]) -> Tensor {
        Tensor::from_vec(numbers(sizes.iter().product()), sizes, &Device::Cpu).expect("there is memory")
    }

    fn candle(sides: &mut Sides<'_>, case: &str) {
        if let Some(n) = matmul_size(case) {
            let (a, b) = (tensor(&[n, n]), tensor(&[n, n]));
            return sides.side("candle", move || a.matmul(&b));
        }
        let (a, b) = (tensor(&[1_000_000]), tensor(&[1_000_000]));
        let (m, tall, row) = (tensor(&[512, 2048]), tensor(&[2048, 512]), tensor(&[2048]));
        match case {
            "add 1e6" => sides.side("candle", move || a.add(&b)),
            "mul 1e6" => sides.side("candle", move || a.mul(&b)),
            "exp 1e6" => sides.side("candle", move || a.exp()),
            "sum 1e6" => sides.side("candle", move || a.sum_all()),
            "add of transposed 512x2048" => {
                let transposed = m.t().expect("a matrix has a transpose");
                sides.side("candle", move || transposed.add(&tall));
            }
            "broadcast add 512x2048 + 2048" => sides.side("candle", move || m.broadcast_add(&row)),
            "softmax 2048x512" => sides.side("candle", move || softmax(&tall)),
            _ => {
                let (image, kernel) = (tensor(&[8, 64, 56, 56]), tensor(&[64, 64, 3, 3]));
                sides.side("candle", move || image.conv2d(&kernel, 1, 1, 1, 1));
            }
        }
    }

    /// As `candle_nn::ops::softmax` does it.
    fn softmax(x: &Tensor) -> candle_core::Result<Tensor> {
        let exps = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
        exps.broadcast_div(&exps.sum_keepdim(D::Minus1)?)
    }

    fn ndarray(sides: &mut Sides<'_>, case: &str) {
        let vector = |n: usize| Array1::from(numbers(n));
        let matrix = |rows: usize, columns: usize| {
            Array2::from_shape_vec((rows, columns), numbers(rows * columns)).expect("as many as it has")
        };
        if let Some(n) = matmul_size(case) {
            let (a, b) = (matrix(n, n), matrix(n, n));
            return sides.side("ndarray", move || a.dot(&b));
        }
        let (a, b) = (vector(1_000_000), vector(1_000_000));
        let (m, tall, row) = (matrix(512, 2048), matrix(2048, 512), vector(2048));
        match case {
            "add 1e6" => sides.side("ndarray", move || &a + &b),
            "mul 1e6" => sides.side("ndarray", move || &a * &b),
            "exp 1e6" => sides.side("ndarray", move || a.mapv(f32::exp)),
            "sum 1e6" => sides.side("ndarray", move || a.sum()),
            "add of transposed 512x2048" => sides.side("ndarray", move || &m.t() + &tall),
            "broadcast add 512x2048 + 2048" => sides.side("ndarray", move || &m + &row),
            "softmax 2048x512" => sides.side("ndarray", move || {
                let max = tall.map_axis(Axis(1), |row| row.fold(f32::NEG_INFINITY, |a, b| a.max(*b)));
                let exps = (&tall - &max.insert_axis(Axis(1))).mapv(f32::exp);
                let sums = exps.sum_axis(Axis(1)).insert_axis(Axis(1));
                exps / sums
            }),
            _ => sides.given("ndarray", || None),
        }
    }
}
