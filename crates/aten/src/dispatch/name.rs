//! [`OperatorName`]: how operators are told apart.

use std::fmt;
use std::str::FromStr;

use super::schema_parse;
use crate::error::{Error, ErrorKind};

/// `namespace::name` and the overload, which is empty for the default one. PyTorch's `OperatorName`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperatorName {
    name: String,
    overload: String,
}

impl OperatorName {
    /// An operator's name by its two parts: `aten::add` and `Tensor`.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when the parts together are no operator name.
    pub fn try_new(name: &str, overload: &str) -> Result<Self, Error> {
        let parsed =
            if overload.is_empty() { name.parse::<Self>() } else { format!("{name}.{overload}").parse() }?;
        if parsed.name != name || parsed.overload != overload {
            let (name, overload) = (name.escape_debug(), overload.escape_debug());
            return Err(Error::new(
                ErrorKind::Parse,
                format!("'{name}' and '{overload}' are not an operator's name and overload"),
            ));
        }
        Ok(parsed)
    }

    /// Parts that a parser or a caller here has checked.
    pub(super) fn new_unchecked(name: String, overload: String) -> Self {
        Self { name, overload }
    }

    /// With its namespace, without the overload: `aten::add`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Empty for the default overload.
    pub fn overload(&self) -> &str {
        &self.overload
    }

    /// What stands before `::`, if anything does.
    pub fn namespace(&self) -> Option<&str> {
        self.name.split_once("::").map(|(namespace, _)| namespace)
    }

    /// What stands after `::`.
    pub fn base_name(&self) -> &str {
        self.name.split_once("::").map_or(&self.name, |(_, base)| base)
    }

    /// The name in `namespace`, where it has none yet.
    #[must_use]
    pub fn with_namespace_if_unset(self, namespace: &str) -> Self {
        match self.namespace() {
            Some(_) => self,
            None => Self { name: format!("{namespace}::{}", self.name), overload: self.overload },
        }
    }
}

impl fmt::Display for OperatorName {
    /// `aten::add.Tensor`; without a dot for the default overload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

impl fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OperatorName {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Parse`] with the place and what is wrong there.
    fn from_str(text: &str) -> Result<Self, Error> {
        schema_parse::parse_name(text)
    }
}
