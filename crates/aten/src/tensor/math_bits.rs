//! The conjugate and the negative bit of a tensor: its elements are those of its storage, conjugated or negated.
//!
//! // Note [Math bits]
//! `conj` of a complex tensor, and `imag` of such a conjugate, move no element: they are views that carry
//! [`DispatchKey::Conjugate`] or [`DispatchKey::Negative`] in their key sets, as in PyTorch. Views of them carry
//! it on. Who may see a tensor with a bit:
//! - the kernel of an operator never does, unless it is registered as knowing the bits
//!   (`ops/math_bits.rs`): the fallback of the two keys hands it copies in their stead;
//! - a composite does, since it is called before those keys are served. What it calls through the dispatcher is
//!   in order; what it calls directly resolves the bits (`kernels::copy`, `to_contiguous`, `to_dtype`, `TensorIter`,
//!   `item`, `to_vec`) or refuses (`access`).

use std::borrow::Cow;

use super::Tensor;
use crate::dispatch::{DispatchKey, DispatchKeySet};
use crate::error::{Error, Result};

const BITS: DispatchKeySet = DispatchKeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative]);

impl Tensor {
    /// Whether the elements are the conjugates of those in the storage (`is_conj`).
    #[inline]
    pub fn is_conj(&self) -> bool {
        self.key_set().has(DispatchKey::Conjugate)
    }

    /// Whether the elements are those in the storage, negated (`is_neg`).
    #[inline]
    pub fn is_neg(&self) -> bool {
        self.key_set().has(DispatchKey::Negative)
    }

    /// Whether the elements are other than what the storage says.
    #[inline]
    pub(crate) fn has_math_bits(&self) -> bool {
        !self.key_set().intersection(BITS).is_empty()
    }

    /// A view whose elements are conjugated or negated once more.
    pub(crate) fn flipped(&self, bit: DispatchKey) -> Self {
        self.with_keys(self.key_set() ^ DispatchKeySet::new(bit))
    }

    /// A view of the elements as the storage has them: the tensor itself, if it carries no bit.
    pub(crate) fn as_stored(&self) -> Cow<'_, Self> {
        if !self.has_math_bits() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.with_keys(self.key_set().minus(BITS)))
    }

    /// The tensor itself, if it carries no bit, or a copy that carries none.
    pub(crate) fn resolved(&self) -> Result<Cow<'_, Self>> {
        if self.has_math_bits() { self.deep_clone().map(Cow::Owned) } else { Ok(Cow::Borrowed(self)) }
    }

    /// Refuses a tensor whose bytes are not its elements.
    #[inline]
    pub(crate) fn check_as_stored(&self) -> Result<()> {
        if self.has_math_bits() { Err(self.not_as_stored()) } else { Ok(()) }
    }

    #[cold]
    fn not_as_stored(&self) -> Error {
        let (bit, resolve) =
            if self.is_conj() { ("conjugate", "resolve_conj") } else { ("negative", "resolve_neg") };
        Error::invalid_argument(format!(
            "Can't access the elements of a tensor that has the {bit} bit set. Use {resolve}() first"
        ))
    }

    fn with_keys(&self, keys: DispatchKeySet) -> Self {
        Self::from_geometry(self.geometry().into_owned(), self.dtype(), self.device(), keys)
    }
}
