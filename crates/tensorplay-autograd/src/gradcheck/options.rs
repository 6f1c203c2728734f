//! [`GradcheckOptions`].

use aten::random::DEFAULT_SEED;

/// What [`gradcheck`](crate::gradcheck) and [`gradgradcheck`](crate::gradgradcheck) may be told. The defaults are for
/// inputs of double precision.
#[derive(Clone, Copy, Debug)]
pub struct GradcheckOptions {
    /// By how much an element is changed to either side.
    pub eps: f64,
    /// How far the two Jacobians may be apart.
    pub atol: f64,
    /// How far they may be apart as a share of the numerical one.
    pub rtol: f64,
    /// How far two backward calls with the same gradient may be apart.
    pub nondet_tol: f64,
    /// Whether the backward pass is also run with gradients that are not defined, which stand for zeros.
    pub check_undefined_grad: bool,
    /// Compares the Jacobians along one random direction of each input and output, not whole.
    pub fast_mode: bool,
    /// Has [`gradgradcheck`](crate::gradgradcheck) make gradients of the outputs that are not contiguous.
    pub gen_non_contig_grad_outputs: bool,
    /// Of what is random.
    pub seed: u64,
}

impl Default for GradcheckOptions {
    fn default() -> Self {
        Self {
            eps: 1e-6,
            atol: 1e-5,
            rtol: 1e-3,
            nondet_tol: 0.0,
            check_undefined_grad: true,
            fast_mode: false,
            gen_non_contig_grad_outputs: false,
            seed: DEFAULT_SEED,
        }
    }
}
