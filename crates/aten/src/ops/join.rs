//! Tensors put together: `cat`, `stack`; and one repeated: `repeat`, `repeat_interleave`.

use c10_core::{MemoryFormat, ScalarType};

use super::index_values::values;
use super::{Dest, Made, handles};
use crate::dispatch::{DispatchKey, Library};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::Input;
use crate::iter::promote::ResultType;
use crate::kernels::cpu::strided;
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access, default_dtype, for_words};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    // Without tensors there is no backend: the kernel for none of them refuses.
    const KEYS: [DispatchKey; 3] = [DispatchKey::Cpu, DispatchKey::Meta, DispatchKey::Undefined];
    lib.impl_for("cat", &KEYS, |tensors: &[Tensor], dim: i64| {
        cat(Dest::New, tensors, dim).map(Made::new_tensor)
    })?;
    lib.cpu_meta("cat.out", |tensors: &[Tensor], dim: i64, out: &Tensor| {
        cat(Dest::Out(out), tensors, dim).map(drop)
    })?;
    for name in ["concat", "concatenate"] {
        lib.composite(name, |tensors: &[Tensor], dim: i64| handles::CAT.call(tensors, dim))?;
    }
    lib.all_backends("stack", stack)?;
    lib.all_backends("stack.out", |tensors: &[Tensor], dim: i64, out: &Tensor| {
        let tensors = unsqueezed(tensors, dim)?;
        handles::CAT_OUT.call(&tensors, dim, out)
    })?;
    lib.impl_for("_chunk_cat", &KEYS, |tensors: &[Tensor], dim: i64, chunks: i64| {
        chunk_cat(Dest::New, tensors, dim, chunks).map(Made::new_tensor)
    })?;
    lib.cpu_meta("_chunk_cat.out", |tensors: &[Tensor], dim: i64, chunks: i64, out: &Tensor| {
        chunk_cat(Dest::Out(out), tensors, dim, chunks).map(drop)
    })?;
    lib.cpu_meta("repeat", |this: &Tensor, repeats: &[i64]| repeat(this, repeats))?;
    lib.cpu_meta("repeat_interleave.Tensor", |repeats: &Tensor, output_size: Option<i64>| {
        interleaved_index(repeats, output_size)
    })
}

/// A tensor of one dimension and no element goes with any shape, for reasons of old.
fn is_skipped(tensor: &Tensor) -> bool {
    *tensor.geometry().sizes == [0]
}

pub(super) fn cat(dest: Dest<'_>, tensors: &[Tensor], dim: i64) -> Result<Made> {
    let Some(first) = tensors.first() else {
        return Err(Error::invalid_argument("torch.cat(): expected a non-empty list of Tensors"));
    };
    if let Some(at) = tensors.iter().position(|tensor| tensor.rank() == 0) {
        return Err(Error::shape(format!(
            "zero-dimensional tensor (at position {at}) cannot be concatenated"
        )));
    }
    let example = tensors.iter().find(|tensor| !is_skipped(tensor)).unwrap_or(first);
    let dim = shape::wrap_dim(dim, example.rank())?;
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::Tensor).collect();
    let dtype = ResultType::of_inputs(&inputs)?.unwrap_or(default_dtype());
    let mut sizes = example.sizes();
    sizes[dim] = 0;
    for tensor in tensors.iter().filter(|tensor| !is_skipped(tensor)) {
        check_fits(example, tensor, dim)?;
        sizes[dim] = sizes[dim].checked_add(tensor.sizes()[dim]).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, "the sizes of the tensors to concatenate overflow")
        })?;
    }
    check_devices(tensors)?;
    check_no_overlap(dest, tensors)?;
    let strides = shape::strides_of_format(&sizes, common_format(tensors, sizes.len()))?;
    let refs: Vec<&Tensor> = tensors.iter().collect();
    let out = dest.output(New::strided(sizes, strides, dtype, first.device()), &refs)?;
    if !out.is_meta() {
        let mut begin = 0;
        for tensor in tensors.iter().filter(|tensor| !is_skipped(tensor)) {
            copy_part(out.tensor(), out.fresh(), &tensor.to_dtype(dtype)?, dim, begin)?;
            begin += tensor.sizes()[dim];
        }
    }
    out.finish()
}

/// Copies `src` to where `out` has its part, from `begin` on along `dim`.
fn copy_part(out: &Tensor, fresh: Fresh, src: &Tensor, dim: usize, begin: i64) -> Result<()> {
    if src.numel() == 0 {
        return Ok(());
    }
    access([src], [out], fresh, |[src], [out]| {
        let out_strides = Dims::from(out.strides());
        let begin = (begin * out_strides[dim]) as usize;
        for_words!(out.dtype(), W => {
            let out = &mut out.elements::<W>()?[begin..];
            strided::copy(src.sizes(), out, &out_strides, src.elements::<W>()?, src.strides());
            Ok(())
        })
    })
}

fn check_fits(example: &Tensor, tensor: &Tensor, dim: usize) -> Result<()> {
    let (expected, sizes) = (example.sizes(), tensor.sizes());
    if expected.len() != sizes.len() {
        return Err(Error::shape(format!(
            "Tensors must have same number of dimensions: got {} and {}",
            expected.len(),
            sizes.len()
        )));
    }
    match (0..sizes.len()).find(|&d| d != dim && sizes[d] != expected[d]) {
        None => Ok(()),
        Some(d) => Err(Error::shape(format!(
            "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} in dimension {d}",
            expected[d], sizes[d]
        ))),
    }
}

fn check_devices(tensors: &[Tensor]) -> Result<()> {
    let device = tensors[0].device();
    match tensors.iter().find(|tensor| tensor.device() != device) {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Device,
            format!(
                "Expected all tensors to be on the same device, but found {device} and {}",
                other.device()
            ),
        )),
    }
}

/// Refuses an output that shares a byte with an input.
fn check_no_overlap(dest: Dest<'_>, tensors: &[Tensor]) -> Result<()> {
    let Some(out) = dest.given() else { return Ok(()) };
    crate::iter::overlap::check_no_internal_overlap(out)?;
    for tensor in tensors {
        if tensor.is_same(out) || shares_bytes(out, tensor) {
            return Err(Error::new(
                ErrorKind::Overlap,
                "unsupported operation: the input tensors cannot refer to any of the output memory locations",
            ));
        }
    }
    Ok(())
}

fn shares_bytes(a: &Tensor, b: &Tensor) -> bool {
    let (a_geometry, b_geometry) = (a.geometry(), b.geometry());
    let begin = |tensor: &Tensor| tensor.storage_offset() as usize * tensor.dtype().element_size();
    a_geometry.numel > 0
        && b_geometry.numel > 0
        && a_geometry.storage.is_same(&b_geometry.storage)
        && begin(a) < b_geometry.end_bytes
        && begin(b) < a_geometry.end_bytes
}

/// The memory format that all have, if they have one.
fn common_format(tensors: &[Tensor], rank: usize) -> MemoryFormat {
    let mut formats = tensors.iter().filter(|tensor| !is_skipped(tensor)).map(Tensor::suggest_memory_format);
    let Some(first) = formats.next() else { return MemoryFormat::Contiguous };
    let fits = match first {
        MemoryFormat::ChannelsLast => rank == 4,
        MemoryFormat::ChannelsLast3d => rank == 5,
        _ => true,
    };
    if fits && formats.all(|format| format == first) { first } else { MemoryFormat::Contiguous }
}

fn stack(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::invalid_argument("stack expects a non-empty TensorList"));
    };
    let at = shape::wrap_dim(dim, first.rank() + 1)?;
    if at == first.rank() {
        return handles::CAT.call(&unsqueezed(tensors, dim)?, dim);
    }
    check_equal_sizes(tensors)?;
    // What stands along a dimension in a row is the same memory as one dimension more.
    let joined = handles::CAT.call(tensors, at as i64)?;
    let (mut sizes, strides) = (first.sizes(), joined.strides());
    sizes.insert(at, tensors.len() as i64);
    let mut split = strides.clone();
    split.insert(at, strides[at].saturating_mul(sizes[at + 1].max(1)));
    if !joined.is_contiguous() {
        return joined.view_of(sizes, split, joined.storage_offset());
    }
    let strides = shape::contiguous_strides(&sizes)?;
    joined.view_of(sizes, strides, joined.storage_offset())
}

fn check_equal_sizes(tensors: &[Tensor]) -> Result<()> {
    let first = tensors[0].sizes();
    match tensors.iter().position(|tensor| tensor.sizes() != first) {
        None => Ok(()),
        Some(at) => Err(Error::shape(format!(
            "stack expects each tensor to be equal size, but got {first:?} at entry 0 and {:?} at entry {at}",
            tensors[at].sizes()
        ))),
    }
}

/// Views with a dimension of size 1 before `dim`.
fn unsqueezed(tensors: &[Tensor], dim: i64) -> Result<Vec<Tensor>> {
    if tensors.is_empty() {
        return Err(Error::invalid_argument("stack expects a non-empty TensorList"));
    }
    check_equal_sizes(tensors)?;
    let at = shape::wrap_dim(dim, tensors[0].rank() + 1)?;
    tensors
        .iter()
        .map(|tensor| {
            let (mut sizes, mut strides) = (tensor.sizes(), tensor.strides());
            let stride = if at < sizes.len() { sizes[at].saturating_mul(strides[at]) } else { 1 };
            sizes.insert(at, 1);
            strides.insert(at, stride);
            tensor.view_of(sizes, strides, tensor.storage_offset())
        })
        .collect()
}

/// Each tensor is cut into chunks along `dim`, filled up with zeros; the chunks are flattened from there on and
/// put side by side.
fn chunk_cat(dest: Dest<'_>, tensors: &[Tensor], dim: i64, chunks: i64) -> Result<Made> {
    let Some(first) = tensors.first() else {
        return Err(Error::invalid_argument("_chunk_cat expects a non-empty input tensor list"));
    };
    if chunks < 1 {
        return Err(Error::invalid_argument("_chunk_cat expects positive num_chunks"));
    }
    let dim = shape::wrap_dim(dim, first.rank())?;
    let lead = Dims::from(first.sizes().get(..dim).unwrap_or(&[]));
    let mut slices = Vec::new();
    let mut width = 0_i64;
    for tensor in tensors {
        let sizes = tensor.sizes();
        if tensor.dtype() != first.dtype() || tensor.device() != first.device() {
            return Err(Error::dtype("_chunk_cat expects all input tensors with the same dtype and device"));
        }
        if sizes.len() <= dim || tensor.numel() == 0 || sizes[..dim] != *lead {
            return Err(Error::shape(
                "_chunk_cat expects the same sizes before dim, and elements, of every tensor",
            ));
        }
        let rows = (sizes[dim] + chunks - 1) / chunks;
        let row: i64 = sizes[dim + 1..].iter().product();
        slices.push((tensor.to_contiguous()?, rows * row));
        width += rows * row;
    }
    let mut sizes = lead.clone();
    sizes.extend([chunks, width]);
    let out = dest.output(New::contiguous(sizes, first.dtype(), first.device()), &[])?;
    super::new_options::fill_fresh(out.tensor(), 0.into())?;
    let (mut begin, lines) = (0_usize, lead.iter().product::<i64>() as usize);
    for (tensor, part) in slices.iter().filter(|_| !out.is_meta()) {
        let (part, width, chunks) = (*part as usize, width as usize, chunks as usize);
        let each = tensor.numel() as usize / lines.max(1);
        access([tensor], [out.tensor()], out.fresh(), |[src], [to]| {
            for_words!(first.dtype(), W => {
                let (src, to) = (src.slice::<W>()?, to.slice::<W>()?);
                for line in 0..lines {
                    for (chunk, src) in src[line * each..(line + 1) * each].chunks(part.max(1)).enumerate() {
                        let at = (line * chunks + chunk) * width + begin;
                        to[at..at + src.len()].copy_from_slice(src);
                    }
                }
                Ok(())
            })
        })?;
        begin += part;
    }
    out.finish()
}

fn repeat(this: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let (sizes, strides) = (this.sizes(), this.strides());
    let Some(lead) = repeats.len().checked_sub(sizes.len()) else {
        return Err(Error::shape(format!(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: {repeats:?} \
             for {sizes:?}"
        )));
    };
    if repeats.iter().any(|&repeat| repeat < 0) {
        return Err(Error::shape(format!(
            "Trying to create tensor with negative dimension: repeats {repeats:?}"
        )));
    }
    let (mut out_sizes, mut walked, mut src_strides) = (Dims::new(), Dims::new(), Dims::new());
    for (dim, &times) in repeats.iter().enumerate() {
        let size = if dim < lead { 1 } else { sizes[dim - lead] };
        let stride = if dim < lead { 0 } else { strides[dim - lead] };
        out_sizes.push(size.checked_mul(times).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("{sizes:?} repeated {repeats:?} times overflows"))
        })?);
        // Each dimension becomes two: which copy, and where in it.
        walked.extend([times, size]);
        src_strides.extend([0, stride]);
    }
    let out = New::contiguous(out_sizes, this.dtype(), this.device()).make()?;
    if !out.is_meta() && out.numel() > 0 {
        let out_strides = shape::contiguous_strides(&walked)?;
        access([this], [&out], Fresh::Yes, |[src], [to]| {
            for_words!(this.dtype(), W => {
                strided::copy(&walked, to.slice::<W>()?, &out_strides, src.elements::<W>()?, &src_strides);
                Ok(())
            })
        })?;
    }
    Ok(out)
}

/// The index that repeats element `i` as often as `repeats[i]` says.
fn interleaved_index(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    if repeats.rank() != 1 {
        return Err(Error::shape("repeat_interleave only accept 1D vector as repeat"));
    }
    if !matches!(repeats.dtype(), ScalarType::Int64 | ScalarType::Int32) {
        return Err(Error::dtype("repeats has to be Long or Int tensor"));
    }
    if repeats.is_meta() {
        let Some(size) = output_size else {
            return Err(Error::not_implemented("how long the result is is not known of a meta tensor"));
        };
        return New::contiguous([size], repeats.dtype(), repeats.device()).make();
    }
    let values = values(repeats)?;
    if values.iter().any(|&repeat| repeat < 0) {
        return Err(Error::invalid_argument("repeats can not be negative"));
    }
    let total = values.iter().try_fold(0_i64, |sum, &repeat| sum.checked_add(repeat));
    let total = total.ok_or_else(|| Error::new(ErrorKind::Overflow, "the repeats add up to too many"))?;
    if output_size.is_some_and(|size| size != total) {
        return Err(Error::shape(format!("allocated size does not match required size {total}")));
    }
    let out = New::contiguous([total], ScalarType::Int64, repeats.device()).make()?;
    access([], [&out], Fresh::Yes, |[], [out]| {
        let mut rest = out.slice::<i64>()?;
        for (i, &repeat) in values.iter().enumerate() {
            let (run, after) = rest.split_at_mut(repeat as usize);
            run.fill(i as i64);
            rest = after;
        }
        Ok(())
    })?;
    out.to_dtype(repeats.dtype())
}
