//! [`judge`]: whether what came of a call is what PyTorch did.
//!
//! Types, sizes and strides are compared exactly, strides only where more than one element depends on them.
//! Numbers are compared within a tolerance by type; what has no tolerance is compared exactly. Which tensors
//! share a storage counts, and where. A refusal's text does not.

use super::case::{Case, Expected, Results};
use super::elements::Number;
use super::gradients::Gradients;
use super::outcome::{Alias, Outcome};
use super::tensor_value::TensorValue;
use super::values::CaseValue;

use c10_core::ScalarType;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As recorded.
    Pass,
    /// Something differs: what, and where.
    Fail(String),
    /// A call that PyTorch serves was refused, for this reason.
    Refused(String),
    /// The operator, or what the call asks of it, does not exist.
    Missing,
}

/// A relative and an absolute tolerance.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    relative: f64,
    absolute: f64,
}

/// Of numbers that are not in tensors.
const SCALAR: Tolerance = Tolerance { relative: 1e-5, absolute: 1e-6 };

/// Of the elements of gradients, which have 64 bits.
const GRADIENT: Tolerance = Tolerance { relative: 1e-7, absolute: 1e-7 };

/// Operators whose `float32` results depend on the order of long sums, by the beginning of their names.
const LOOSE: [&str; 21] = [
    "linalg",
    "_linalg",
    "cholesky",
    "svd",
    "eig",
    "qr",
    "lstsq",
    "inverse",
    "det",
    "logdet",
    "slogdet",
    "pinverse",
    "matrix_exp",
    "lu",
    "triangular_solve",
    "cdist",
    "fft",
    "conv",
    "logcumsumexp",
    "renorm",
    "norm",
];

/// Compares what came of a call with what was recorded.
pub(super) fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    match (&case.expected, outcome) {
        (_, Outcome::Missing) => Verdict::Missing,
        (_, Outcome::Faulty(reason)) => Verdict::Fail(reason.clone()),
        (Expected::Refusal { exception }, Outcome::Refused { kind, .. }) => {
            // What does not exist refuses everything.
            let is_missing = kind == "NotImplemented" && exception != "NotImplementedError";
            if is_missing { Verdict::Missing } else { Verdict::Pass }
        }
        (Expected::Refusal { .. }, Outcome::Returned { .. }) => Verdict::Fail("was not refused".into()),
        (_, Outcome::Refused { text, .. }) => Verdict::Refused(text.clone()),
        (Expected::Results(results), Outcome::Returned { out, mutated, alias, .. }) => {
            let rules = Rules::of(case, results.has_values && !results.is_ambiguous);
            verdict(rules.results(results, out, mutated, alias))
        }
        (Expected::Gradients(gradients), Outcome::Returned { out, grads, .. }) => {
            let compared =
                Rules::of(case, true).gradients(gradients, out, grads.as_deref().unwrap_or_default());
            verdict(compared)
        }
    }
}

fn verdict(compared: Result<(), String>) -> Verdict {
    match compared {
        Ok(()) => Verdict::Pass,
        Err(reason) => Verdict::Fail(reason),
    }
}

struct Rules {
    is_loose: bool,
    compares_values: bool,
}

impl Rules {
    fn of(case: &Case, compares_values: bool) -> Self {
        let name = case.op.split_once("::").map_or("", |(_, name)| name);
        Self { is_loose: LOOSE.iter().any(|prefix| name.starts_with(prefix)), compares_values }
    }

    fn results(
        &self,
        results: &Results,
        out: &[CaseValue],
        mutated: &[(String, CaseValue)],
        alias: &[Alias],
    ) -> Result<(), String> {
        if let (Some(promoted), Some(CaseValue::Tensor(first))) = (results.promoted, out.first())
            && first.dtype != promoted
        {
            return Err(format!("dtype {} != {promoted}", first.dtype));
        }
        self.list(&results.out, out, "out")?;
        for (path, expected) in &results.mutated {
            let value = mutated.iter().find(|(name, _)| name == path).map(|(_, value)| value);
            self.value(expected, value.unwrap_or(&CaseValue::Null), &format!("mutated {path}"))?;
        }
        aliases(results, alias)
    }

    /// Gradients have no strides that count, and zeros are as good as none.
    fn gradients(
        &self,
        recorded: &Gradients,
        out: &[CaseValue],
        grads: &[(String, CaseValue)],
    ) -> Result<(), String> {
        if !recorded.is_ambiguous {
            self.list(&recorded.out, out, "out")?;
        }
        recorded.grads.iter().try_for_each(|(path, expected)| {
            let gradient = match grads.iter().find(|(name, _)| name == path).map(|(_, value)| value) {
                Some(CaseValue::Tensor(gradient)) => Some(gradient),
                _ => None,
            };
            match (expected, gradient) {
                (None, Some(gradient)) if !is_zero(gradient) => Err(format!("grad {path}: expected none")),
                (None, _) => Ok(()),
                (Some(_), None) => Err(format!("grad {path}: missing")),
                (Some(expected), Some(gradient)) => {
                    sizes_agree(expected, gradient, &format!("grad {path}"))?;
                    elements_agree(expected, gradient, Some(GRADIENT), &format!("grad {path}"))
                }
            }
        })
    }

    fn list(&self, expected: &[CaseValue], values: &[CaseValue], place: &str) -> Result<(), String> {
        if values.len() != expected.len() {
            return Err(format!("{place}: {} values, not {}", values.len(), expected.len()));
        }
        let mut pairs = expected.iter().zip(values).enumerate();
        pairs.try_for_each(|(index, (expected, value))| {
            self.value(expected, value, &format!("{place}.{index}"))
        })
    }

    fn value(&self, expected: &CaseValue, value: &CaseValue, place: &str) -> Result<(), String> {
        let is_equal = match (expected, value) {
            (CaseValue::Tensor(expected), CaseValue::Tensor(tensor)) => {
                return self.tensor(expected, tensor, place);
            }
            (CaseValue::Tensor(_), _) => return Err(format!("{place}: no tensor")),
            (CaseValue::List(expected), CaseValue::List(values)) => {
                return self.list(expected, values, place);
            }
            (CaseValue::List(_), _) => return Err(format!("{place}: no list")),
            (CaseValue::Ref(path), CaseValue::Ref(other)) if path == other => true,
            (CaseValue::Ref(path), _) => return Err(format!("{place}: is not the argument {path}")),
            _ if !self.compares_values => true,
            _ => scalars_equal(expected, value),
        };
        if is_equal { Ok(()) } else { Err(format!("{place}: {} != {}", shown(value), shown(expected))) }
    }

    fn tensor(&self, expected: &TensorValue, tensor: &TensorValue, place: &str) -> Result<(), String> {
        sizes_agree(expected, tensor, place)?;
        if expected.numel() == 0 {
            return Ok(());
        }
        let strides = tensor.strides.iter().zip(&expected.strides);
        if expected.sizes.iter().zip(strides).any(|(&size, (a, b))| size > 1 && a != b) {
            return Err(format!("{place}: stride {:?} != {:?}", tensor.strides, expected.strides));
        }
        if !self.compares_values {
            return Ok(());
        }
        elements_agree(expected, tensor, self.tolerance(expected.dtype), place)
    }

    /// `None` for types that are compared exactly.
    fn tolerance(&self, dtype: ScalarType) -> Option<Tolerance> {
        let (relative, absolute) = match dtype {
            ScalarType::Float32 | ScalarType::Complex64 if self.is_loose => (1e-4, 1e-4),
            ScalarType::Float32 | ScalarType::Complex64 => (1e-5, 1e-5),
            ScalarType::Float64 | ScalarType::Complex128 => (1e-8, 1e-8),
            ScalarType::Float16 | ScalarType::Complex32 => (2e-3, 1e-3),
            ScalarType::BFloat16 | ScalarType::BComplex32 => (1.6e-2, 1e-2),
            _ => return None,
        };
        Some(Tolerance { relative, absolute })
    }
}

/// Every recorded alias is there. Where no argument was written, there is no other.
fn aliases(results: &Results, alias: &[Alias]) -> Result<(), String> {
    for expected in &results.alias {
        match alias.iter().find(|alias| alias.out == expected.out) {
            Some(alias) if alias == expected => {}
            Some(Alias { out, arg, offset }) => {
                let Alias { arg: expected_arg, offset: expected_offset, .. } = expected;
                return Err(format!(
                    "out {out} is at {offset} of argument {arg}, not at {expected_offset} of {expected_arg}"
                ));
            }
            None => {
                return Err(format!(
                    "out {} does not share the storage of argument {}",
                    expected.out, expected.arg
                ));
            }
        }
    }
    let unexpected =
        alias.iter().find(|alias| !results.alias.iter().any(|expected| expected.out == alias.out));
    match unexpected {
        Some(Alias { out, arg, .. }) if results.mutated.is_empty() => {
            Err(format!("out {out} shares storage with argument {arg}"))
        }
        _ => Ok(()),
    }
}

fn sizes_agree(expected: &TensorValue, tensor: &TensorValue, place: &str) -> Result<(), String> {
    if tensor.dtype != expected.dtype {
        return Err(format!("{place}: dtype {} != {}", tensor.dtype, expected.dtype));
    }
    if tensor.sizes != expected.sizes {
        return Err(format!("{place}: size {:?} != {:?}", tensor.sizes, expected.sizes));
    }
    Ok(())
}

/// Compares the elements, if there are any that were recorded.
fn elements_agree(
    expected: &TensorValue,
    tensor: &TensorValue,
    tolerance: Option<Tolerance>,
    place: &str,
) -> Result<(), String> {
    let Some(expected) = expected.elements() else { return Ok(()) };
    let elements = tensor.elements().ok_or_else(|| format!("{place}: no values"))?;
    for (index, (a, b)) in elements.zip(expected).enumerate() {
        if !numbers_agree(a, b, tolerance) {
            return Err(format!("{place}: element {index}: {} != {}", number(a), number(b)));
        }
    }
    Ok(())
}

fn is_zero(tensor: &TensorValue) -> bool {
    tensor.elements().is_some_and(|mut elements| {
        elements.all(|number| match number {
            Number::Int(value) => value == 0,
            Number::Float(value) => value == 0.0,
            Number::Complex(re, im) => re == 0.0 && im == 0.0,
        })
    })
}

fn numbers_agree(a: Number, b: Number, tolerance: Option<Tolerance>) -> bool {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a == b,
        (Number::Float(a), Number::Float(b)) => match tolerance {
            Some(tolerance) => close(a, b, tolerance),
            None => a == b || a.is_nan() && b.is_nan(),
        },
        (Number::Complex(re, im), Number::Complex(expected_re, expected_im)) => tolerance
            .is_some_and(|tolerance| close(re, expected_re, tolerance) && close(im, expected_im, tolerance)),
        _ => false,
    }
}

/// Whether `a` is as near as the tolerance at `b` has it. A NaN is near to NaNs alone, an infinity to itself.
fn close(a: f64, b: f64, tolerance: Tolerance) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    if a.is_infinite() || b.is_infinite() {
        return a == b;
    }
    (a - b).abs() <= tolerance.absolute + tolerance.relative * b.abs()
}

/// Whether two values that hold no tensor are the same. Numbers are compared as numbers, whatever their kind;
/// where a float is expected, within a tolerance.
fn scalars_equal(expected: &CaseValue, value: &CaseValue) -> bool {
    match (expected, value) {
        (CaseValue::Null, CaseValue::Null) => true,
        (CaseValue::Text(a), CaseValue::Text(b)) => a == b,
        (CaseValue::Type(a), CaseValue::Type(b)) => a == b,
        (CaseValue::MemoryFormat(a), CaseValue::MemoryFormat(b)) => a == b,
        (CaseValue::Layout(a), CaseValue::Layout(b)) => a == b,
        (CaseValue::Device(a), CaseValue::Device(b)) => a == b,
        (CaseValue::Complex(re, im), CaseValue::Complex(other_re, other_im)) => {
            close(*other_re, *re, SCALAR) && close(*other_im, *im, SCALAR)
        }
        (CaseValue::Float(float), _) => real(value).is_some_and(|value| close(value, *float, SCALAR)),
        (_, CaseValue::Float(float)) => real(expected).is_some_and(|expected| expected == *float),
        _ => int(expected).zip(int(value)).is_some_and(|(a, b)| a == b),
    }
}

fn int(value: &CaseValue) -> Option<i128> {
    match value {
        CaseValue::Bool(value) => Some((*value).into()),
        CaseValue::Int(value) => Some(*value),
        _ => None,
    }
}

fn real(value: &CaseValue) -> Option<f64> {
    match value {
        CaseValue::Float(value) => Some(*value),
        _ => int(value).map(|value| value as f64),
    }
}

fn shown(value: &CaseValue) -> String {
    let mut text = String::new();
    value.write_to(&mut text);
    text
}

fn number(number: Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Float(value) => format!("{value:?}"),
        Number::Complex(re, im) => format!("({re:?}, {im:?})"),
    }
}
