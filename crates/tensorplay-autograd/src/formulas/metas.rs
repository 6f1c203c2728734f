//! `.meta()` of arguments that are lists or may be absent.

use crate::saved::TensorMeta;

/// What a table of derivatives keeps of an argument of which it says `.meta()`.
pub(crate) trait Metas {
    /// Itself, as [`TensorMeta::meta`].
    fn meta(&self) -> &Self {
        self
    }
}

impl Metas for [TensorMeta] {}
impl Metas for Option<&TensorMeta> {}
