//! Every operator that has a derivative and recorded gradients: its first and second derivatives, against finite
//! differences.
//!
//! The points are those of the recorded calls, three of an operator. An operator without a derivative is passed over:
//! which those are is in `docs/conformance.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use aten::dispatch::Value;
use aten::{Error, ErrorKind, Result, Tensor};
use c10_core::Device;
use tensorplay_autograd::{GradcheckOptions, gradcheck, gradgradcheck};

use super::case::{Case, Expected};
use super::gradients;
use super::read::Lines;
use super::run::Call;

const CASES_PER_OPERATOR: usize = 3;

/// Jacobians of more inputs and outputs together are compared along one direction, not whole.
const WHOLE_UP_TO: usize = 24;

/// Points at which the function is no smooth one of the elements that are perturbed, so that PyTorch's own check
/// fails there, too: the operator, the lines or none for all, and why.
const NOT_SMOOTH: [(&str, &[u64], &str); 16] = [
    ("aten::as_strided_scatter", &[62], "several elements are written to one place"),
    ("aten::chalf", &[], "the result has 16 bits"),
    ("aten::cholesky_inverse", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::cholesky_solve", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::cov", &[171], "the weights have 32 bits"),
    ("aten::linalg_cholesky", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::linalg_cholesky_ex", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::linalg_eigh", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::linalg_eigvalsh", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::linalg_matrix_sqrth", &[], "one triangle is read, the gradient is that of a symmetric matrix"),
    ("aten::linalg_pinv.atol_rtol_tensor", &[], "of a Hermitian matrix one triangle is read"),
    ("aten::linalg_svd", &[495], "the factors are unique up to sign alone"),
    ("aten::linalg_norm", &[472], "the number of elements that are not zero"),
    ("aten::max_unpool2d", &[580], "several elements are written to one place"),
    ("aten::max_unpool3d", &[583], "several elements are written to one place"),
    ("aten::pow.Tensor_Tensor", &[711], "a negative number to a power that is no integer"),
];

/// Operators that PyTorch does not differentiate twice, either.
const NOT_TWICE: [&str; 3] =
    ["aten::embedding_bag.padding_idx", "aten::multi_margin_loss", "aten::multilabel_margin_loss"];

/// The calls to check: of each operator those with the fewest elements.
fn cases() -> BTreeMap<String, Vec<(usize, u64, Case)>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../aten/testdata/grads.jsonl.gz");
    let mut lines = Lines::open(&file).unwrap();
    let mut cases: BTreeMap<String, Vec<(usize, u64, Case)>> = BTreeMap::new();
    while let Some((line, text)) = lines.next_line().unwrap() {
        let case = Case::from_line(text).unwrap();
        let is_excepted = |(op, lines, _): &(&str, &[u64], &str)| {
            *op == case.op && (lines.is_empty() || lines.contains(&line))
        };
        if NOT_SMOOTH.iter().any(is_excepted) {
            continue;
        }
        let Expected::Gradients(recorded) = &case.expected else { panic!("line {line} has no gradients") };
        let inputs: usize = recorded.grads.iter().filter_map(|(_, grad)| Some(grad.as_ref()?.numel())).sum();
        let outputs: usize = recorded.incoming.iter().map(|(_, gradient)| gradient.numel()).sum();
        if inputs > 0 {
            cases.entry(case.op.clone()).or_default().push((inputs + outputs, line, case));
        }
    }
    for cases in cases.values_mut() {
        cases.sort_by_key(|(elements, line, _)| (*elements, *line));
        cases.truncate(CASES_PER_OPERATOR);
    }
    cases
}

/// All tensors among the results.
fn push_tensors(values: &[Value], tensors: &mut Vec<Tensor>) {
    values.iter().for_each(|value| value.for_each_tensor(&mut |tensor| tensors.push(tensor.clone())));
}

/// What the first check and the second come to; `None` when there is no such operator.
fn check(case: &Case, elements: usize) -> Option<[Result<()>; 2]> {
    let call = Call::new(case, Device::CPU)?;
    let leaves: Vec<Tensor> = case.leaves().iter().filter_map(|path| call.tensor(path)).cloned().collect();
    leaves.iter().try_for_each(gradients::make_leaf).unwrap();
    // The leaves are perturbed in place, and the call has them.
    let f = |_: &[Tensor]| {
        let mut tensors = Vec::new();
        push_tensors(&call.results()?, &mut tensors);
        Ok(tensors)
    };
    let options = GradcheckOptions {
        fast_mode: elements > WHOLE_UP_TO,
        gen_non_contig_grad_outputs: true,
        ..GradcheckOptions::default()
    };
    let caught = |check: &dyn Fn() -> Result<()>| {
        catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Err(Error::invalid_argument("panicked")))
    };
    let first = caught(&|| gradcheck(f, &leaves, options));
    let second = if first.is_ok() { caught(&|| gradgradcheck(f, &leaves, options)) } else { Ok(()) };
    Some([first, second])
}

#[test]
fn derivatives_are_those_of_finite_differences() {
    let mut faults = Vec::new();
    let mut without_second = BTreeSet::new();
    let mut passed = 0;
    for (op, cases) in cases() {
        for (elements, line, case) in cases {
            let Some([first, second]) = check(&case, elements) else { continue };
            let is_missing = |error: &Error| error.kind() == ErrorKind::NotImplemented;
            match (first, second) {
                (Ok(()), Ok(())) if NOT_TWICE.contains(&op.as_str()) => {
                    faults.push(format!("line {line} {op}: is differentiated twice after all"));
                }
                (Ok(()), Ok(())) => passed += 1,
                (Err(error), _) if is_missing(&error) => {}
                (Ok(()), Err(error)) if is_missing(&error) => {
                    if !NOT_TWICE.contains(&op.as_str()) {
                        without_second.insert(format!("{op}: {error}"));
                    }
                }
                (Err(error), _) => faults.push(format!("line {line} {op}: gradcheck: {error}")),
                (_, Err(error)) => faults.push(format!("line {line} {op}: gradgradcheck: {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "{} checks:\n{}", faults.len(), faults.join("\n"));
    assert!(passed > 400, "{passed}");
    insta::assert_snapshot!(without_second.into_iter().collect::<Vec<_>>().join("\n"));
}
