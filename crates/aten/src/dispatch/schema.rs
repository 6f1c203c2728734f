//! [`FunctionSchema`]: what an operator takes and returns, with defaults and alias marks.
//!
//! A schema is read from and printed as the text that PyTorch uses:
//! `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.

use std::fmt;
use std::str::FromStr;

use c10_core::Device;

use super::arg_type::{AliasInfo, ArgType};
use super::name::OperatorName;
use super::schema_parse;
use crate::error::{Error, ErrorKind};

/// What an operator takes and returns. PyTorch's `FunctionSchema`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSchema {
    name: OperatorName,
    arguments: Vec<Argument>,
    returns: Vec<Return>,
    is_vararg: bool,
    is_varret: bool,
}

/// One argument of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// How it is passed by keyword.
    pub name: String,
    /// What it takes.
    pub arg_type: ArgType,
    /// What it is when it is not passed.
    pub default: Option<DefaultValue>,
    /// It cannot be passed by position.
    pub kwarg_only: bool,
    /// What is said of its memory.
    pub alias: Option<AliasInfo>,
}

/// One return of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it is.
    pub arg_type: ArgType,
    /// What is said of its memory.
    pub alias: Option<AliasInfo>,
}

/// What an argument is when it is not passed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DefaultValue {
    /// Nothing.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer; also what names of element types, layouts, memory formats and reductions stand for.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
    /// A text.
    Str(String),
    /// A device.
    Device(Device),
    /// Several of one kind.
    List(Vec<DefaultValue>),
}

impl FunctionSchema {
    /// A schema of its parts.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when an argument without a default follows, by position, one that has a default.
    pub fn try_new(
        name: OperatorName,
        arguments: Vec<Argument>,
        returns: Vec<Return>,
    ) -> Result<Self, Error> {
        Self::with_varargs(name, arguments, returns, false, false)
    }

    pub(super) fn with_varargs(
        name: OperatorName,
        arguments: Vec<Argument>,
        returns: Vec<Return>,
        is_vararg: bool,
        is_varret: bool,
    ) -> Result<Self, Error> {
        let schema = Self { name, arguments, returns, is_vararg, is_varret };
        let mut positional = schema.arguments.iter().filter(|argument| !argument.kwarg_only);
        positional.find(|argument| argument.default.is_some());
        match positional.find(|argument| argument.default.is_none()) {
            None => Ok(schema),
            Some(Argument { name, .. }) => Err(Error::new(
                ErrorKind::Parse,
                format!(
                    "Non-default positional argument follows default argument. Parameter {name} in {schema}"
                ),
            )),
        }
    }

    /// The operator.
    pub fn name(&self) -> &OperatorName {
        &self.name
    }

    /// The same schema of another operator.
    #[must_use]
    pub fn with_name(self, name: OperatorName) -> Self {
        Self { name, ..self }
    }

    /// What it takes, in order.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// What it returns, in order.
    pub fn returns(&self) -> &[Return] {
        &self.returns
    }

    /// Takes more than it says: `...`.
    pub fn is_vararg(&self) -> bool {
        self.is_vararg
    }

    /// Returns more than it says: `...`.
    pub fn is_varret(&self) -> bool {
        self.is_varret
    }

    /// The place of an argument by its name.
    pub fn argument_index(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|argument| argument.name == name)
    }

    /// Writes to any of its arguments.
    pub fn is_mutable(&self) -> bool {
        self.arguments.iter().any(Argument::is_write)
    }
}

impl Argument {
    /// The call writes to it.
    pub fn is_write(&self) -> bool {
        self.alias.as_ref().is_some_and(|alias| alias.is_write)
    }
}

impl FromStr for FunctionSchema {
    type Err = Error;

    /// Reads what PyTorch's parser reads.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] with the line, the place in it and what was expected there.
    fn from_str(text: &str) -> Result<Self, Error> {
        schema_parse::parse_schema(text)
    }
}

impl fmt::Display for FunctionSchema {
    /// As PyTorch prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        let mut separator = "";
        let mut in_keywords = false;
        for argument in &self.arguments {
            f.write_str(separator)?;
            if argument.kwarg_only && !in_keywords {
                f.write_str("*, ")?;
                in_keywords = true;
            }
            write!(f, "{argument}")?;
            separator = ", ";
        }
        if self.is_vararg {
            write!(f, "{separator}...")?;
        }
        f.write_str(") -> ")?;
        self.write_returns(f)
    }
}

impl FunctionSchema {
    fn write_returns(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut returns: Vec<_> = self.returns.iter().map(ToString::to_string).collect();
        if self.is_varret {
            returns.push("...".to_owned());
        }
        match &returns[..] {
            // A tuple alone would be read as the list of several returns.
            [single] if !single.starts_with('(') => f.write_str(single),
            _ => write!(f, "({})", returns.join(", ")),
        }
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arg_type.write(self.alias.as_ref(), f)?;
        match &self.name {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arg_type.write(self.alias.as_ref(), f)?;
        write!(f, " {}", self.name)?;
        let Some(default) = &self.default else { return Ok(()) };
        f.write_str("=")?;
        match (&self.arg_type, default) {
            // Equal integers of a list of fixed size are one, as PyTorch's own schemas are written.
            // Differs from PyTorch: a list of any size, or with too few elements, is printed in full, since what
            // PyTorch prints for it is read as another schema or not at all.
            (ArgType::List { element, size: Some(size) }, DefaultValue::List(values))
                if **element == ArgType::Int
                    && values.len() > 1
                    && values.len() == *size as usize
                    && values.iter().all(|value| *value == values[0]) =>
            {
                write!(f, "{}", values[0])
            }
            _ => write!(f, "{default}"),
        }
    }
}

impl fmt::Display for DefaultValue {
    /// As PyTorch prints constants: floats with 17 digits, integral ones as `1.`.
    ///
    /// Differs from PyTorch: devices are quoted, and so are texts of arguments that are no texts, so that what
    /// is printed can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&float_text(*value)),
            Self::Complex(re, im) => {
                let (im, plus) = (float_text(*im), if im.is_sign_negative() { "" } else { "+" });
                write!(f, "{}{plus}{im}j", float_text(*re))
            }
            Self::Str(text) => write_quoted(text, f),
            Self::Device(device) => write!(f, "\"{device}\""),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A finite float: integers within 64 bits as `1.`, others as C's `%.17g`.
fn float_text(value: f64) -> String {
    const DIGITS: i32 = 17;
    let limit = -(i64::MIN as f64);
    if value.fract() == 0.0 && (-limit..limit).contains(&value) {
        return format!("{value:.0}.");
    }
    // Rounded to 17 digits first: the exponent after rounding decides on the notation.
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the format writes an exponent");
    let exponent: i32 = exponent.parse().expect("the format writes it in decimal");
    let trim = |digits: &str| digits.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..DIGITS).contains(&exponent) {
        return trim(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

/// A text in double quotes, with what would end it or not print escaped.
fn write_quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '\\' | '"' | '\'' => write!(f, "\\{c}")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0b' => f.write_str("\\v")?,
            c if c.is_ascii_control() => write!(f, "\\{:03o}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}
