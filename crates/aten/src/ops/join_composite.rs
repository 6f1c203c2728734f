//! Joins and repetitions made of other operators, whose derivatives are those of their parts.

use c10_core::{MemoryFormat, Scalar, ScalarType};

use super::handles;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::shape;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_stacks(lib)?;
    register_flips(lib)?;
    register_repeats(lib)?;
    lib.composite("cartesian_prod", cartesian_prod)?;
    lib.composite("take_along_dim", take_along_dim)?;
    lib.composite("one_hot", one_hot)
}

fn register_stacks(lib: &mut Library<'_>) -> Result<()> {
    type Parts = fn(&[Tensor]) -> Result<(Vec<Tensor>, i64)>;
    let stacks: [(&str, &str, Parts); 5] = [
        ("hstack", "hstack.out", horizontal),
        ("vstack", "vstack.out", |tensors| Ok((handles::ATLEAST_2D_SEQUENCE.call(tensors)?, 0))),
        ("row_stack", "row_stack.out", |tensors| Ok((handles::ATLEAST_2D_SEQUENCE.call(tensors)?, 0))),
        ("dstack", "dstack.out", |tensors| Ok((handles::ATLEAST_3D_SEQUENCE.call(tensors)?, 2))),
        ("column_stack", "column_stack.out", columns),
    ];
    for (name, out_name, parts) in stacks {
        lib.composite(name, move |tensors: &[Tensor]| {
            check_some(name, tensors)?;
            let (parts, dim) = parts(tensors)?;
            handles::CAT.call(&parts, dim)
        })?;
        lib.composite(out_name, move |tensors: &[Tensor], out: &Tensor| {
            check_some(name, tensors)?;
            let (parts, dim) = parts(tensors)?;
            handles::CAT_OUT.call(&parts, dim, out)
        })?;
    }
    Ok(())
}

fn check_some(name: &str, tensors: &[Tensor]) -> Result<()> {
    if tensors.is_empty() {
        return Err(Error::invalid_argument(format!("{name} expects a non-empty TensorList")));
    }
    Ok(())
}

fn horizontal(tensors: &[Tensor]) -> Result<(Vec<Tensor>, i64)> {
    let parts = handles::ATLEAST_1D_SEQUENCE.call(tensors)?;
    let dim = i64::from(parts[0].rank() != 1);
    Ok((parts, dim))
}

/// Tensors of up to one dimension become columns.
fn columns(tensors: &[Tensor]) -> Result<(Vec<Tensor>, i64)> {
    let column = |tensor: &Tensor| match tensor.rank() {
        0 | 1 => tensor.reshape(&[tensor.numel(), 1]),
        _ => Ok(tensor.clone()),
    };
    Ok((tensors.iter().map(column).collect::<Result<_>>()?, 1))
}

fn register_flips(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("fliplr", |this: &Tensor| {
        if this.rank() < 2 {
            return Err(Error::shape("Input must be >= 2-d."));
        }
        this.flip(&[1])
    })?;
    lib.composite("flipud", |this: &Tensor| {
        if this.rank() < 1 {
            return Err(Error::shape("Input must be >= 1-d."));
        }
        this.flip(&[0])
    })?;
    lib.all_backends("rot90", rot90)
}

fn rot90(this: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let &[a, b] = dims else {
        return Err(Error::invalid_argument(format!(
            "expected total rotation dims == 2, but got dims = {}",
            dims.len()
        )));
    };
    if this.rank() < 2 {
        return Err(Error::shape(format!("expected total dims >= 2, but got total dims = {}", this.rank())));
    }
    let (wrapped_a, wrapped_b) = (shape::wrap_dim(a, this.rank())?, shape::wrap_dim(b, this.rank())?);
    if wrapped_a == wrapped_b {
        return Err(Error::invalid_argument(format!(
            "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
        )));
    }
    match k.rem_euclid(4) {
        1 => this.flip(&[b])?.transpose(a, b),
        2 => this.flip(&[a, b]),
        3 => this.flip(&[a])?.transpose(a, b),
        _ => handles::CLONE.call(this, Some(MemoryFormat::Contiguous)),
    }
}

fn register_repeats(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("tile", |this: &Tensor, dims: &[i64]| {
        let mut repeats = vec![1; this.rank().saturating_sub(dims.len())];
        repeats.extend_from_slice(dims);
        this.repeat(&repeats)
    })?;
    lib.composite(
        "repeat_interleave.self_Tensor",
        |this: &Tensor, repeats: &Tensor, dim: Option<i64>, output_size: Option<i64>| {
            repeat_interleave(this, repeats, dim, output_size)
        },
    )?;
    lib.composite(
        "repeat_interleave.self_int",
        |this: &Tensor, repeats: i64, dim: Option<i64>, output_size: Option<i64>| {
            let repeats = handles::FULL.call(
                &[1],
                Scalar::from(repeats),
                Some(ScalarType::Int64),
                None,
                Some(this.device()),
                None,
            )?;
            repeat_interleave(this, &repeats, dim, output_size)
        },
    )
}

fn repeat_interleave(
    this: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let input = if dim.is_none() { this.reshape(&[-1])? } else { this.clone() };
    let wrapped = shape::wrap_dim(dim.unwrap_or(0), input.rank())?;
    let size = input.sizes().get(wrapped).copied().unwrap_or(1);
    let repeats = match repeats.rank() {
        0 => repeats.expand(&[size])?,
        1 if repeats.numel() == 1 => repeats.expand(&[size])?,
        1 if repeats.numel() == size => repeats.clone(),
        1 => {
            return Err(Error::shape(format!(
                "repeats must have the same size as input along dim, but got repeats.size(0) = {} and \
                 input.size({wrapped}) = {size}",
                repeats.numel()
            )));
        }
        _ => return Err(Error::shape("repeats must be 0-dim or 1-dim tensor")),
    };
    let index = handles::REPEAT_INTERLEAVE_TENSOR.call(&repeats, output_size)?;
    input.index_select(wrapped as i64, &index)
}

fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    if let Some(tensor) = tensors.iter().find(|tensor| tensor.rank() != 1) {
        return Err(Error::shape(format!("Expect a 1D vector, but got shape {:?}", tensor.sizes())));
    }
    match tensors {
        [] => Err(Error::invalid_argument("cartesian_prod expects a non-empty TensorList")),
        [only] => Ok(only.clone()),
        _ => {
            let grids = handles::MESHGRID_INDEXING.call(tensors, "ij")?;
            let flat = grids.iter().map(|grid| grid.reshape(&[-1])).collect::<Result<Vec<_>>>()?;
            handles::STACK.call(&flat, 1)
        }
    }
}

fn take_along_dim(this: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let Some(dim) = dim else {
        return this.reshape(&[-1])?.gather(0, &indices.reshape(&[-1])?);
    };
    let (this, indices, dim) = along(this, indices, dim)?;
    this.gather(dim, &indices)
}

/// Both broadcast in all dimensions but one.
fn along(this: &Tensor, indices: &Tensor, dim: i64) -> Result<(Tensor, Tensor, i64)> {
    if this.rank() != indices.rank() {
        return Err(Error::shape(format!(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} \
             dimensions for input, and {} dimensions for indices",
            this.rank(),
            indices.rank()
        )));
    }
    let at = shape::wrap_dim(dim, this.rank())?;
    let (mut sizes, mut index_sizes) = (this.sizes(), indices.sizes());
    if sizes.is_empty() {
        return Ok((this.clone(), indices.clone(), dim));
    }
    let (size, index_size) =
        (std::mem::replace(&mut sizes[at], 1), std::mem::replace(&mut index_sizes[at], 1));
    let mut common = shape::broadcast(&sizes, &index_sizes)?;
    common[at] = size;
    let this = this.expand(&common)?;
    common[at] = index_size;
    Ok((this, indices.expand(&common)?, at as i64))
}

fn one_hot(this: &Tensor, num_classes: i64) -> Result<Tensor> {
    if this.dtype() != ScalarType::Int64 {
        return Err(Error::dtype("one_hot is only applicable to index tensor of type LongTensor."));
    }
    if this.numel() == 0 && num_classes <= 0 {
        return Err(Error::invalid_argument("Can not infer total number of classes from empty tensor."));
    }
    let classes =
        if num_classes == -1 || !this.is_meta() { classes(this, num_classes)? } else { num_classes };
    let mut sizes = this.sizes();
    sizes.push(classes);
    let zeros = this.new_zeros(&sizes, ScalarType::Int64)?;
    zeros.scatter_value_(-1, &this.unsqueeze(-1)?, 1)?;
    Ok(zeros)
}

/// The number of classes, of which every index is one.
fn classes(this: &Tensor, num_classes: i64) -> Result<i64> {
    if this.is_meta() {
        return Err(Error::not_implemented("how many classes there are is not known of a meta tensor"));
    }
    let values = super::index_values::values(this)?;
    let (least, greatest) =
        (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(-1));
    if least < 0 {
        return Err(Error::index("Class values must be non-negative."));
    }
    match num_classes {
        -1 => Ok(greatest + 1),
        ..=0 => Err(Error::invalid_argument("num_classes should be positive")),
        _ if num_classes > greatest => Ok(num_classes),
        _ => Err(Error::index("Class values must be smaller than num_classes.")),
    }
}
