//! Reads the default of an argument, which depends on its type.

use c10_core::Device;

use super::arg_type::ArgType;
use super::schema::DefaultValue;
use super::schema_lex::{Kind, Lexer, Token};
use crate::error::Error;

/// Elements of a list that one default stands for.
const MAX_REPEATED: u32 = 1 << 16;

const MINUS: Kind = Kind::Char('-');
const PLUS: Kind = Kind::Char('+');
const OPEN_LIST: Kind = Kind::Char('[');
const CLOSE_LIST: Kind = Kind::Char(']');
const COMMA: Kind = Kind::Char(',');

/// Reads what stands after `=`.
pub(super) fn parse(lexer: &mut Lexer<'_>, arg_type: &ArgType) -> Result<DefaultValue, Error> {
    match arg_type {
        ArgType::Tensor | ArgType::Generator | ArgType::Quantizer => none(lexer),
        ArgType::Device => device(lexer),
        ArgType::Optional(inner)
            if **inner == ArgType::Device && lexer.current().kind == Kind::StringLiteral =>
        {
            device(lexer)
        }
        ArgType::List { element, size } => match (lexer.current().kind, size) {
            (Kind::Ident, _) => none(lexer),
            (OPEN_LIST, _) | (_, None) => list(lexer, element),
            (_, Some(size)) => repeated(lexer, element, *size),
        },
        _ if takes_constant(arg_type) => constant(lexer, arg_type),
        _ => {
            let message = format!("an argument of type {arg_type} has no default that a schema could give");
            Err(lexer.error_at(lexer.current(), &message))
        }
    }
}

fn takes_constant(arg_type: &ArgType) -> bool {
    matches!(
        arg_type,
        ArgType::Int
            | ArgType::SymInt
            | ArgType::Float
            | ArgType::Bool
            | ArgType::Complex
            | ArgType::Str
            | ArgType::Scalar
            | ArgType::ScalarType
            | ArgType::Layout
            | ArgType::MemoryFormat
            | ArgType::Optional(_)
    )
}

fn none(lexer: &mut Lexer<'_>) -> Result<DefaultValue, Error> {
    if !lexer.current().is_keyword("None") {
        return Err(lexer.expected(&"None"));
    }
    lexer.next().map(|_| DefaultValue::None)
}

fn device(lexer: &mut Lexer<'_>) -> Result<DefaultValue, Error> {
    let token = lexer.expect(Kind::StringLiteral)?;
    let text = unquoted(lexer, token)?;
    text.parse::<Device>()
        .map(DefaultValue::Device)
        .map_err(|error| lexer.error_at(token, &error.to_string()))
}

/// `[a, b]`
fn list(lexer: &mut Lexer<'_>, element: &ArgType) -> Result<DefaultValue, Error> {
    let start = lexer.expect(OPEN_LIST)?;
    check_element(lexer, start, element)?;
    let mut values = Vec::new();
    if lexer.current().kind != CLOSE_LIST {
        loop {
            values.push(list_constant(lexer, element)?);
            if !lexer.next_if(COMMA)? {
                break;
            }
        }
    }
    lexer.expect(CLOSE_LIST)?;
    Ok(DefaultValue::List(values))
}

/// One constant for every element.
fn repeated(lexer: &mut Lexer<'_>, element: &ArgType, size: u32) -> Result<DefaultValue, Error> {
    let start = lexer.current();
    check_element(lexer, start, element)?;
    let value = list_constant(lexer, element)?;
    if size > MAX_REPEATED {
        let message = format!("one default stands for at most {MAX_REPEATED} elements");
        return Err(lexer.error_at(start, &message));
    }
    Ok(DefaultValue::List(vec![value; size as usize]))
}

fn check_element(lexer: &Lexer<'_>, start: Token<'_>, element: &ArgType) -> Result<(), Error> {
    let listed = matches!(
        element,
        ArgType::Int
            | ArgType::SymInt
            | ArgType::ScalarType
            | ArgType::Layout
            | ArgType::MemoryFormat
            | ArgType::Float
            | ArgType::Bool
            | ArgType::Complex
    );
    if listed {
        Ok(())
    } else {
        Err(lexer.error_at(start, "lists are only supported for float, int and complex types"))
    }
}

/// A constant that is of the element's type: lists do not mix.
fn list_constant(lexer: &mut Lexer<'_>, element: &ArgType) -> Result<DefaultValue, Error> {
    let start = lexer.current();
    let value = constant(lexer, element)?;
    let fits = match element {
        ArgType::Float => matches!(value, DefaultValue::Float(_)),
        ArgType::Bool => matches!(value, DefaultValue::Bool(_)),
        ArgType::Complex => matches!(value, DefaultValue::Complex(..)),
        _ => matches!(value, DefaultValue::Int(_)),
    };
    if fits {
        Ok(value)
    } else {
        Err(lexer.error_at(start, &format!("expected {element} but found {value} here")))
    }
}

/// A single constant. Its kind follows from how it is written, and of numbers from the argument's type.
fn constant(lexer: &mut Lexer<'_>, arg_type: &ArgType) -> Result<DefaultValue, Error> {
    let token = lexer.current();
    match (token.kind, token.text) {
        (Kind::Keyword, "True") => lexer.next().map(|_| DefaultValue::Bool(true)),
        (Kind::Keyword, "False") => lexer.next().map(|_| DefaultValue::Bool(false)),
        (Kind::Keyword, "None") => lexer.next().map(|_| DefaultValue::None),
        (Kind::StringLiteral, _) => {
            lexer.next()?;
            unquoted(lexer, token).map(DefaultValue::Str)
        }
        (Kind::Ident, name) => {
            lexer.next()?;
            match named(name) {
                Some(value) => Ok(DefaultValue::Int(value)),
                None => Err(lexer.error_at(token, "invalid numeric default value")),
            }
        }
        _ => number(lexer, arg_type),
    }
}

/// The names that schemas use for numbers of element types, layouts, memory formats and reductions.
fn named(name: &str) -> Option<i64> {
    match name {
        "contiguous_format" | "strided" => Some(0),
        "Mean" => Some(1),
        "long" => Some(4),
        "float" => Some(6),
        "complex" => Some(9),
        _ => None,
    }
}

fn number(lexer: &mut Lexer<'_>, arg_type: &ArgType) -> Result<DefaultValue, Error> {
    let is_negative = lexer.next_if(MINUS)?;
    let token = lexer.expect(Kind::Number)?;
    if let Some(imaginary) = token.text.strip_suffix('j') {
        return Ok(DefaultValue::Complex(0.0, float(lexer, token, imaginary, is_negative)?));
    }
    // What a complex default is printed as; PyTorch cannot read it.
    if matches!(lexer.current().kind, PLUS | MINUS) {
        let im_is_negative = lexer.next()?.kind == MINUS;
        let second = lexer.expect(Kind::Number)?;
        let Some(imaginary) = second.text.strip_suffix('j') else {
            return Err(lexer.error_at(second, "expected an imaginary part here"));
        };
        let re = float(lexer, token, token.text, is_negative)?;
        return Ok(DefaultValue::Complex(re, float(lexer, second, imaginary, im_is_negative)?));
    }
    match arg_type {
        ArgType::Complex => Err(lexer.error_at(token, "expected a complex number here")),
        ArgType::Float => float(lexer, token, token.text, is_negative).map(DefaultValue::Float),
        _ if token.text.contains(['.', 'e', 'E']) => {
            float(lexer, token, token.text, is_negative).map(DefaultValue::Float)
        }
        _ => {
            let sign = if is_negative { "-" } else { "" };
            match format!("{sign}{}", token.text).parse() {
                Ok(value) => Ok(DefaultValue::Int(value)),
                Err(_) => Err(lexer.error_at(token, "expected a number of 64 bits here")),
            }
        }
    }
}

fn float(lexer: &Lexer<'_>, token: Token<'_>, digits: &str, is_negative: bool) -> Result<f64, Error> {
    let value: f64 = digits.parse().map_err(|_| lexer.error_at(token, "expected a number here"))?;
    let is_zero = digits
        .split(['e', 'E'])
        .next()
        .is_some_and(|mantissa| !mantissa.contains(|c| ('1'..='9').contains(&c)));
    if value.is_infinite() || (value == 0.0 && !is_zero) {
        return Err(lexer.error_at(token, "expected a number in the range of 64-bit floats here"));
    }
    Ok(if is_negative { -value } else { value })
}

/// What a string literal stands for.
fn unquoted(lexer: &Lexer<'_>, token: Token<'_>) -> Result<String, Error> {
    let quoted = &token.text[1..token.text.len() - 1];
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some(c @ ('\\' | '\'' | '"')) => text.push(c),
            Some('a') => text.push('\x07'),
            Some('b') => text.push('\x08'),
            Some('f') => text.push('\x0c'),
            Some('n') => text.push('\n'),
            // PyTorch prints it and cannot read it.
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('v') => text.push('\x0b'),
            Some('x') => return Err(lexer.error_at(token, "unsupported hex specifier")),
            first => {
                let digits: Option<String> = [first, chars.next(), chars.next()].into_iter().collect();
                let code = digits
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|digits| u8::from_str_radix(&digits, 8).ok());
                match code {
                    Some(code) => text.push(char::from(code)),
                    None => return Err(lexer.error_at(token, "ill formed octal specifier")),
                }
            }
        }
    }
    Ok(text)
}
