use proptest::prelude::*;

use super::*;
use crate::linalg::matrices::MatrixLayout;

/// How the elements of an operand lie in memory.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rows,
    Cols,
    Apart,
    /// One element, or one row, seen in all places: for operands that are read.
    Repeated,
}

fn layout(order: Order, batch: usize, rows: usize, cols: usize) -> (MatrixLayout, usize) {
    let (r, c) = (rows as isize, cols as isize);
    let (row_stride, col_stride) = match order {
        Order::Rows => (c + 2, 1),
        Order::Cols => (1, r + 1),
        Order::Apart => (2 * c, 2),
        Order::Repeated => (0, 1),
    };
    let batch_stride = (2 * r + 2) * (2 * c + 2);
    let len = batch * batch_stride.unsigned_abs() + 1;
    (MatrixLayout { batch, rows, cols, batch_stride, row_stride, col_stride }, len)
}

fn place(layout: &MatrixLayout, batch: usize, row: usize, col: usize) -> usize {
    (batch as isize * layout.batch_stride
        + row as isize * layout.row_stride
        + col as isize * layout.col_stride) as usize
}

fn orders() -> impl Strategy<Value = [Order; 3]> {
    let written = prop_oneof![Just(Order::Rows), Just(Order::Cols), Just(Order::Apart)].boxed();
    let read = prop_oneof![written.clone(), Just(Order::Repeated)].boxed();
    [read.clone(), read, written]
}

/// Whole numbers, so that sums are exact in every order.
fn numbers(len: usize) -> Vec<i64> {
    (0..len).map(|i| (i * 7 % 11) as i64 - 5).collect()
}

fn check<T: KernelElement + std::fmt::Debug>(
    sizes: (usize, usize, usize, usize),
    orders: [Order; 3],
    alpha: i64,
    beta: i64,
    convert: impl Fn(i64) -> T,
) {
    let (batch, rows, cols, depth) = sizes;
    let (layout_a, len_a) = layout(orders[0], batch, rows, depth);
    let (layout_b, len_b) = layout(orders[1], batch, depth, cols);
    let (layout_c, len_c) = layout(orders[2], batch, rows, cols);
    let (a, b, c) = (numbers(len_a), numbers(len_b), numbers(len_c));
    let mut expected = c.clone();
    for n in 0..batch {
        for i in 0..rows {
            for j in 0..cols {
                let sum: i64 =
                    (0..depth).map(|k| a[place(&layout_a, n, i, k)] * b[place(&layout_b, n, k, j)]).sum();
                let c = &mut expected[place(&layout_c, n, i, j)];
                *c = beta * *c + alpha * sum;
            }
        }
    }
    let of = |numbers: Vec<i64>| numbers.into_iter().map(&convert).collect::<Vec<T>>();
    let (a, b, mut c) = (of(a), of(b), of(c));
    gemm(
        convert(alpha),
        Matrices::new(&a, 0, layout_a),
        Matrices::new(&b, 0, layout_b),
        convert(beta),
        MatricesMut::new(&mut c, 0, layout_c),
    );
    assert_eq!(c, of(expected), "{sizes:?} {orders:?}");
}

proptest! {
    #[test]
    fn products_equal_the_naive_loops(
        sizes in (1..4_usize, 0..40_usize, 0..70_usize, 0..30_usize),
        orders in orders(),
        alpha in -2..3_i64,
        beta in -2..3_i64,
    ) {
        check(sizes, orders, alpha, beta, |x| x as f32);
        check(sizes, orders, alpha, beta, |x| x as f64);
        check(sizes, orders, alpha, beta, |x| x);
        check(sizes, orders, alpha, beta, |x| x as u8);
    }
}

#[test]
fn blocks_of_packed_operands_meet() {
    for orders in [[Order::Rows; 3], [Order::Cols, Order::Cols, Order::Rows], [Order::Apart; 3]] {
        check((1, 300, 290, 800), orders, 1, 0, |x| x as f32);
        check((1, 30, 4200, 3), orders, 1, 1, |x| x as f64);
    }
}

#[test]
fn what_a_zero_beta_drops_is_not_read() {
    let a = [1.0_f32, 2.0];
    let mut c = [f32::NAN];
    let (row, col) = (MatrixLayout::row_major(1, 2), MatrixLayout::row_major(2, 1));
    let place = MatrixLayout::row_major(1, 1);
    gemm(1.0, Matrices::new(&a, 0, row), Matrices::new(&a, 0, col), 0.0, MatricesMut::new(&mut c, 0, place));
    assert_eq!(c, [5.0]);
}

#[test]
fn results_do_not_depend_on_threads() {
    let n = 150;
    let a: Vec<f32> = (0..n * n).map(|i| (i as f32).sin()).collect();
    let product = |threads| {
        crate::parallel::set_num_threads(threads);
        let square = MatrixLayout::row_major(n, n);
        let mut c = vec![0.0; n * n];
        let operand = Matrices::new(&a, 0, square);
        gemm(1.0, operand, operand.transposed(), 0.0, MatricesMut::new(&mut c, 0, square));
        c
    };
    let serial = product(1);
    assert_eq!(serial, product(3));
    crate::parallel::set_num_threads(0);
    assert_eq!(serial, product(2));
    crate::parallel::set_num_threads(0);
}
