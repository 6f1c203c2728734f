//! Operators that write into `out=`: they are not differentiated.

use aten::dispatch::{Arguments, Around, DispatchKeySet};
use aten::{Error, Result};

use super::BELOW_AUTOGRAD;
use crate::meta::requires_grad;
use crate::mode::is_grad_enabled;

/// The autograd kernel of an `out=` overload.
pub(crate) struct Out {
    /// The operator's name, without overload.
    pub(crate) name: &'static str,
}

impl Around for Out {
    type Record = ();

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    const PASSED_BY: bool = true;

    fn before(&self, (): &mut (), arguments: Arguments<'_>) -> Result<bool> {
        let mut wanted = false;
        arguments.for_each_tensor(&mut |tensor| wanted |= requires_grad(tensor));
        if wanted && is_grad_enabled() {
            return Err(Error::invalid_argument(format!(
                "{}(): functions with out=... arguments don't support automatic differentiation, but one of the \
                 arguments requires grad.",
                self.name
            )));
        }
        Ok(false)
    }
}
