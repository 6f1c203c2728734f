//! What a node gave is made what the next one takes (`validate_outputs`).

use aten::{Error, ErrorKind, Result, Tensor, TensorOptions};

use crate::gradients::Gradients;
use crate::node::{Edge, InputMeta, Node};

/// Checks sizes, dtype and device of what `node` gave. A gradient that was broadcast is summed, one of another dtype
/// is cast (of a complex one for a real tensor the real part is taken), one without dimensions is moved.
#[inline(always)]
pub(super) fn outputs(node: &Node, given: &mut Gradients) -> Result<()> {
    let edges = node.next_functions();
    if given.len() != edges.len() {
        if given.get(edges.len()..).is_none_or(|rest| rest.iter().any(Option::is_some)) {
            return Err(wrong_number(node, given.len()));
        }
        given.truncate(edges.len());
    }
    for (at, (gradient, edge)) in given.iter_mut().zip(edges).enumerate() {
        let Some(own) = gradient else { continue };
        let Some(edge) = edge else {
            *gradient = None;
            continue;
        };
        let meta = &edge.node.inputs()[edge.input];
        if !meta.is_like(own)
            && let Some(changed) = fitted(own, meta, node, at)?
        {
            *gradient = Some(changed);
        }
    }
    Ok(())
}

#[cold]
fn wrong_number(node: &Node, given: usize) -> Error {
    Error::invalid_argument(format!(
        "Function {} returned an invalid number of gradients - expected {}, but got {given}",
        node.name(),
        node.next_functions().len(),
    ))
}

/// The gradient as `meta` asks, if it is not so already.
#[inline(never)]
fn fitted(gradient: &Tensor, meta: &InputMeta, node: &Node, at: usize) -> Result<Option<Tensor>> {
    let mut changed = None;
    if !meta.has_sizes_of(gradient) {
        if !is_expandable(&meta.sizes, &gradient.sizes()) {
            return Err(Error::shape(format!(
                "Function {} returned an invalid gradient at index {at} - got {:?} but expected shape compatible with {:?}",
                node.name(),
                gradient.sizes(),
                meta.sizes
            )));
        }
        changed = Some(gradient.sum_to_size(&meta.sizes)?);
    }
    if gradient.dtype() != meta.dtype {
        let own = changed.as_ref().unwrap_or(gradient);
        let real =
            if own.dtype().is_complex() && !meta.dtype.is_complex() { Some(own.real()?) } else { None };
        let own = real.as_ref().unwrap_or(own);
        changed = Some(own.to(TensorOptions::default().dtype(meta.dtype))?);
    }
    if gradient.device() != meta.device {
        if gradient.rank() != 0 {
            return Err(Error::new(
                ErrorKind::Device,
                format!(
                    "Function {} returned an invalid gradient at index {at} - expected device {} but got {}",
                    node.name(),
                    meta.device,
                    gradient.device()
                ),
            ));
        }
        let own = changed.as_ref().unwrap_or(gradient);
        changed = Some(own.to(TensorOptions::default().device(meta.device))?);
    }
    Ok(changed)
}

/// Whether `from` broadcasts to `to`.
fn is_expandable(from: &[i64], to: &[i64]) -> bool {
    from.len() <= to.len()
        && from.iter().rev().zip(to.iter().rev()).all(|(from, to)| *from == 1 || from == to)
}

/// The gradient of a root, as the root asks.
pub(super) fn root(edge: &Edge, gradient: Option<Tensor>) -> Result<Option<Tensor>> {
    let Some(gradient) = gradient else { return Ok(None) };
    let meta = &edge.node.inputs()[edge.input];
    let changed = fitted(&gradient, meta, &edge.node, edge.input)?;
    Ok(Some(changed.unwrap_or(gradient)))
}

/// Refuses NaNs, in anomaly mode.
pub(super) fn no_nan(node: &Node, given: &[Option<Tensor>]) -> Result<()> {
    for (at, gradient) in given.iter().enumerate() {
        let Some(gradient) = gradient else { continue };
        if gradient.isnan()?.any()?.item()? != 0.0 {
            return Err(Error::invalid_argument(format!(
                "Function '{}' returned nan values in its {at}th output.\n{}",
                node.name(),
                crate::anomaly::Trail(node)
            )));
        }
    }
    Ok(())
}
