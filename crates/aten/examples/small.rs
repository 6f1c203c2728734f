use aten::Tensor;
use std::time::Instant;
fn main() {
    for shape in [&[1i64][..], &[1000], &[1000000]] {
        let n: i64 = shape.iter().product();
        let a = Tensor::from_slice(&vec![1.0f32; n as usize], shape).unwrap();
        let b = Tensor::from_slice(&vec![1.0f32; n as usize], shape).unwrap();
        let iters = if n > 10000 { 200 } else { 300000 };
        for _ in 0..3 {
            let t = Instant::now();
            for _ in 0..iters {
                std::hint::black_box(a.add(&b).unwrap());
            }
            let x = t.elapsed().as_nanos() as f64 / iters as f64;
            let t = Instant::now();
            for _ in 0..iters {
                a.add_(&b).unwrap();
            }
            let y = t.elapsed().as_nanos() as f64 / iters as f64;
            println!("{n}: add {x:.1} ns, add_ {y:.1} ns");
        }
    }
}
