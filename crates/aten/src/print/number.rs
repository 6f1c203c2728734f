//! How numbers are written so that all of a tensor are equally wide.

use c10_core::Scalar;

use super::PrintOptions;

/// The common form of some numbers.
#[derive(Clone, Debug)]
pub(super) struct NumberFormat {
    notation: Notation,
    precision: usize,
    pub(super) width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// Integers and truth values.
    Exact,
    /// Floats that are all whole: `1.`
    Whole,
    Fixed,
    Scientific,
}

impl NumberFormat {
    /// The form of integers and truth values.
    pub(super) fn of_integers(values: impl Iterator<Item = Scalar>) -> Self {
        let width = values.map(|value| exact(value).len()).max().unwrap_or(1).max(1);
        Self { notation: Notation::Exact, precision: 0, width }
    }

    /// The form of floats. Zeros and what is not finite have no say in it.
    pub(super) fn of_floats(values: impl Iterator<Item = f64> + Clone, options: &PrintOptions) -> Self {
        let telling = values.filter(|value| value.is_finite() && *value != 0.0);
        let mut format = Self { notation: Notation::Whole, precision: options.precision, width: 1 };
        let Some((least, greatest)) = telling.clone().map(f64::abs).fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((least, greatest)) => Some((value.min(least), value.max(greatest))),
        }) else {
            return format;
        };
        let scientific =
            options.sci_mode.unwrap_or(greatest / least > 1000.0 || greatest > 1.0e8 || least < 1.0e-4);
        if scientific {
            format.notation = Notation::Scientific;
        } else if !telling.clone().all(|value| value == value.ceil()) {
            format.notation = Notation::Fixed;
        }
        format.width = telling.map(|value| format.float(value).len()).max().unwrap_or(1).max(1);
        format
    }

    /// A number in the common form and width.
    pub(super) fn write(&self, value: Scalar) -> String {
        let text = match self.notation {
            Notation::Exact => exact(value),
            _ => self.float(as_f64(value)),
        };
        format!("{text:>width$}", width = self.width)
    }

    fn float(&self, value: f64) -> String {
        if value.is_nan() {
            return "nan".to_owned();
        }
        if value.is_infinite() {
            return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        let precision = self.precision;
        match self.notation {
            Notation::Whole | Notation::Exact => format!("{value:.0}."),
            Notation::Fixed => format!("{value:.precision$}"),
            Notation::Scientific => scientific(value, precision),
        }
    }
}

/// The exponent has a sign and two digits at least.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

fn exact(value: Scalar) -> String {
    match value {
        Scalar::Bool(true) => "True".to_owned(),
        Scalar::Bool(false) => "False".to_owned(),
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Double(value) => value.to_string(),
        Scalar::Complex(value) => value.to_string(),
    }
}

/// A number that is known to be no complex one.
pub(super) fn as_f64(value: Scalar) -> f64 {
    match value {
        Scalar::Double(value) => value,
        Scalar::Int(value) => value as f64,
        Scalar::UInt(value) => value as f64,
        Scalar::Bool(value) => f64::from(u8::from(value)),
        Scalar::Complex(value) => value.re,
    }
}
