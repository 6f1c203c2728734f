//! What a schema says: an operator's name, its arguments and returns.

/// An overload's name and types.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) overload: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) returns: Vec<Type>,
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) ty: Type,
    pub(crate) name: String,
    pub(crate) default: Option<String>,
    pub(crate) keyword_only: bool,
}

/// `BASE(alias)?[N]?`: each mark may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) base: Base,
    /// Whether the call writes to it.
    pub(crate) written: bool,
    pub(crate) list: Option<List>,
    /// Whether it, or the whole list, may be missing.
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) length: Option<usize>,
    /// Whether elements may be missing.
    pub(crate) of_optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Tensor,
    Int,
    Float,
    Bool,
    Scalar,
    Str,
    ScalarType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
}

impl Schema {
    /// The operator's name and its overload's, as people write them.
    pub(crate) fn full_name(&self) -> String {
        if self.overload.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.overload) }
    }

    /// Whether the first argument is a tensor, which makes the overload a method.
    pub(crate) fn has_receiver(&self) -> bool {
        self.arguments.first().is_some_and(|first| first.ty.is_tensor() && !first.is_out())
    }

    /// Whether the call writes to its first argument and returns it.
    pub(crate) fn is_in_place(&self) -> bool {
        self.has_receiver()
            && self.arguments[0].ty.written
            && self.returns.len() == 1
            && self.returns[0].written
            && !self.is_out()
    }

    /// Whether the results go into arguments.
    pub(crate) fn is_out(&self) -> bool {
        self.arguments.iter().any(Argument::is_out)
    }
}

impl Argument {
    /// Whether it is a place for a result.
    pub(crate) fn is_out(&self) -> bool {
        self.keyword_only && self.ty.written
    }
}

impl Type {
    /// Whether it is one tensor that is always there.
    pub(crate) fn is_tensor(&self) -> bool {
        self.base == Base::Tensor && self.list.is_none() && !self.optional
    }
}
