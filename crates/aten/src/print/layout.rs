//! Elements in brackets and lines.

use c10_core::Scalar;

use super::PrintOptions;
use super::elements::Shown;
use super::number::{NumberFormat, as_f64};

/// How one element is written: in one number, or in two.
enum ElementFormat {
    Real(NumberFormat),
    Complex(NumberFormat, NumberFormat),
}

impl ElementFormat {
    fn of(shown: &Shown, options: &PrintOptions) -> Self {
        let values = || shown.values.iter().copied();
        match shown.values.first() {
            Some(Scalar::Complex(_)) => Self::Complex(
                NumberFormat::of_floats(values().map(|value| parts(value).0), options),
                NumberFormat::of_floats(values().map(|value| parts(value).1), options),
            ),
            Some(Scalar::Double(_)) => Self::Real(NumberFormat::of_floats(values().map(as_f64), options)),
            _ => Self::Real(NumberFormat::of_integers(values())),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Real(format) => format.width,
            Self::Complex(re, im) => re.width + im.width + 1,
        }
    }

    fn write(&self, value: Scalar) -> String {
        match self {
            Self::Real(format) => format.write(value),
            Self::Complex(re_format, im_format) => {
                let (re, im) = parts(value);
                let im = im_format.write(Scalar::Double(im));
                let im = im.trim_start();
                let sign = if im.starts_with(['+', '-']) { "" } else { "+" };
                format!("{}{sign}{im}j", re_format.write(Scalar::Double(re)))
            }
        }
    }
}

fn parts(value: Scalar) -> (f64, f64) {
    match value {
        Scalar::Complex(value) => (value.re, value.im),
        real => (as_f64(real), 0.0),
    }
}

/// The elements with their brackets; `indent` characters stand before them.
pub(super) fn nested(shown: &Shown, options: &PrintOptions, indent: usize) -> String {
    let format = ElementFormat::of(shown, options);
    let mut values = shown.values.iter().copied();
    Layout { shown, options, format: &format }.dimension(0, indent, &mut values)
}

struct Layout<'a> {
    shown: &'a Shown,
    options: &'a PrintOptions,
    format: &'a ElementFormat,
}

impl Layout<'_> {
    /// What is inside of the dimension `dim`, whose elements come next.
    fn dimension(&self, dim: usize, indent: usize, values: &mut dyn Iterator<Item = Scalar>) -> String {
        let rank = self.shown.sizes.len();
        if dim == rank {
            return values.next().map(|value| self.format.write(value)).unwrap_or_default();
        }
        let count = self.shown.sizes[dim];
        let is_last = dim + 1 == rank;
        let mut items: Vec<String> =
            (0..count).map(|_| self.dimension(dim + 1, indent + 1, values)).collect();
        if self.shown.is_cut[dim] {
            let dots = if is_last && count > 0 { " ..." } else { "..." };
            items.insert(count / 2, dots.to_owned());
        }
        if is_last { self.lines(&items, indent) } else { self.stacked(&items, dim, indent) }
    }

    /// Elements, as many in a line as fit.
    fn lines(&self, items: &[String], indent: usize) -> String {
        let room = self.options.line_width.saturating_sub(indent);
        let per_line = (room / (self.format.width() + 2)).max(1);
        let lines: Vec<_> = items.chunks(per_line).map(|line| line.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{:1$}", "", indent + 1)))
    }

    /// Inner dimensions below each other, with an empty line for each dimension that they have above one.
    fn stacked(&self, items: &[String], dim: usize, indent: usize) -> String {
        let breaks = "\n".repeat(self.shown.sizes.len() - dim - 1);
        format!("[{}]", items.join(&format!(",{breaks}{:1$}", "", indent + 1)))
    }
}

/// Adds what is said beside the elements, in a new line where it does not fit, and the closing bracket.
pub(super) fn with_suffixes(text: &str, suffixes: &[String], indent: usize, line_width: usize) -> String {
    let mut out = text.to_owned();
    // PyTorch counts two characters more than the last line has.
    let mut line = text.rsplit('\n').next().unwrap_or_default().len() + 2;
    for suffix in suffixes {
        if line + suffix.len() + 2 > line_width {
            out.push_str(&format!(",\n{:indent$}{suffix}", ""));
            line = indent + suffix.len();
        } else {
            out.push_str(", ");
            out.push_str(suffix);
            line += suffix.len() + 2;
        }
    }
    out.push(')');
    out
}
