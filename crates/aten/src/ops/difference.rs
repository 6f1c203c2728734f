//! Differences, integrals and covariances, made of other operators.

use c10_core::{Scalar, ScalarType};

use super::handles;
use super::reduction::{dim_of, store};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

type Maybe<'a> = Option<&'a Tensor>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("diff", diff)?;
    lib.all_backends(
        "diff.out",
        |x: &Tensor, n: i64, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>, out: &Tensor| {
            store(out, &handles::DIFF.call(x, n, dim, prepend, append)?)
        },
    )?;
    lib.composite("trapezoid.dx", |y: &Tensor, dx: Scalar, dim: i64| trapezoid_dx(y, dx, dim))?;
    lib.composite("trapezoid.x", |y: &Tensor, x: &Tensor, dim: i64| trapezoid_x(y, x, dim))?;
    lib.composite("trapz.dx", |y: &Tensor, dx: f64, dim: i64| trapezoid_dx(y, dx.into(), dim))?;
    lib.composite("trapz.x", |y: &Tensor, x: &Tensor, dim: i64| trapezoid_x(y, x, dim))?;
    lib.composite("cumulative_trapezoid.dx", |y: &Tensor, dx: Scalar, dim: i64| {
        check_trapezoid(y, y)?;
        let dim = dim_of(y, dim)? as i64;
        let (left, right) = neighbours(y, dim)?;
        handles::CUMSUM.call(&left.add(&right)?, dim, None)?.mul_scalar(dx)?.div_scalar(2.0)
    })?;
    lib.composite("cumulative_trapezoid.x", |y: &Tensor, x: &Tensor, dim: i64| {
        check_trapezoid(y, x)?;
        let dim = dim_of(y, dim)? as i64;
        let (left, right) = neighbours(y, dim)?;
        let areas = steps(y, x, dim, "cumulative_trapezoid")?.mul(&left.add(&right)?)?;
        handles::CUMSUM.call(&areas, dim, None)?.div_scalar(2.0)
    })?;
    lib.composite("cov", cov)?;
    lib.composite("corrcoef", corrcoef)
}

/// All but the last and all but the first along a dimension; nothing of nothing.
fn neighbours(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let n = x.sizes().get(dim as usize).copied().unwrap_or(1);
    let rest = (n - 1).max(0);
    Ok((x.narrow(dim, 0, rest)?, x.narrow(dim, n.min(1), rest)?))
}

fn diff(x: &Tensor, n: i64, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>) -> Result<Tensor> {
    if x.rank() == 0 {
        return Err(Error::shape("diff expects input to be at least one-dimensional"));
    }
    if n < 0 {
        return Err(Error::invalid_argument(format!("order must be non-negative but got {n}")));
    }
    let dim = dim_of(x, dim)? as i64;
    for part in [prepend, append].into_iter().flatten() {
        let agree = |(at, (a, b)): (usize, (&i64, &i64))| at as i64 == dim || a == b;
        if part.rank() != x.rank() {
            return Err(Error::shape("diff expects prepend or append to be the same dimension as input"));
        }
        if !part.sizes().iter().zip(&x.sizes()).enumerate().all(agree) {
            return Err(Error::shape(
                "diff expects the shape of tensor to prepend or append to match that of input",
            ));
        }
    }
    if n == 0 {
        return handles::CLONE.call(x, None);
    }
    let parts: Vec<Tensor> = [prepend, Some(x), append].into_iter().flatten().cloned().collect();
    let mut made = if parts.len() > 1 { handles::CAT.call(&parts, dim)? } else { x.clone() };
    for _ in 0..n.min(made.sizes()[dim as usize].max(1)) {
        let (left, right) = neighbours(&made, dim)?;
        let is_bool = made.dtype() == ScalarType::Bool;
        made = if is_bool { left.logical_xor(&right)? } else { right.sub(&left)? };
    }
    Ok(made)
}

fn check_trapezoid(y: &Tensor, x: &Tensor) -> Result<()> {
    if y.dtype() == ScalarType::Bool || x.dtype() == ScalarType::Bool {
        return Err(Error::dtype(
            "trapezoid: received a bool input for `x` or `y`, but bool is not supported",
        ));
    }
    Ok(())
}

fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    check_trapezoid(y, y)?;
    let dim = dim_of(y, dim)? as i64;
    let (left, right) = neighbours(y, dim)?;
    let sum = handles::SUM_DIM_INTLIST.call(&left.add(&right)?, Some(&[dim]), false, None)?;
    sum.mul_scalar(dx)?.div_scalar(2.0)
}

fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    check_trapezoid(y, x)?;
    let dim = dim_of(y, dim)? as i64;
    let (left, right) = neighbours(y, dim)?;
    let areas = steps(y, x, dim, "trapezoid")?.mul(&left.add(&right)?)?;
    handles::SUM_DIM_INTLIST.call(&areas, Some(&[dim]), false, None)?.div_scalar(2.0)
}

/// The distances of sample points, in a shape that broadcasts with `y`.
fn steps(y: &Tensor, x: &Tensor, dim: i64, name: &str) -> Result<Tensor> {
    let rank = y.rank().max(1);
    let shape: Vec<i64> = if x.rank() == 1 && rank > 1 {
        if x.numel() != y.sizes()[dim as usize] {
            return Err(Error::shape(format!("{name}: There must be one `x` value for each sample point")));
        }
        (0..rank as i64).map(|at| if at == dim { x.numel() } else { 1 }).collect()
    } else {
        let lead = rank.saturating_sub(x.rank());
        std::iter::repeat_n(1, lead).chain(x.sizes().iter().copied()).collect()
    };
    let x = x.reshape(&shape)?;
    let dim = if x.rank() > rank { dim + (x.rank() - rank) as i64 } else { dim };
    let (left, right) = neighbours(&x, dim)?;
    right.sub(&left)
}

fn check_weights(name: &str, weights: &Tensor, observations: i64, is_kind: bool, kind: &str) -> Result<()> {
    if weights.rank() > 1 {
        return Err(Error::shape(format!(
            "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
            weights.rank()
        )));
    }
    if !is_kind {
        return Err(Error::dtype(format!(
            "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
            weights.dtype().c10_name()
        )));
    }
    if weights.numel() != observations {
        return Err(Error::shape(format!(
            "cov(): expected {name} to have the same numel as there are observations in the input but got {} != \
             {observations}",
            weights.numel()
        )));
    }
    if !weights.is_meta() && weights.numel() > 0 && weights.min()?.item()?.to::<f64>()? < 0.0 {
        return Err(Error::invalid_argument(format!("cov(): {name} cannot be negative")));
    }
    Ok(())
}

fn cov(x: &Tensor, correction: i64, fweights: Option<&Tensor>, aweights: Option<&Tensor>) -> Result<Tensor> {
    if x.rank() > 2 {
        return Err(Error::shape(format!(
            "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.rank()
        )));
    }
    if x.dtype() == ScalarType::Bool {
        return Err(Error::dtype("cov(): bool dtype is not supported for input"));
    }
    let x = if x.rank() < 2 { x.reshape(&[1, -1])? } else { x.clone() };
    let observations = x.sizes()[1];
    if let Some(weights) = fweights {
        let is_kind = weights.dtype().is_integral(false);
        check_weights("fweights", weights, observations, is_kind, "integral")?;
    }
    if let Some(weights) = aweights {
        let is_kind = weights.dtype().is_floating_point();
        check_weights("aweights", weights, observations, is_kind, "floating point")?;
    }
    let weights: Option<Tensor> = match (fweights, aweights) {
        (Some(f), Some(a)) => Some(f.mul(a)?),
        (weights, None) | (None, weights) => weights.cloned(),
    };
    let weighted = |x: &Tensor| weights.as_ref().map_or(Ok(x.clone()), |weights: &Tensor| x.mul(weights));
    let sum = handles::SUM_DIM_INTLIST.call(&weighted(&x)?, Some(&[1]), true, None)?;
    let product = |mean: &Tensor| {
        let centred = x.sub(mean)?;
        centred.mm(&handles::CONJ.call(&weighted(&centred)?.t()?)?)
    };
    match &weights {
        Some(weights) => {
            let (total, factor) = weight_sums(correction, weights, aweights)?;
            product(&sum.div(&total)?)?.div(&factor)?.squeeze()
        }
        None => {
            let factor = (observations as f64 - correction as f64).max(0.0);
            product(&sum.div_scalar(observations as f64)?)?.div_scalar(factor)?.squeeze()
        }
    }
}

/// The sum of weights, and what covariances are divided by. They are tensors, for weights may have gradients.
fn weight_sums(correction: i64, weights: &Tensor, aweights: Maybe<'_>) -> Result<(Tensor, Tensor)> {
    let total = weights.sum()?;
    // Of shapes alone the weights are not known, and not needed.
    let value =
        |x: &Tensor| -> Result<f64> { if x.is_meta() { Ok(1.0) } else { Ok(x.item()?.to::<f64>()?) } };
    let sum = value(&total)?;
    if !sum.is_finite() || (weights.numel() > 0 && sum == 0.0) {
        return Err(Error::invalid_argument("cov(): weights sum to zero, can't be normalized"));
    }
    let factor = match aweights {
        Some(aweights) if correction != 0 => {
            let squares = weights.mul(aweights)?.sum()?;
            total.sub(&squares.mul_scalar(correction)?.div(&total)?)?
        }
        _ => total.sub_scalar(correction)?,
    };
    let factor = if value(&factor)? <= 0.0 { factor.mul_scalar(0)? } else { factor };
    Ok((total, factor))
}

fn corrcoef(x: &Tensor) -> Result<Tensor> {
    if x.rank() > 2 {
        return Err(Error::shape(format!(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.rank()
        )));
    }
    let cov = handles::COV.call(x, 1, None, None)?;
    if cov.rank() == 0 {
        return cov.div(&cov);
    }
    let diagonal = handles::DIAGONAL.call(&cov, 0, 0, 1)?;
    let diagonal = if diagonal.dtype().is_complex() { handles::REAL.call(&diagonal)? } else { diagonal };
    let deviations = diagonal.sqrt()?;
    let made = cov.div(&deviations.reshape(&[-1, 1])?)?.div(&deviations.reshape(&[1, -1])?)?;
    if made.dtype().is_complex() {
        return Ok(made);
    }
    handles::CLAMP.call(&made, Some(Scalar::from(-1_i64)), Some(Scalar::from(1_i64)))
}
