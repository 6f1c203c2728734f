//! Distances between rows: the `p`-norms of their differences.

use crate::parallel::for_each_piece;
use crate::tensor::Plain;

/// A float that distances are of.
pub(crate) trait Distance: Plain + PartialOrd {
    fn of(number: f64) -> Self;
    fn to_f64(self) -> f64;
    fn difference(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn power(self, p: Self) -> Self;
    fn root(self) -> Self;
}

macro_rules! distances {
    ($($float:ty)*) => {$(
        impl Distance for $float {
            #[inline]
            fn of(number: f64) -> Self {
                number as $float
            }

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn difference(self, other: Self) -> Self {
                (self - other).abs()
            }

            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline]
            fn power(self, p: Self) -> Self {
                self.powf(p)
            }

            #[inline]
            fn root(self) -> Self {
                self.sqrt()
            }
        }
    )*};
}

distances!(f32 f64);

/// The `p`-norm of the difference of two rows.
pub(crate) fn distance<T: Distance>(a: &[T], b: &[T], p: f64) -> T {
    let zero = T::of(0.0);
    let differences = a.iter().zip(b).map(|(&a, &b)| a.difference(b));
    if p == 0.0 {
        return differences.fold(zero, |count, difference| {
            #[expect(clippy::eq_op, reason = "a NaN is the element that differs from itself")]
            let counted = difference != difference || difference != zero;
            count.plus(T::of(f64::from(u8::from(counted))))
        });
    }
    if p == 1.0 {
        return differences.fold(zero, T::plus);
    }
    if p == 2.0 {
        return differences.map(|difference| difference.power(T::of(2.0))).fold(zero, T::plus).root();
    }
    if p == f64::INFINITY {
        #[expect(clippy::eq_op, reason = "a NaN is the element that differs from itself")]
        return differences.fold(zero, |most, difference| {
            if difference > most || difference != difference { difference } else { most }
        });
    }
    let sum = differences.map(|difference| difference.power(T::of(p))).fold(zero, T::plus);
    sum.power(T::of(1.0 / p))
}

/// The distances of the rows of `a` and those of `b`, for each pair of matrices of the batch.
pub(crate) fn pairs<T: Distance>(a: &[T], b: &[T], sizes: [usize; 3], p: f64, out: &mut [T]) {
    let [rows_a, rows_b, len] = sizes;
    for_each_piece(out, rows_b, rows_b * len, |row, out| {
        let a = &a[row * len..][..len];
        let b = &b[row / rows_a * rows_b * len..][..rows_b * len];
        for (index, out) in out.iter_mut().enumerate() {
            *out = distance(a, &b[index * len..][..len], p);
        }
    });
}

/// The distances of each row and the rows after it.
pub(crate) fn within<T: Distance>(x: &[T], rows: usize, len: usize, p: f64, out: &mut [T]) {
    let mut out = out.iter_mut();
    for first in 0..rows {
        for second in first + 1..rows {
            if let Some(out) = out.next() {
                *out = distance(&x[first * len..][..len], &x[second * len..][..len], p);
            }
        }
    }
}

/// Adds to `sums` what the gradient of one distance gives to its first row; the second has the opposite.
pub(crate) fn add_gradient<T: Distance>(
    a: &[T],
    b: &[T],
    p: f64,
    grad: T,
    distance: T,
    mut add: impl FnMut(usize, f64),
) {
    let (grad, distance) = (grad.to_f64(), distance.to_f64());
    for (index, (&a, &b)) in a.iter().zip(b).enumerate() {
        let difference = a.to_f64() - b.to_f64();
        let sign = if difference > 0.0 { 1.0 } else { f64::from(-i8::from(difference < 0.0)) };
        let size = difference.abs();
        let share = if p == 0.0 {
            0.0
        } else if p == 1.0 {
            grad * sign
        } else if p == f64::INFINITY {
            grad * sign * f64::from(u8::from(size == distance))
        } else if distance == 0.0 {
            0.0
        } else if p == 2.0 {
            grad * difference / distance
        } else if p < 2.0 {
            if difference == 0.0 && p < 1.0 {
                0.0
            } else {
                sign * size.powf(p - 1.0) * grad / distance.powf(p - 1.0)
            }
        } else {
            difference * size.powf(p - 2.0) * grad / distance.powf(p - 1.0)
        };
        add(index, share);
    }
}
