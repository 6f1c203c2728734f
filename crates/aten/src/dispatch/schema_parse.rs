//! Reads schemas and operator names.
//!
//! The grammar is that of PyTorch's schema parser:
//! - `[namespace::]name[.overload](arguments) -> returns`;
//! - arguments are `type name[=default]`; what stands after `*` is passed by keyword only; `...` comes last;
//! - `[N]` can only be the last suffix of a type but `?`;
//! - an alias mark stands after a type or after `[]`, before `?`.
//!
//! Depth of types and length of repeated defaults are bounded, so that no text takes more stack or memory than
//! in proportion to its length.

use super::arg_type::{AliasInfo, AliasSet, ArgType};
use super::name::OperatorName;
use super::schema::{Argument, FunctionSchema, Return};
use super::schema_default;
use super::schema_lex::{Kind, Lexer, Token};
use crate::error::{Error, ErrorKind};

/// Words and suffixes of one type: bounds how deep types stand within types.
const MAX_TYPE_PARTS: usize = 256;

const COLON: Kind = Kind::Char(':');
const DOT: Kind = Kind::Char('.');
const OPEN: Kind = Kind::Char('(');
const CLOSE: Kind = Kind::Char(')');
const OPEN_LIST: Kind = Kind::Char('[');
const CLOSE_LIST: Kind = Kind::Char(']');
const COMMA: Kind = Kind::Char(',');
const STAR: Kind = Kind::Char('*');
const QUESTION: Kind = Kind::Char('?');
const WRITE: Kind = Kind::Char('!');
const OR: Kind = Kind::Char('|');
const EQUALS: Kind = Kind::Char('=');

/// Reads a schema, and nothing after it.
pub(super) fn parse_schema(text: &str) -> Result<FunctionSchema, Error> {
    let mut parser = Parser { lexer: Lexer::new(text)?, type_parts: 0, fresh_sets: 0 };
    let name = parser.operator_name()?;
    if parser.lexer.current().kind != OPEN {
        parser.lexer.expect(Kind::End)?;
        let message = "Tried to parse a function schema but only the operator name was given";
        return Err(Error::new(ErrorKind::Parse, message));
    }
    let (arguments, is_vararg) = parser.arguments()?;
    parser.lexer.expect(Kind::Arrow)?;
    let (returns, is_varret) = parser.returns()?;
    parser.lexer.expect(Kind::End)?;
    FunctionSchema::with_varargs(name, arguments, returns, is_vararg, is_varret)
}

/// Reads an operator's name with its overload, and nothing after it.
pub(super) fn parse_name(text: &str) -> Result<OperatorName, Error> {
    let mut parser = Parser { lexer: Lexer::new(text)?, type_parts: 0, fresh_sets: 0 };
    let name = parser.operator_name()?;
    parser.lexer.expect(Kind::End)?;
    Ok(name)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Of the type that is being read.
    type_parts: usize,
    /// Marks of a lone `!` so far.
    fresh_sets: u32,
}

/// A type and the mark of its memory.
type Marked = (ArgType, Option<AliasInfo>);

impl<'a> Parser<'a> {
    fn operator_name(&mut self) -> Result<OperatorName, Error> {
        let mut name = self.ident()?;
        if self.lexer.next_if(COLON)? {
            self.lexer.expect(COLON)?;
            name = format!("{name}::{}", self.ident()?);
        }
        let mut overload = String::new();
        if self.lexer.next_if(DOT)? {
            let token = self.lexer.expect(Kind::Ident)?;
            overload = token.text.to_owned();
            if overload == "default" || overload.starts_with("__") {
                let message = format!("{overload} is not a legal overload name for aten operators");
                return Err(self.lexer.error_at(token, &message));
            }
        }
        Ok(OperatorName::new_unchecked(name, overload))
    }

    fn arguments(&mut self) -> Result<(Vec<Argument>, bool), Error> {
        let (mut arguments, mut kwarg_only, mut is_vararg) = (Vec::new(), false, false);
        self.list(|parser| {
            if is_vararg {
                let token = parser.lexer.current();
                return Err(parser
                    .lexer
                    .error_at(token, "... must be the last element of the argument list"));
            }
            if parser.lexer.next_if(STAR)? {
                kwarg_only = true;
            } else if parser.lexer.next_if(Kind::Dots)? {
                is_vararg = true;
            } else {
                arguments.push(parser.argument(kwarg_only)?);
            }
            Ok(())
        })?;
        Ok((arguments, is_vararg))
    }

    fn argument(&mut self, kwarg_only: bool) -> Result<Argument, Error> {
        let (arg_type, alias) = self.sized_type()?;
        let name = self.ident()?;
        let default = match self.lexer.next_if(EQUALS)? {
            true => Some(schema_default::parse(&mut self.lexer, &arg_type)?),
            false => None,
        };
        Ok(Argument { name, arg_type, default, kwarg_only, alias })
    }

    fn returns(&mut self) -> Result<(Vec<Return>, bool), Error> {
        if self.lexer.next_if(Kind::Dots)? {
            return Ok((Vec::new(), true));
        }
        if self.lexer.current().kind != OPEN {
            return Ok((vec![self.single_return()?], false));
        }
        let (mut returns, mut is_varret) = (Vec::new(), false);
        self.list(|parser| {
            if is_varret {
                let token = parser.lexer.current();
                return Err(parser.lexer.error_at(token, "... must be the last element of the return list"));
            }
            if parser.lexer.next_if(Kind::Dots)? {
                is_varret = true;
            } else {
                returns.push(parser.single_return()?);
            }
            Ok(())
        })?;
        Ok((returns, is_varret))
    }

    fn single_return(&mut self) -> Result<Return, Error> {
        let (arg_type, alias) = self.sized_type()?;
        let name = match self.lexer.current().kind {
            Kind::Ident => Some(self.ident()?),
            _ => None,
        };
        Ok(Return { name, arg_type, alias })
    }

    /// `(`, items between commas, `)`.
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.lexer.expect(OPEN)?;
        if self.lexer.current().kind != CLOSE {
            item(self)?;
            while self.lexer.next_if(COMMA)? {
                item(self)?;
            }
        }
        self.lexer.expect(CLOSE).map(|_| ())
    }

    /// A type that may end in `[N]`, as only those of arguments and returns may.
    fn sized_type(&mut self) -> Result<Marked, Error> {
        self.type_parts = 0;
        let (mut arg_type, mut alias) = self.arg_type()?;
        if self.lexer.next_if(OPEN_LIST)? {
            let number = self.lexer.expect(Kind::Number)?;
            let Some(size) = number.text.parse::<u32>().ok().filter(|size| i32::try_from(*size).is_ok())
            else {
                return Err(self.lexer.error_at(number, "expected the size of a list here"));
            };
            self.lexer.expect(CLOSE_LIST)?;
            (arg_type, alias) = self.list_of(arg_type, Some(size), alias)?;
            if self.lexer.next_if(QUESTION)? {
                arg_type = ArgType::Optional(Box::new(arg_type));
            }
        }
        Ok((arg_type, alias))
    }

    fn arg_type(&mut self) -> Result<Marked, Error> {
        self.count_type_part()?;
        let (mut arg_type, mut alias) = self.base_type()?;
        loop {
            match self.lexer.current().kind {
                QUESTION => {
                    if arg_type == ArgType::NoneType {
                        return Err(self
                            .lexer
                            .error_at(self.lexer.current(), "NoneType is optional by itself"));
                    }
                    self.lexer.next()?;
                    if !arg_type.is_optional() {
                        self.count_type_part()?;
                        arg_type = ArgType::Optional(Box::new(arg_type));
                    }
                }
                OPEN_LIST if self.is_list_suffix()? => {
                    self.count_type_part()?;
                    self.lexer.next()?;
                    self.lexer.expect(CLOSE_LIST)?;
                    (arg_type, alias) = self.list_of(arg_type, None, alias)?;
                }
                _ => return Ok((arg_type, alias)),
            }
        }
    }

    /// Whether `[` is followed by `]`.
    fn is_list_suffix(&self) -> Result<bool, Error> {
        self.lexer.peek().map(|token| token.kind == CLOSE_LIST)
    }

    fn count_type_part(&mut self) -> Result<(), Error> {
        self.type_parts += 1;
        if self.type_parts > MAX_TYPE_PARTS {
            let message = format!("a type has more than {MAX_TYPE_PARTS} parts here");
            return Err(self.lexer.error_at(self.lexer.current(), &message));
        }
        Ok(())
    }

    fn base_type(&mut self) -> Result<Marked, Error> {
        let token = self.lexer.current();
        if token.kind == OPEN {
            let mut parts = Vec::new();
            self.list(|parser| {
                parts.push(parser.arg_type()?.0);
                Ok(())
            })?;
            return Ok((ArgType::Tuple(parts), None));
        }
        if !token.is_keyword("None") && !token.is_keyword("NoneType") && token.kind != Kind::Ident {
            return Err(self.lexer.expected(&Kind::Ident));
        }
        self.lexer.next()?;
        match token.text {
            "Future" => Ok((ArgType::Future(self.parameter()?), None)),
            "RRef" => Ok((ArgType::RRef(self.parameter()?), None)),
            "Await" => Ok((ArgType::Await(self.parameter()?), None)),
            "Dict" => {
                self.lexer.expect(OPEN)?;
                let key = self.arg_type()?.0;
                self.lexer.expect(COMMA)?;
                let value = self.arg_type()?.0;
                self.lexer.expect(CLOSE)?;
                Ok((ArgType::Dict(Box::new(key), Box::new(value)), self.alias()?))
            }
            "__torch__" => Err(self.custom_class(token)?),
            word => {
                let arg_type = match ArgType::from_word(word) {
                    Some(arg_type) => arg_type,
                    None if word.starts_with(|c: char| c.is_ascii_lowercase()) => self.type_variable(word)?,
                    None => return Err(self.unknown_type(token)),
                };
                Ok((arg_type, self.alias()?))
            }
        }
    }

    /// `(T)`; marks of T say nothing of the whole.
    fn parameter(&mut self) -> Result<Box<ArgType>, Error> {
        self.lexer.expect(OPEN)?;
        let (inner, _) = self.arg_type()?;
        self.lexer.expect(CLOSE)?;
        Ok(Box::new(inner))
    }

    fn type_variable(&mut self, word: &str) -> Result<ArgType, Error> {
        let mut name = word.to_owned();
        while self.lexer.next_if(DOT)? {
            name.push('.');
            name.push_str(&self.ident()?);
        }
        Ok(ArgType::Var(name))
    }

    /// The error for a class, as there is no way to register one.
    #[cold]
    fn custom_class(&mut self, mut last: Token<'a>) -> Result<Error, Error> {
        let mut path = Vec::new();
        while self.lexer.next_if(DOT)? {
            path.push(self.ident()?);
            last = self.lexer.current();
        }
        let name = path.strip_prefix(&["torch".to_owned(), "classes".to_owned()]).unwrap_or(&path).join(".");
        let message = format!("Unknown custom class type {name}. Please ensure it is registered.");
        Ok(self.lexer.error_at(last, &message))
    }

    #[cold]
    fn unknown_type(&self, token: Token<'_>) -> Error {
        let message = "unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, \
                       Scalar";
        self.lexer.error_at(token, message)
    }

    /// A list and its mark: its own, around that of what it holds.
    fn list_of(
        &mut self,
        element: ArgType,
        size: Option<u32>,
        contained: Option<AliasInfo>,
    ) -> Result<Marked, Error> {
        let mut alias = self.alias()?;
        if let Some(contained) = contained {
            let mut container =
                alias.unwrap_or_else(|| AliasInfo { is_write: contained.is_write, ..AliasInfo::default() });
            container.contained = Some(Box::new(contained));
            alias = Some(container);
        }
        Ok((ArgType::List { element: Box::new(element), size }, alias))
    }

    /// `(a|b! -> c)`, `!`, or nothing.
    fn alias(&mut self) -> Result<Option<AliasInfo>, Error> {
        if self.lexer.next_if(WRITE)? {
            let before = vec![AliasSet::Fresh(self.fresh_sets)];
            self.fresh_sets += 1;
            return Ok(Some(AliasInfo { before, is_write: true, ..AliasInfo::default() }));
        }
        if !self.lexer.next_if(OPEN)? {
            return Ok(None);
        }
        let before = self.alias_sets()?;
        let is_write = self.lexer.next_if(WRITE)?;
        let after = if self.lexer.next_if(Kind::Arrow)? { self.alias_sets()? } else { before.clone() };
        self.lexer.expect(CLOSE)?;
        Ok(Some(AliasInfo { before, after, is_write, contained: None }))
    }

    /// Sets between `|`; what follows a wildcard must be another.
    fn alias_sets(&mut self) -> Result<Vec<AliasSet>, Error> {
        let mut sets: Vec<AliasSet> = Vec::new();
        loop {
            let set = if self.lexer.next_if(STAR)? {
                AliasSet::Wildcard
            } else if sets.contains(&AliasSet::Wildcard) {
                return Err(self.lexer.expected(&STAR));
            } else {
                AliasSet::Named(self.ident()?)
            };
            if !sets.contains(&set) {
                sets.push(set);
            }
            if !self.lexer.next_if(OR)? {
                return Ok(sets);
            }
        }
    }

    fn ident(&mut self) -> Result<String, Error> {
        self.lexer.expect(Kind::Ident).map(|token| token.text.to_owned())
    }
}
