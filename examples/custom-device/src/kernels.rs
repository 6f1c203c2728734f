//! The toy's kernels: of `float32` tensors, contiguous or not, of one shape. What they do not take they hand to the
//! [fallback](crate::fallback), which takes all.

use aten::dispatch::{Library, OperatorHandle, Value};
use aten::{Error, Result, Tensor};
use c10_core::storage::{Access, AccessOptions};
use c10_core::{Scalar, ScalarType, Storage};

use crate::fallback;
use crate::memory;

/// Registers them.
pub(crate) fn register(library: &mut Library<'_>) -> Result<()> {
    for (name, f) in UNARY {
        library.implement(name, move |x: &Tensor| unary(name, x, f))?;
    }
    for (name, f) in BINARY {
        library.implement(name, move |x: &Tensor, y: &Tensor| match same(x, y) {
            true => binary(x, y, f),
            false => on_host(name, vec![x.clone().into(), y.clone().into()]),
        })?;
    }
    library.implement("add.Tensor", |x: &Tensor, y: &Tensor, alpha: Scalar| scaled_sum(x, y, alpha))?;
    library.implement("add_.Tensor", add_)?;
    library.implement("mm", mm)
}

type Unary = fn(f32) -> f32;
type Binary = fn(f32, f32) -> f32;

/// Operators of one tensor, element by element.
const UNARY: [(&str, Unary); 7] = [
    ("relu", |x| if x.is_nan() { x } else { x.max(0.0) }),
    ("neg", |x| -x),
    ("abs", f32::abs),
    ("exp", f32::exp),
    ("sqrt", f32::sqrt),
    ("tanh", f32::tanh),
    ("reciprocal", f32::recip),
];

/// Operators of two tensors, element by element.
const BINARY: [(&str, Binary); 2] = [("mul.Tensor", |x, y| x * y), ("div.Tensor", |x, y| x / y)];

fn unary(name: &str, x: &Tensor, f: Unary) -> Result<Tensor> {
    if x.dtype() != ScalarType::Float32 {
        return on_host(name, vec![x.clone().into()]);
    }
    let results: Vec<f32> = elements(x)?.into_iter().map(f).collect();
    filled(x, &x.sizes(), &results)
}

fn binary(x: &Tensor, y: &Tensor, f: impl Fn(f32, f32) -> f32) -> Result<Tensor> {
    let pairs = elements(x)?.into_iter().zip(elements(y)?);
    let results: Vec<f32> = pairs.map(|(x, y)| f(x, y)).collect();
    filled(x, &x.sizes(), &results)
}

fn scaled_sum(x: &Tensor, y: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if !same(x, y) || alpha.is_complex() {
        return on_host("add.Tensor", vec![x.clone().into(), y.clone().into(), alpha.into()]);
    }
    let alpha = alpha.to::<f32>()?;
    binary(x, y, move |x, y| x + alpha * y)
}

/// `x` is written where it is, which counts as one write.
fn add_(x: &Tensor, y: &Tensor, alpha: Scalar) -> Result<()> {
    if !same(x, y) || !x.is_contiguous() || alpha.is_complex() {
        return fallback::call(
            &operator("add_.Tensor")?,
            &mut vec![x.clone().into(), y.clone().into(), alpha.into()],
        );
    }
    let alpha = alpha.to::<f32>()?;
    let addend = elements(y)?;
    let storage = x.storage();
    let options = AccessOptions { bump_version: true, host: false };
    let mut access = Access::acquire_with(&[], &[&storage], options)?;
    let (start, _) = access.write_ptr(0)?;
    let place = start.addr() + x.storage_offset() as usize * size_of::<f32>();
    let mut sum = floats(&memory::read(place, addend.len() * size_of::<f32>())?);
    sum.iter_mut().zip(addend).for_each(|(x, y)| *x += alpha * y);
    Ok(memory::write(place, &bytes(&sum))?)
}

fn mm(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let is_matrix = |t: &Tensor| t.rank() == 2 && t.dtype() == ScalarType::Float32;
    if !is_matrix(x) || !is_matrix(y) || x.sizes()[1] != y.sizes()[0] || x.device() != y.device() {
        // The host has the sentence for what is wrong.
        return on_host("mm", vec![x.clone().into(), y.clone().into()]);
    }
    let (rows, inner, columns) = (x.sizes()[0] as usize, x.sizes()[1] as usize, y.sizes()[1] as usize);
    let (left, right) = (elements(x)?, elements(y)?);
    let mut product = vec![0.0_f32; rows * columns];
    for row in 0..rows {
        for k in 0..inner {
            for column in 0..columns {
                product[row * columns + column] += left[row * inner + k] * right[k * columns + column];
            }
        }
    }
    filled(x, &[rows as i64, columns as i64], &product)
}

/// Both are what the kernels take: `float32`, of one shape, on one device.
fn same(x: &Tensor, y: &Tensor) -> bool {
    let is_float = |t: &Tensor| t.dtype() == ScalarType::Float32 && !t.is_wrapped_number();
    is_float(x) && is_float(y) && x.sizes() == y.sizes() && x.device() == y.device()
}

fn operator(name: &str) -> Result<OperatorHandle> {
    aten::dispatch::Dispatcher::global().require(&format!("aten::{name}"))
}

/// The one result of an operator that runs on the host.
fn on_host(name: &str, mut stack: Vec<Value>) -> Result<Tensor> {
    fallback::call(&operator(name)?, &mut stack)?;
    match stack.pop() {
        Some(Value::Tensor(result)) => Ok(result),
        other => Err(Error::invalid_argument(format!("{name} gave {other:?} for a tensor"))),
    }
}

/// The elements of a `float32` tensor in row-major order.
fn elements(x: &Tensor) -> Result<Vec<f32>> {
    let storage = x.storage();
    let options = AccessOptions { bump_version: false, host: false };
    let access = Access::acquire_with(&[&storage], &[], options)?;
    let (start, nbytes) = access.read_ptr(0)?;
    let all = floats(&memory::read(start.addr(), nbytes / size_of::<f32>() * size_of::<f32>())?);
    let (sizes, strides) = (x.sizes(), x.strides());
    let mut offsets = vec![x.storage_offset()];
    for (size, stride) in sizes.iter().zip(strides.iter()) {
        offsets = offsets.iter().flat_map(|offset| (0..*size).map(move |i| offset + i * stride)).collect();
    }
    let element = |offset: i64| all.get(offset as usize).copied();
    let found: Option<Vec<f32>> = offsets.into_iter().map(element).collect();
    found.ok_or_else(|| Error::shape("the storage has shrunk below its tensor"))
}

/// A new tensor with these elements, on the device of another.
fn filled(like: &Tensor, sizes: &[i64], elements: &[f32]) -> Result<Tensor> {
    let out = Tensor::empty(sizes, (ScalarType::Float32, like.device()))?;
    let storage: Storage = out.storage();
    let options = AccessOptions { bump_version: false, host: false };
    let mut access = Access::acquire_with(&[], &[&storage], options)?;
    let (start, _) = access.write_ptr(0)?;
    memory::write(start.addr(), &bytes(elements))?;
    drop(access);
    Ok(out)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_ne_bytes(*word)).collect()
}

fn bytes(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_ne_bytes()).collect()
}
