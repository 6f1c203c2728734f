//! Indexing as in Python: `x.i((.., 3, 1..5))` for `x[..., 3, 1:5]`.
//!
//! | Rust | Python | what |
//! |---|---|---|
//! | `3`, `-1` | `3`, `-1` | one place of a dimension, which goes |
//! | `1..5`, `..3`, `2..`, `0..=4` | `1:5`, `:3`, `2:`, `0:5` | a part of a dimension; ends may be negative |
//! | [`Slice::new`]`(1, -1)` | `1:-1` | the same |
//! | [`step`]`(0..10, 2)` | `0:10:2` | every second place of a part |
//! | [`All`] | `:` | a whole dimension |
//! | `..` | `...` | as many whole dimensions as are left |
//! | [`NewAxis`] | `None` | a new dimension of size 1 |
//! | `true`, `false` | `True`, `False` | a new dimension of size 1 or 0 |
//! | `&mask`, `&index` | the same | places where a mask is true, or whose numbers a tensor holds |
//!
//! All but tensors and truth values give a view. With those, [`i`](crate::Tensor::i) copies (`index.Tensor`), and the
//! assigning forms write the places that are meant (`index_put_`).

mod item;
mod list;
mod plan;
mod tensor_index;

pub use item::{All, IndexItem, NewAxis, Slice, step};
pub use list::IndexList;
