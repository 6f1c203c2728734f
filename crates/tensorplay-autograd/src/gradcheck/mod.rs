//! [`gradcheck`] and [`gradgradcheck`]: derivatives, compared with finite differences (`torch.autograd.gradcheck`).
//!
//! The Jacobian of a function is computed twice: by central differences, one element of the inputs after the other,
//! and by backward calls, one element of the outputs after the other. Elements are perturbed in place, as the function
//! may hold the inputs as well, and are as before in the end. Of complex outputs the imaginary and the real part are
//! looked at one after the other; the gradient with respect to a complex input is `∂L/∂re + i ∂L/∂im`.

mod options;
mod function;
mod jacobian;
mod numerical;
mod analytical;
mod random;
mod slow;
mod fast;
mod check;
mod second;

pub use check::gradcheck;
pub use options::GradcheckOptions;
pub use second::{gradgradcheck, gradgradcheck_with};
