//! Rows of a table by number: `embedding`, `embedding_bag` and their gradients.

use c10_core::{Element, ScalarType, bf16, f16};

use super::handles;
use super::index_values::{check_index_dtype, values_below};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::embedding::{BagMode, Bags, add_rows, occurrences};
use crate::math;
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends(
        "embedding",
        |weight: &Tensor, indices: &Tensor, _padding_idx: i64, _scale_grad_by_freq: bool, _sparse: bool| {
            embedding(weight, indices)
        },
    )?;
    lib.cpu_meta("embedding_dense_backward", dense_backward)?;
    lib.cpu_meta("embedding_renorm_", renorm)?;
    for name in ["_embedding_bag", "_embedding_bag_forward_only"] {
        lib.cpu_meta(name, embedding_bag)?;
    }
    lib.composite(
        "embedding_bag",
        |weight: &Tensor,
         indices: &Tensor,
         offsets: &Tensor,
         scale: bool,
         mode: i64,
         sparse: bool,
         weights: Option<&Tensor>,
         last: bool| {
            handles::_EMBEDDING_BAG.call(weight, indices, offsets, scale, mode, sparse, weights, last, -1)
        },
    )?;
    lib.composite("embedding_bag.padding_idx", embedding_bag_padded)?;
    lib.cpu_meta("_embedding_bag_dense_backward", bag_dense_backward)?;
    lib.composite("_embedding_bag_backward", bag_backward)?;
    lib.cpu_meta("_embedding_bag_per_sample_weights_backward", bag_weights_backward)
}

fn check_table(weight: &Tensor) -> Result<()> {
    if weight.rank() == 2 {
        return Ok(());
    }
    Err(Error::shape(format!("'weight' must be 2-D, got {:?}", weight.sizes())))
}

fn embedding(weight: &Tensor, indices: &Tensor) -> Result<Tensor> {
    check_table(weight)?;
    check_index_dtype("embedding", indices)?;
    if indices.rank() == 1 {
        return weight.index_select(0, indices);
    }
    let mut sizes = indices.sizes();
    sizes.push(weight.sizes()[1]);
    weight.index_select(0, &indices.reshape(&[-1])?)?.view(&sizes)
}

/// A new tensor of those elements in row-major order.
fn made<T: Element + crate::tensor::Plain>(elements: &[T], sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let out = New::contiguous(sizes, T::SCALAR_TYPE, like.device()).make()?;
    access([], [&out], Fresh::Yes, |[], [to]| {
        to.slice::<T>()?.copy_from_slice(elements);
        Ok(())
    })?;
    Ok(out)
}

fn dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    check_index_dtype("embedding_backward", indices)?;
    let width = grad.sizes().last().copied().unwrap_or(1);
    if num_weights < 0 || grad.numel() != indices.numel() * width {
        return Err(Error::shape(format!(
            "a gradient of {:?} for look-ups of {:?}",
            grad.sizes(),
            indices.sizes()
        )));
    }
    let sizes = [num_weights, width];
    if grad.is_meta() {
        return New::contiguous(sizes, grad.dtype(), grad.device()).make();
    }
    let at = values_below(indices, num_weights, 0)?;
    let rows = num_weights as usize;
    let counts = occurrences(rows, at.iter().map(|&row| row as usize));
    let look_ups = at.iter().enumerate().filter(|(_, row)| **row != padding_idx).map(|(i, &row)| {
        let factor = if scale_grad_by_freq { 1.0 / counts[row as usize] as f64 } else { 1.0 };
        (row as usize, i, factor)
    });
    dispatch!(grad.dtype(), "embedding_backward", [f16, bf16, f32, f64], T => {
        made(&add_rows::<T>(rows, width as usize, &grad.to_vec::<T>()?, look_ups), &sizes, grad)
    })
}

/// Scales the rows that are looked up, and whose norm is above `max_norm`, down to it.
fn renorm(this: &Tensor, indices: &Tensor, max_norm: f64, norm_type: f64) -> Result<()> {
    check_table(this)?;
    check_index_dtype("embedding_renorm_", indices)?;
    if this.is_meta() {
        return Ok(());
    }
    let mut rows = values_below(indices, this.sizes()[0], 0)?;
    rows.sort_unstable();
    rows.dedup();
    dispatch!(this.dtype(), "embedding_renorm_", [f16, bf16, f32, f64], T => {
        access([], [this], Fresh::No, |[], [to]| {
            let (strides, width) = (Dims::from(to.strides()), to.sizes()[1]);
            let to = to.elements::<T>()?;
            for row in rows {
                let place = |column: i64| (row * strides[0] + column * strides[1]) as usize;
                let elements = (0..width).map(|column| math::to_f64(to[place(column)]).abs());
                let norm = match norm_type {
                    f64::INFINITY => elements.fold(0.0, f64::max),
                    p => elements.map(|element| element.powf(p)).sum::<f64>().powf(1.0 / p),
                };
                if norm > max_norm {
                    let scale = max_norm / (norm + 1e-7);
                    for column in 0..width {
                        let element = &mut to[place(column)];
                        *element = crate::random::Discrete::from_real(math::to_f64(*element) * scale);
                    }
                }
            }
            Ok(())
        })
    })
}

fn bag_mode(mode: i64) -> Result<BagMode> {
    match mode {
        0 => Ok(BagMode::Sum),
        1 => Ok(BagMode::Mean),
        2 => Ok(BagMode::Max),
        _ => Err(Error::invalid_argument(format!("embedding_bag knows the modes 0, 1 and 2, not {mode}"))),
    }
}

#[expect(clippy::too_many_arguments, reason = "the arguments are those of the schema")]
fn embedding_bag_padded(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_table(weight)?;
    let rows = weight.sizes()[0];
    let padding = match padding_idx {
        None => -1,
        Some(row) if row >= -rows && row < rows => row + if row < 0 { rows } else { 0 },
        Some(row) => {
            return Err(Error::index(format!(
                "padding_idx must be within the number of embeddings, {rows}, not {row}"
            )));
        }
    };
    handles::_EMBEDDING_BAG.call(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        weights,
        include_last_offset,
        padding,
    )
}

fn check_bags(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    weights: Option<&Tensor>,
    mode: BagMode,
    last: bool,
) -> Result<()> {
    check_table(weight)?;
    check_index_dtype("embedding_bag", indices)?;
    check_index_dtype("embedding_bag", offsets)?;
    if indices.rank() != 1 || offsets.rank() != 1 {
        return Err(Error::shape("embedding_bag: indices and offsets must have one dimension"));
    }
    if last && offsets.numel() < 1 {
        return Err(Error::shape("include_last_offset: number of offset should be at least 1"));
    }
    let Some(weights) = weights else { return Ok(()) };
    if mode != BagMode::Sum {
        return Err(Error::invalid_argument(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'",
        ));
    }
    if weights.dtype() != weight.dtype() || weights.sizes() != indices.sizes() {
        return Err(Error::shape(
            "embedding_bag: per_sample_weights must have the sizes of indices and the dtype of weight",
        ));
    }
    Ok(())
}

/// The bags, every number checked.
fn bags(rows: i64, indices: &Tensor, offsets: &Tensor, last: bool, padding_idx: i64) -> Result<Bags> {
    let indices = values_below(indices, rows, 0)?;
    let mut begins = super::index_values::values(offsets)?;
    let count = indices.len() as i64;
    if begins.first().is_some_and(|&first| first != 0) {
        return Err(Error::index(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0.",
        ));
    }
    let sorted = begins.windows(2).all(|pair| pair[0] <= pair[1]);
    if !sorted || begins.last().is_some_and(|&end| end > count) {
        return Err(Error::index(format!(
            "offsets must not decrease nor pass the number of indices, {count}: {begins:?}"
        )));
    }
    if last {
        begins.pop();
    }
    let sizes: Vec<i64> = begins
        .iter()
        .enumerate()
        .map(|(bag, &begin)| begins.get(bag + 1).copied().unwrap_or(count) - begin)
        .collect();
    let bag_of = sizes
        .iter()
        .enumerate()
        .flat_map(|(bag, &size)| std::iter::repeat_n(bag as i64, size as usize))
        .collect();
    Ok(Bags { indices, bag_of, sizes, padding: (padding_idx >= 0).then_some(padding_idx) })
}

#[expect(clippy::too_many_arguments, reason = "the arguments are those of the schema")]
fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _scale_grad_by_freq: bool,
    mode: i64,
    _sparse: bool,
    weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let mode = bag_mode(mode)?;
    check_bags(weight, indices, offsets, weights, mode, include_last_offset)?;
    let index_dtype = if offsets.dtype() == ScalarType::Int32 { indices.dtype() } else { ScalarType::Int64 };
    let (bag_count, width) = (offsets.numel() - i64::from(include_last_offset), weight.sizes()[1]);
    // As PyTorch does, the bags are not written down where its sum needs them not.
    let unused = mode == BagMode::Sum
        && padding_idx < 0
        && matches!(weight.dtype(), ScalarType::Float32 | ScalarType::Float16 | ScalarType::BFloat16)
        && weight.strides()[1] == 1
        && weights.is_none_or(|weights| weights.strides()[0] == 1);
    let mapped = if unused { 0 } else { indices.numel() };
    let new = |sizes: &[i64]| New::contiguous(sizes, index_dtype, weight.device()).make();
    if weight.is_meta() {
        let out = New::contiguous([bag_count, width], weight.dtype(), weight.device()).make()?;
        let max = if mode == BagMode::Max { new(&[bag_count, width])? } else { new(&[bag_count])? };
        return Ok((out, new(&[mapped])?, new(&[bag_count])?, max));
    }
    let bags = bags(weight.sizes()[0], indices, offsets, include_last_offset, padding_idx)?;
    let factors: Vec<f64> = match weights {
        Some(weights) => weights.to_dtype(ScalarType::Float64)?.to_vec()?,
        None => Vec::new(),
    };
    let sizes = [bag_count, width];
    let (out, max_rows) = dispatch!(weight.dtype(), "embedding_bag", [f16, bf16, f32, f64], T => {
        let table = weight.to_vec::<T>()?;
        let (out, rows) = match mode {
            BagMode::Max => bags.max(&table, width as usize),
            mode => (bags.sum(&table, width as usize, &factors, mode == BagMode::Mean), Vec::new()),
        };
        Ok::<_, Error>((made(&out, &sizes, weight)?, rows))
    })?;
    let ints = |elements: &[i64], sizes: &[i64]| made(elements, sizes, weight)?.to_dtype(index_dtype);
    let offset2bag = ints(&bags.bag_of[..mapped as usize], &[mapped])?;
    let counted = if mode == BagMode::Sum { vec![0; bags.sizes.len()] } else { bags.counted() };
    let bag_size = ints(&counted, &[bag_count])?;
    let max_indices =
        if mode == BagMode::Max { ints(&max_rows, &sizes)? } else { ints(&counted, &[bag_count])? };
    Ok((out, offset2bag, bag_size, max_indices))
}

#[expect(clippy::too_many_arguments, reason = "the arguments are those of the schema")]
fn bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    max_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    if sparse {
        return Err(Error::not_implemented("a sparse gradient of embedding_bag"));
    }
    let offset2bag = if offset2bag.numel() == indices.numel() || offsets.is_meta() {
        offset2bag.clone()
    } else {
        // It was not written down: without a last offset there are as many bags as sizes.
        let last = offsets.numel() > bag_size.numel();
        let bags = bags(num_weights, indices, offsets, last, padding_idx)?;
        made(&bags.bag_of, &[indices.numel()], indices)?.to_dtype(indices.dtype())?
    };
    handles::_EMBEDDING_BAG_DENSE_BACKWARD.call(
        grad,
        indices,
        &offset2bag,
        bag_size,
        max_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        weights,
        padding_idx,
    )
}

#[expect(clippy::too_many_arguments, reason = "the arguments are those of the schema")]
fn bag_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    max_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    let mode = bag_mode(mode)?;
    if grad.rank() != 2 || num_weights < 0 {
        return Err(Error::shape("the gradient of embedding_bag has two dimensions"));
    }
    let (bag_count, width) = (grad.sizes()[0], grad.sizes()[1]);
    let sizes = [num_weights, width];
    if grad.is_meta() {
        return New::contiguous(sizes, grad.dtype(), grad.device()).make();
    }
    let rows = values_below(indices, num_weights, 0)?;
    if mode == BagMode::Max {
        return max_backward(grad, max_indices, bag_size, &sizes);
    }
    let bag_of = values_below(offset2bag, bag_count, 0)?;
    if bag_of.len() != rows.len() {
        return Err(Error::shape("there is not one bag for each index"));
    }
    let counted = super::index_values::values(bag_size)?;
    if mode == BagMode::Mean && counted.len() as i64 != bag_count {
        return Err(Error::shape("there is not one size for each bag"));
    }
    let factors: Vec<f64> = match weights {
        Some(weights) if weights.numel() == indices.numel() => {
            weights.to_dtype(ScalarType::Float64)?.to_vec()?
        }
        Some(_) => return Err(Error::shape("per_sample_weights must have the sizes of indices")),
        None => Vec::new(),
    };
    let counts = occurrences(num_weights as usize, rows.iter().map(|&row| row as usize));
    let look_ups = rows.iter().zip(&bag_of).enumerate().filter(|(_, (row, _))| **row != padding_idx).map(
        |(i, (&row, &bag))| {
            let mut factor = factors.get(i).copied().unwrap_or(1.0);
            if scale_grad_by_freq {
                factor /= counts[row as usize] as f64;
            }
            if mode == BagMode::Mean {
                factor /= counted[bag as usize].max(1) as f64;
            }
            (row as usize, bag as usize, factor)
        },
    );
    dispatch!(grad.dtype(), "embedding_bag_backward", [f16, bf16, f32, f64], T => {
        made(&add_rows::<T>(num_weights as usize, width as usize, &grad.to_vec::<T>()?, look_ups), &sizes, grad)
    })
}

/// Each gradient goes to the row that was the greatest there; that of a bag of nothing goes nowhere.
fn max_backward(grad: &Tensor, max_indices: &Tensor, bag_size: &Tensor, sizes: &[i64; 2]) -> Result<Tensor> {
    let rows = values_below(max_indices, sizes[0], 0)?;
    if rows.len() as i64 != grad.numel() {
        return Err(Error::shape("there is not one greatest row for each element of the gradient"));
    }
    let (width, counted) = (sizes[1] as usize, super::index_values::values(bag_size)?);
    let is_filled = |at: usize| counted.get(at / width.max(1)).is_none_or(|&count| count > 0);
    let filled = rows.iter().enumerate().filter(|(at, _)| is_filled(*at));
    let places = filled.map(|(at, &row)| (row as usize * width + at % width.max(1), at, 1.0));
    dispatch!(grad.dtype(), "embedding_bag_backward", [f16, bf16, f32, f64], T => {
        made(&add_rows::<T>(sizes[0] as usize * width, 1, &grad.to_vec::<T>()?, places), sizes, grad)
    })
}

/// For each index the product of its bag's gradient and its row.
fn bag_weights_backward(
    grad: &Tensor,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    mode: i64,
    padding_idx: i64,
) -> Result<Tensor> {
    if bag_mode(mode)? != BagMode::Sum {
        return Err(Error::invalid_argument(
            "embedding_bag_backward: per_sample_weights only supported for mode='sum'",
        ));
    }
    check_table(weight)?;
    let sizes = [indices.numel()];
    if grad.is_meta() {
        return New::contiguous(sizes, grad.dtype(), grad.device()).make();
    }
    let (bag_count, width) = (grad.sizes()[0], weight.sizes()[1] as usize);
    let mut bags = bags(weight.sizes()[0], indices, offsets, offsets.numel() > bag_count, padding_idx)?;
    if offset2bag.numel() == indices.numel() {
        bags.bag_of = values_below(offset2bag, bag_count, 0)?;
    }
    if grad.sizes() != [bag_count, width as i64] || bags.bag_of.len() != bags.indices.len() {
        return Err(Error::shape(format!("a gradient of {:?} for {bag_count} bags", grad.sizes())));
    }
    dispatch!(grad.dtype(), "embedding_bag_backward", [f16, bf16, f32, f64], T => {
        let (grad_elements, table) = (grad.to_vec::<T>()?, weight.to_vec::<T>()?);
        let mut out = vec![T::default(); bags.indices.len()];
        for (i, row, bag) in bags.members() {
            let products = grad_elements[bag * width..].iter().zip(&table[row * width..]).take(width);
            let sum = products.map(|(&g, &w)| math::to_f64(g) * math::to_f64(w)).sum();
            out[i] = crate::random::Discrete::from_real(sum);
        }
        made(&out, &sizes, grad)
    })
}
