//! The operators: for each group a table (`*.ops`: schema, docs, dtypes) and a file of functions that check
//! arguments, make outputs and call a loop of `kernels`.
//!
//! The tables are read by the build script, which makes of each overload a typed handle ([`handles`]) and a
//! method of [`Tensor`](crate::Tensor).

mod dest;
pub mod handles;

mod dtypes;
mod forms;
mod given_away;

mod unary;
mod rounding;
mod special;
mod binary;
mod conv;
mod new_options;
mod factory;
mod range;
mod join;
mod reorder;
mod random;
mod random_factory;
mod sample;
mod mask;
mod view_scatter;
mod triangle;
mod embedding;
mod search;
mod unique;
mod join_composite;
mod dropout;
mod diag;
mod index_composite;
mod index_values;
mod sort;
mod advanced_index;
mod index;
mod scatter;
mod matmul;
mod einsum;
mod outer;
mod fft_composite;
mod distance;
mod grid_sampler;
mod matmul_composite;
mod conv_composite;
mod fft;
mod channels;
mod patches;
mod upsample;
mod pad;
mod adaptive_pool;
mod pool;
mod images;
mod view;
mod view_copy;
mod view_in_place;
mod view_composite;
mod grid;
mod copy;
mod type_conversion;
mod resize;
mod conj;
mod math_bits;
mod query;
mod power;
mod compare;
mod activation;
mod activation_backward;
mod pointwise;
mod clamp;
mod complex_parts;
mod alias;
mod batch_norm;
mod difference;
mod renorm;
mod extremum;
mod moment;
mod loss;
mod nll_loss;
mod norm;
mod reduce;
mod reduction;
mod scan;
mod softmax;

pub(crate) use dest::{Dest, Made, Output};
pub(crate) use math_bits::register_fallback;

use crate::dispatch::Library;
use crate::error::Result;

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub struct SchemaLine {
    /// The table it is in.
    pub group: &'static str,
    /// The schema, without namespace.
    pub schema: &'static str,
    /// What it does.
    pub docs: &'static str,
    /// The dtypes it takes, in words.
    pub dtypes: Option<&'static str>,
}

include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// Every operator of this crate, as the tables have it.
pub fn schemas() -> &'static [SchemaLine] {
    SCHEMAS
}

/// Registers the schemas, and the kernels for CPU and Meta.
pub(crate) fn register(lib: &mut Library<'_>) -> Result<()> {
    for line in SCHEMAS {
        let operator = lib.def(line.schema.trim_start_matches("aten::"))?;
        math_bits::register_view(lib, operator)?;
    }
    binary::register(lib)?;
    conv::register(lib)?;
    factory::register(lib)?;
    range::register(lib)?;
    join::register(lib)?;
    reorder::register(lib)?;
    random::register(lib)?;
    random_factory::register(lib)?;
    sample::register(lib)?;
    mask::register(lib)?;
    view_scatter::register(lib)?;
    triangle::register(lib)?;
    embedding::register(lib)?;
    search::register(lib)?;
    unique::register(lib)?;
    join_composite::register(lib)?;
    dropout::register(lib)?;
    diag::register(lib)?;
    index_composite::register(lib)?;
    index::register(lib)?;
    sort::register(lib)?;
    scatter::register(lib)?;
    matmul::register(lib)?;
    einsum::register(lib)?;
    outer::register(lib)?;
    fft_composite::register(lib)?;
    distance::register(lib)?;
    grid_sampler::register(lib)?;
    matmul_composite::register(lib)?;
    conv_composite::register(lib)?;
    fft::register(lib)?;
    channels::register(lib)?;
    patches::register(lib)?;
    upsample::register(lib)?;
    pad::register(lib)?;
    adaptive_pool::register(lib)?;
    pool::register(lib)?;
    view::register(lib)?;
    view_copy::register(lib)?;
    view_in_place::register(lib)?;
    view_composite::register(lib)?;
    grid::register(lib)?;
    copy::register(lib)?;
    type_conversion::register(lib)?;
    resize::register(lib)?;
    conj::register(lib)?;
    math_bits::register(lib)?;
    query::register(lib)?;
    unary::register(lib)?;
    rounding::register(lib)?;
    special::register(lib)?;
    power::register(lib)?;
    compare::register(lib)?;
    activation::register(lib)?;
    activation_backward::register(lib)?;
    pointwise::register(lib)?;
    clamp::register(lib)?;
    complex_parts::register(lib)?;
    alias::register(lib)?;
    reduce::register(lib)?;
    extremum::register(lib)?;
    moment::register(lib)?;
    scan::register(lib)?;
    softmax::register(lib)?;
    norm::register(lib)?;
    batch_norm::register(lib)?;
    renorm::register(lib)?;
    difference::register(lib)?;
    loss::register(lib)?;
    nll_loss::register(lib)?;
    Ok(())
}

/// Registers a function `f(dest, arguments…) -> Result<Made>` as the functional, the in-place and the `out=`
/// overload of an operator, for CPU and Meta. The first argument of an in-place one is its destination.
macro_rules! register_triple {
    (@one $lib:ident, functional $name:literal, $f:path, ($($arg:ident: $type:ty),*)) => {
        $lib.cpu_meta($name, |$($arg: $type),*| $f(crate::ops::Dest::New, $($arg),*).map(crate::ops::Made::new_tensor))?
    };
    (@one $lib:ident, inplace $name:literal, $f:path, ($first:ident: $first_type:ty $(, $arg:ident: $type:ty)*)) => {
        $lib.cpu_meta($name, |$first: $first_type $(, $arg: $type)*| {
            $f(crate::ops::Dest::InPlace($first), $first $(, $arg)*).map(drop)
        })?
    };
    (@one $lib:ident, out $name:literal, $f:path, ($($arg:ident: $type:ty),*)) => {
        $lib.cpu_meta($name, |$($arg: $type,)* out: &$crate::Tensor| {
            $f(crate::ops::Dest::Out(out), $($arg),*).map(drop)
        })?
    };
    ($lib:ident, $f:path, $args:tt, $($kind:ident $name:literal),+ $(,)?) => {
        $(crate::ops::register_triple!(@one $lib, $kind $name, $f, $args);)+
    };
}
pub(crate) use register_triple;
