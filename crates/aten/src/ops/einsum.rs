//! Sums of products by Einstein's convention: letters name dimensions.

use super::handles;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("einsum", einsum)
}

/// What stands for a dimension: a letter, or one of those that `...` stands for, counted from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Letter(u8),
    Rest(usize),
}

/// The labels of one operand, or of the result, where `...` stands for `rest` dimensions.
fn labels(text: &str, rest: usize) -> Result<Vec<Label>> {
    let fault = |what: &str| Error::invalid_argument(format!("einsum(): {what} in '{text}'"));
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let letters = |part: &str| -> Result<Vec<Label>> {
        part.bytes()
            .map(|letter| match letter {
                letter if letter.is_ascii_alphabetic() => Ok(Label::Letter(letter)),
                _ => Err(fault("a label that is no letter")),
            })
            .collect()
    };
    let mut labels = letters(before)?;
    if let Some(after) = after {
        labels.extend((0..rest).rev().map(Label::Rest));
        labels.extend(letters(after)?);
    }
    Ok(labels)
}

/// The equation read: the labels of the operands and of the result.
fn parsed(equation: &str, operands: &[Tensor]) -> Result<(Vec<Vec<Label>>, Vec<Label>)> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    if operands.is_empty() || parts.len() != operands.len() {
        return Err(Error::invalid_argument(format!(
            "einsum(): the equation names {} operands, and {} are given",
            parts.len(),
            operands.len()
        )));
    }
    let mut rest = 0;
    let mut terms = Vec::with_capacity(parts.len());
    for (part, operand) in parts.iter().zip(operands) {
        let named = part.bytes().filter(u8::is_ascii_alphabetic).count();
        let own_rest = operand.rank().checked_sub(named).filter(|&left| left == 0 || part.contains("..."));
        let Some(own_rest) = own_rest else {
            return Err(Error::shape(format!(
                "einsum(): '{part}' does not name the {} dimensions of its operand",
                operand.rank()
            )));
        };
        rest = rest.max(own_rest);
        terms.push(labels(part, own_rest)?);
    }
    let output = match right {
        Some(right) => labels(right, rest)?,
        None => implicit_output(&terms, rest),
    };
    for (index, label) in output.iter().enumerate() {
        let known = matches!(label, Label::Rest(_)) || terms.iter().any(|term| term.contains(label));
        if !known || output[..index].contains(label) {
            return Err(Error::invalid_argument(format!(
                "einsum(): output subscript {label:?} appears more than once, or in no operand"
            )));
        }
    }
    Ok((terms, output))
}

/// The dimensions of `...`, then the letters that occur once, in order of the alphabet.
fn implicit_output(terms: &[Vec<Label>], rest: usize) -> Vec<Label> {
    let mut output: Vec<Label> = (0..rest).rev().map(Label::Rest).collect();
    let all = || terms.iter().flatten();
    let mut letters: Vec<Label> = all().filter(|label| matches!(label, Label::Letter(_))).copied().collect();
    letters.sort_unstable();
    let once = |label: &Label| all().filter(|other| *other == label).count() == 1;
    output.extend(letters.into_iter().filter(once));
    output
}

fn einsum(equation: &str, operands: &[Tensor], _path: Option<&[i64]>) -> Result<Tensor> {
    let (terms, output) = parsed(equation, operands)?;
    let mut order = output.clone();
    let mut summed: Vec<Label> =
        terms.iter().flatten().filter(|label| !output.contains(label)).copied().collect();
    summed.sort_unstable();
    summed.dedup();
    order.extend(summed);
    let mut aligned = Vec::with_capacity(operands.len());
    for (operand, term) in operands.iter().zip(&terms) {
        aligned.push(in_order(operand, term, &order)?);
    }
    check_sizes(&aligned, &order)?;
    let kept = output.len();
    // How many operands a dimension is left in.
    let has = |tensor: &Tensor, dim: usize| tensor.sizes()[dim] != 1;
    let mut counts: Vec<usize> =
        (0..order.len()).map(|dim| aligned.iter().filter(|tensor| has(tensor, dim)).count()).collect();
    let mut operands = aligned.into_iter();
    let Some(mut result) = operands.next() else {
        return Err(Error::invalid_argument("einsum(): must provide at least one operand"));
    };
    let mut is_alone = true;
    for mut next in operands {
        is_alone = false;
        let mut contracted = Vec::new();
        let (mut of_result, mut of_next) = (Vec::new(), Vec::new());
        for (dim, count) in counts.iter_mut().enumerate().skip(kept) {
            if has(&result, dim) && has(&next, dim) {
                *count -= 1;
                if *count == 1 {
                    contracted.push(dim);
                    *count = 0;
                }
            } else if *count == 1 && has(&result, dim) {
                of_result.push(dim as i64);
                *count = 0;
            } else if *count == 1 && has(&next, dim) {
                of_next.push(dim as i64);
                *count = 0;
            }
        }
        result = summed_over(result, &of_result)?;
        next = summed_over(next, &of_next)?;
        result = contract(&result, &next, &contracted)?;
    }
    let rest: Vec<i64> = (kept as i64..order.len() as i64).collect();
    if rest.is_empty() {
        return Ok(result);
    }
    if is_alone {
        return handles::SUM_DIM_INTLIST.call(&result, Some(&rest), false, None);
    }
    result.reshape(&result.sizes()[..kept])
}

fn summed_over(tensor: Tensor, dims: &[i64]) -> Result<Tensor> {
    if dims.is_empty() { Ok(tensor) } else { handles::SUM_DIM_INTLIST.call(&tensor, Some(dims), true, None) }
}

/// A view with a dimension for each label of `order`, of size 1 where the operand has none.
fn in_order(operand: &Tensor, term: &[Label], order: &[Label]) -> Result<Tensor> {
    let mut operand = operand.clone();
    let mut term = term.to_vec();
    // A label that comes twice is a diagonal.
    let mut dim = 0;
    while dim < term.len() {
        let Some(first) = term[..dim].iter().position(|label| *label == term[dim]) else {
            dim += 1;
            continue;
        };
        let sizes = operand.sizes();
        if sizes[first] != sizes[dim] {
            return Err(Error::shape(format!(
                "einsum(): subscript {:?} is repeated, but the sizes don't match, {} != {}",
                term[dim], sizes[dim], sizes[first]
            )));
        }
        let diagonal = handles::DIAGONAL.call(&operand, 0, first as i64, dim as i64)?;
        operand = handles::MOVEDIM_INT.call(&diagonal, -1, first as i64)?;
        term.remove(dim);
    }
    let mut places = Vec::with_capacity(order.len());
    for label in order {
        match term.iter().position(|own| own == label) {
            Some(place) => places.push(place as i64),
            None => {
                places.push(operand.rank() as i64);
                operand = operand.unsqueeze(-1)?;
            }
        }
    }
    operand.permute(&places)
}

fn check_sizes(aligned: &[Tensor], order: &[Label]) -> Result<()> {
    for (dim, label) in order.iter().enumerate() {
        let mut sizes = aligned.iter().map(|tensor| tensor.sizes()[dim]).filter(|&size| size != 1);
        if let Some(first) = sizes.next()
            && let Some(other) = sizes.find(|&size| size != first)
        {
            return Err(Error::shape(format!("einsum(): {label:?} has the sizes {first} and {other}")));
        }
    }
    Ok(())
}

/// The products of two aligned operands, summed over some dimensions, which stay with size 1.
fn contract(a: &Tensor, b: &Tensor, summed: &[usize]) -> Result<Tensor> {
    let (size_a, size_b) = (a.sizes(), b.sizes());
    let (mut both, mut only_a, mut only_b) = (Vec::new(), Vec::new(), Vec::new());
    for dim in (0..size_a.len()).filter(|dim| !summed.contains(dim)) {
        match (size_a[dim] != 1, size_b[dim] != 1) {
            (true, true) => both.push(dim),
            (true, false) => only_a.push(dim),
            _ => only_b.push(dim),
        }
    }
    let count = |dims: &[usize], sizes: &[i64]| dims.iter().map(|&dim| sizes[dim]).product::<i64>();
    let order = |lists: [&[usize]; 4]| lists.concat().into_iter().map(|dim| dim as i64).collect::<Vec<_>>();
    let (batch, rows, depth, cols) =
        (count(&both, &size_a), count(&only_a, &size_a), count(summed, &size_a), count(&only_b, &size_b));
    let a = a.permute(&order([&both, &only_a, summed, &only_b]))?.reshape(&[batch, rows, depth])?;
    let b = b.permute(&order([&both, summed, &only_b, &only_a]))?.reshape(&[batch, depth, cols])?;
    let product = handles::BMM.call(&a, &b)?;
    let mut sizes: Vec<i64> = [&both[..], &only_a].concat().iter().map(|&dim| size_a[dim]).collect();
    sizes.extend(std::iter::repeat_n(1, summed.len()));
    sizes.extend(only_b.iter().map(|&dim| size_b[dim]));
    let mut places = vec![0; size_a.len()];
    for (place, dim) in order([&both, &only_a, summed, &only_b]).into_iter().enumerate() {
        places[dim as usize] = place as i64;
    }
    product.reshape(&sizes)?.permute(&places)
}
