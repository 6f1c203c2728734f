//! Orthogonal polynomials, by their recurrences.

/// A family of orthogonal polynomials (`torch.special.*_polynomial_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Orthogonal {
    /// Chebyshev's of the first kind.
    ChebyshevT,
    /// Chebyshev's of the second kind.
    ChebyshevU,
    /// Chebyshev's of the third kind.
    ChebyshevV,
    /// Chebyshev's of the fourth kind.
    ChebyshevW,
    /// Hermite's, the physicists'.
    HermiteH,
    /// Hermite's, the probabilists'.
    HermiteHe,
    /// Laguerre's.
    LaguerreL,
    /// Legendre's.
    LegendreP,
    /// Chebyshev's of the first kind, moved to 0 to 1.
    ShiftedChebyshevT,
    /// Chebyshev's of the second kind, moved to 0 to 1.
    ShiftedChebyshevU,
    /// Chebyshev's of the third kind, moved to 0 to 1.
    ShiftedChebyshevV,
    /// Chebyshev's of the fourth kind, moved to 0 to 1.
    ShiftedChebyshevW,
}

impl Orthogonal {
    /// The polynomial of degree `n`, cut off to an integer, at `x`; of a negative degree, or one that is no
    /// integer of 64 bits, 0.
    pub fn at(self, x: f64, n: f64) -> f64 {
        use Orthogonal::{
            ChebyshevT, ChebyshevU, ChebyshevV, ChebyshevW, HermiteH, HermiteHe, LaguerreL, LegendreP,
            ShiftedChebyshevT, ShiftedChebyshevU, ShiftedChebyshevV, ShiftedChebyshevW,
        };
        if n.is_nan() || n <= -1.0 || n >= i64::MAX as f64 {
            return 0.0;
        }
        let n = n as i64;
        let x = match self {
            ShiftedChebyshevT | ShiftedChebyshevU | ShiftedChebyshevV | ShiftedChebyshevW => x + x - 1.0,
            _ => x,
        };
        let first = match self {
            ChebyshevT | ShiftedChebyshevT | HermiteHe | LegendreP => x,
            ChebyshevU | ShiftedChebyshevU | HermiteH => x + x,
            ChebyshevV | ShiftedChebyshevV => x + x - 1.0,
            ChebyshevW | ShiftedChebyshevW => x + x + 1.0,
            LaguerreL => 1.0 - x,
        };
        let (mut before, mut value) = (1.0, first);
        if n == 0 {
            return before;
        }
        for k in 1..n {
            let k = k as f64;
            let next = match self {
                HermiteH => (x + x) * value - (2.0 * k) * before,
                HermiteHe => x * value - k * before,
                LaguerreL => ((k + k + 1.0 - x) * value - k * before) / (k + 1.0),
                LegendreP => ((k + k + 1.0) * x * value - k * before) / (k + 1.0),
                _ => (x + x) * value - before,
            };
            if next.is_nan() {
                return next;
            }
            (before, value) = (value, next);
        }
        value
    }
}
