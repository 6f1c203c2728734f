//! `detach_`: a tensor that becomes a leaf.

use aten::dispatch::{Arguments, Around, DispatchKey, DispatchKeySet, Library, Results};
use aten::ops::handles;
use aten::{Error, Result, Tensor};

use super::BELOW_AUTOGRAD;
use crate::meta::meta_or_init;

pub(super) fn register(library: &mut Library<'_>) -> Result<()> {
    library.impl_kernel("detach_", &[DispatchKey::Autograd], handles::DETACH_.around(DetachInPlace))
}

struct DetachInPlace;

impl Around for DetachInPlace {
    type Record = ();

    const BELOW: DispatchKeySet = BELOW_AUTOGRAD;

    #[inline]
    fn concerns(_: &Tensor) -> bool {
        true
    }

    fn before(&self, (): &mut (), arguments: Arguments<'_>) -> Result<bool> {
        let mut result = Ok(true);
        arguments.tensors_of(0, &mut |tensor| {
            if tensor.view_base().is_some() {
                result = Err(Error::invalid_argument(
                    "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) \
                     for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and \
                     hence detach_() cannot be called on these gradients. To fix this error, please refer to the \
                     Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.",
                ));
            }
        });
        result
    }

    fn after(&self, (): &mut (), arguments: Arguments<'_>, _: &mut Results<'_>) -> Result<()> {
        arguments.tensors_of(0, &mut |tensor| {
            if tensor.made_by().is_none() && tensor.autograd_meta().is_none() {
                return;
            }
            // Differs from PyTorch: the tensor holds what made it until it ends, for others read that with no lock.
            let old = meta_or_init(tensor).change(|state| {
                state.is_wanted = false;
                state.edge.take()
            });
            drop(old);
        });
        Ok(())
    }
}
