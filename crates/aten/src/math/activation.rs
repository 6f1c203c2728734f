//! [`Activation`]: the functions that networks put between their layers.

use super::Float;

/// Activation functions of one real number, each by PyTorch's formula.
pub trait Activation: Float {
    /// `self` where positive, 0 elsewhere; NaN stays.
    #[inline(always)]
    fn relu(self) -> Self {
        if self <= Self::ZERO { Self::ZERO } else { self }
    }

    /// `self · sigmoid(self)`.
    #[inline(always)]
    fn silu(self) -> Self {
        self / (Self::ONE + (-self).exp())
    }

    /// `self` times the normal distribution's share below it.
    #[inline(always)]
    fn gelu(self) -> Self {
        let inner = self * Self::of(std::f64::consts::FRAC_1_SQRT_2);
        self * Self::of(0.5) * (Self::ONE + inner.erf())
    }

    /// [`gelu`](Self::gelu) by way of `tanh`.
    #[inline(always)]
    fn gelu_tanh(self) -> Self {
        let inner = gelu_scale::<Self>() * (self + Self::of(0.044_715) * self * self * self);
        Self::of(0.5) * self * (Self::ONE + inner.tanh())
    }

    /// `ln(1 + exp(beta · self)) / beta`, and `self` where `beta · self` is over the threshold.
    #[inline(always)]
    fn softplus(self, beta: Self, threshold: Self) -> Self {
        let scaled = self * beta;
        if scaled > threshold { self } else { scaled.exp().log1p() / beta }
    }

    /// `self · tanh(softplus(self))`.
    #[inline(always)]
    fn mish(self) -> Self {
        self * self.exp().log1p().tanh()
    }

    /// `self + 3`, from 0 to 6, over 6.
    #[inline(always)]
    fn hardsigmoid(self) -> Self {
        (self + Self::of(3.0)).maximum(Self::ZERO).minimum(Self::of(6.0)) / Self::of(6.0)
    }

    /// `self · hardsigmoid(self)`.
    #[inline(always)]
    fn hardswish(self) -> Self {
        self * (self + Self::of(3.0)).maximum(Self::ZERO).minimum(Self::of(6.0)) / Self::of(6.0)
    }

    /// `positive · self` above zero, `negative · (exp(input_scale · self) − 1)` elsewhere.
    #[inline(always)]
    fn elu(self, negative: Self, positive: Self, input_scale: Self) -> Self {
        if self < Self::ZERO || self.is_nan() {
            negative * (self * input_scale).expm1()
        } else {
            positive * self
        }
    }

    /// `self`, times `slope` where not positive.
    #[inline(always)]
    fn leaky_relu(self, slope: Self) -> Self {
        if self > Self::ZERO { self } else { self * slope }
    }

    /// `min(0, self) − ln(1 + exp(−|self|))`.
    #[inline(always)]
    fn log_sigmoid(self) -> Self {
        Self::ZERO.minimum(self) - (-self.abs()).exp().log1p()
    }
}

impl<F: Float> Activation for F {}

/// √(2/π).
#[inline(always)]
fn gelu_scale<F: Float>() -> F {
    F::of(std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2)
}
