use std::time::Instant;

use super::*;
use crate::linalg::matrices::MatrixLayout;

#[test]
#[ignore]
fn speed() {
    for threads in [1, 2] {
        crate::parallel::set_num_threads(threads);
        for n in [32, 64, 128, 256, 512, 1024, 2048] {
            let a: Vec<f32> = (0..n * n).map(|i| (i % 17) as f32).collect();
            let b: Vec<f32> = (0..n * n).map(|i| (i % 13) as f32).collect();
            let mut c = vec![0.0; n * n];
            let reps = ((2e8 / (2 * n * n * n) as f64) as usize).clamp(1, 1000);
            for transposed in [false, true] {
                let mut best = f64::MAX;
                for _ in 0..40 {
                    let start = Instant::now();
                    for _ in 0..reps {
                        let layout = MatrixLayout::row_major(n, n);
                        let mut b = Matrices::new(&b, 0, layout);
                        if transposed {
                            b = b.transposed();
                        }
                        gemm(1.0, Matrices::new(&a, 0, layout), b, 0.0, MatricesMut::new(&mut c, 0, layout));
                    }
                    best = best.min(start.elapsed().as_secs_f64() / reps as f64);
                }
                eprintln!("{threads} {n} {transposed} {:.1}", 2.0 * (n * n * n) as f64 / best / 1e9);
            }
        }
    }
}
