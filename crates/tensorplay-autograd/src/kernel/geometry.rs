//! Operators that change what storage and sizes a tensor has: no formula stands for them.

use aten::dispatch::{Arguments, Around, DispatchKey, DispatchKeySet, Library};
use aten::ops::handles;
use aten::{Error, Result};

use super::BELOW_AUTOGRAD;
use super::in_place::first;
use crate::meta::requires_grad;

pub(super) fn register(library: &mut Library<'_>) -> Result<()> {
    let keys = [DispatchKey::Autograd];
    library.impl_kernel("resize_", &keys, handles::RESIZE_.around(Resize))?;
    library.impl_kernel("resize_as_", &keys, handles::RESIZE_AS_.around(Resize))
}

/// Of a resized tensor nobody could say where its gradient goes.
struct Resize;

impl Around for Resize {
    type Record = ();

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    const PASSED_BY: bool = true;

    fn before(&self, (): &mut (), arguments: Arguments<'_>) -> Result<bool> {
        match first(arguments).is_some_and(|tensor| requires_grad(&tensor)) {
            true => Err(Error::invalid_argument("cannot resize variables that require grad")),
            false => Ok(false),
        }
    }
}
