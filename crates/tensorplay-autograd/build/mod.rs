//! From tables of derivatives to Rust.
//!
//! A table (`src/formulas/GROUP.grads`) holds one operator after another, as PyTorch's `derivatives.yaml` does:
//!
//! ```text
//! # Comments and empty lines are skipped.
//! mul.Tensor
//!   self: grad * other.conj()
//!   other: grad * self.conj()
//! native_layer_norm
//!   input, weight, bias: norm::layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, wants)
//!   without: result1 result2
//! none: eq.Tensor ne.Tensor
//! ```
//!
//! A formula is a Rust expression that gives a `Result`: of a tensor, or of an optional one; for several arguments, of
//! a tuple; for a list of tensors, of a vector. A line that is indented deeper goes on with the one before. It may name
//!
//! - the arguments, of the types that kernels have them in, and `result` or `result0`, `result1`, …: what is named
//!   is kept from the forward call, for as long as one of the gradients that need it is wanted. Of a tensor of which
//!   only `sizes()`, `strides()`, `storage_offset()`, `rank()`, `numel()`, `dtype()`, `device()` or
//!   `meta()` is asked, only that is kept.
//!   `late()` of a tensor hands it out, if it is there, when it is called: one that a formula does not always need may
//!   have been changed since;
//! - `grad` or `grad0`, `grad1`, …: the gradients of the results, zeros where they are not defined. The formula is not
//!   run when none of those that it names is defined. `grads` has all as they are;
//! - `own_grad`: the gradient of the first result as a tensor, in a formula that is the only one of its operator and names
//!   no gradient otherwise. Where nobody else has it, what takes tensors by value may change it in its place;
//! - `wants`: for several arguments, for each whether its gradient is wanted; so for a list.
//!
//! `node:` names the node where PyTorch has it from another operator. `without:` names results that have no gradient.
//! `none:` names operators whose results have none at all. The formula of an operator is that of its in-place form too,
//! if that takes the same arguments, and that of a view that of its copy (`view_copy` of `view`), unless they have lines
//! of their own.

mod schemas;
mod table;
mod tokens;
mod write;

/// Reads the tables, each a path and its text, and writes the Rust for them.
///
/// # Errors
/// One line per fault, `path:line: what is wrong`.
pub(crate) fn generate(schemas: &str, tables: &[(String, String)]) -> Result<String, String> {
    let schemas = schemas::read(schemas)?;
    let mut entries = Vec::new();
    let mut none = Vec::new();
    for (path, text) in tables {
        table::read(path, text, &mut entries, &mut none)?;
    }
    write::write(&schemas, &entries, &none)
}
