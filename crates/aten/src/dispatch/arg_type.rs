//! [`ArgType`]: what a schema says an argument or a return is. [`AliasInfo`]: what it says of its memory.

use std::fmt;

macro_rules! leaves {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// The type of an argument or a return. PyTorch's `Type`, as far as schemas name it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ArgType {
            $(#[doc = concat!("`", $name, "`: ", $doc)] $variant,)*
            /// A lower-case name that stands for a type: the same one wherever it occurs in a schema.
            Var(String),
            /// `T[]`, or `T[N]`.
            List {
                /// What it holds.
                element: Box<ArgType>,
                /// How many; one default or argument stands for so many equal ones.
                size: Option<u32>,
            },
            /// `T?`
            Optional(Box<ArgType>),
            /// `(T, U)`
            Tuple(Vec<ArgType>),
            /// `Dict(K, V)`
            Dict(Box<ArgType>, Box<ArgType>),
            /// `Future(T)`
            Future(Box<ArgType>),
            /// `RRef(T)`
            RRef(Box<ArgType>),
            /// `Await(T)`
            Await(Box<ArgType>),
        }

        impl ArgType {
            /// The type that a single word names.
            pub(super) fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($name => Some(Self::$variant),)*
                    "None" => Some(Self::NoneType),
                    // Stored as numbers, and printed so.
                    "DeviceIndex" | "ConstQuantizerPtr" => Some(Self::Int),
                    _ => None,
                }
            }

            fn word(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

leaves! {
    Tensor "Tensor" "a tensor.",
    Int "int" "an integer of 64 bits.",
    SymInt "SymInt" "an integer that a tracer may leave open.",
    Float "float" "a float of 64 bits.",
    Bool "bool" "true or false.",
    SymBool "SymBool" "a truth value that a tracer may leave open.",
    Complex "complex" "a complex number of two floats.",
    Str "str" "a text.",
    Scalar "Scalar" "a number of any type.",
    ScalarType "ScalarType" "an element type.",
    Layout "Layout" "how elements lie.",
    MemoryFormat "MemoryFormat" "the order of strides.",
    Device "Device" "a device.",
    Generator "Generator" "a source of random numbers.",
    Storage "Storage" "memory under tensors.",
    Stream "Stream" "a queue of a device.",
    QScheme "QScheme" "a kind of quantization.",
    Quantizer "Quantizer" "how a tensor is quantized.",
    Any "Any" "whatever it is.",
    AnyEnum "AnyEnumType" "a member of any enumeration.",
    AnyClass "AnyClassType" "an object of any class.",
    Capsule "Capsule" "an object that only its owner understands.",
    NoneType "NoneType" "nothing.",
}

impl ArgType {
    /// What an optional holds; the type itself otherwise.
    pub fn unwrap_optional(&self) -> &Self {
        match self {
            Self::Optional(inner) => inner,
            other => other,
        }
    }

    /// The argument may be left empty.
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::Optional(_))
    }

    /// The argument is a tensor or holds tensors.
    pub fn holds_tensors(&self) -> bool {
        match self {
            Self::Tensor => true,
            Self::List { element: inner, .. } | Self::Optional(inner) => inner.holds_tensors(),
            Self::Tuple(parts) => parts.iter().any(Self::holds_tensors),
            Self::Dict(key, value) => key.holds_tensors() || value.holds_tensors(),
            _ => false,
        }
    }

    /// Writes the type with the alias marks of its levels between the type and its suffixes.
    ///
    /// Differs from PyTorch: marks stand where the grammar reads them. PyTorch prints `Tensor(a)?[]` as
    /// `Tensor?(a)[]`, which it cannot read.
    pub(super) fn write(&self, alias: Option<&AliasInfo>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Optional(inner) => {
                inner.write(alias, f)?;
                return f.write_str("?");
            }
            Self::List { element, size } => {
                element.write(alias.and_then(|alias| alias.contained.as_deref()), f)?;
                match size {
                    Some(size) => write!(f, "[{size}]")?,
                    None => f.write_str("[]")?,
                }
            }
            Self::Tuple(parts) => {
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{part}")?;
                }
                f.write_str(")")?;
            }
            Self::Dict(key, value) => write!(f, "Dict({key}, {value})")?,
            Self::Future(inner) => write!(f, "Future({inner})")?,
            Self::RRef(inner) => write!(f, "RRef({inner})")?,
            Self::Await(inner) => write!(f, "Await({inner})")?,
            Self::Var(name) => f.write_str(name)?,
            leaf => f.write_str(leaf.word().expect("every other variant is a word"))?,
        }
        match alias {
            Some(alias) => fmt::Display::fmt(alias, f),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ArgType {
    /// As PyTorch prints types in schemas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(None, f)
    }
}

/// One alias set of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AliasSet {
    /// Any memory: `*`.
    Wildcard,
    /// The memory that this name stands for in the schema.
    Named(String),
    /// Memory of its own, of which nothing is said but that it is written: the mark is a lone `!`.
    Fresh(u32),
}

impl fmt::Display for AliasSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wildcard => f.write_str("*"),
            Self::Named(name) => f.write_str(name),
            Self::Fresh(number) => write!(f, "${number}"),
        }
    }
}

/// What a schema says of the memory of an argument or a return: `(a!)`, `(a -> *)`. PyTorch's `AliasInfo`.
#[derive(Clone, Debug, Default)]
pub struct AliasInfo {
    /// The sets that the value is in before the call.
    pub before: Vec<AliasSet>,
    /// The sets that it is in after the call.
    pub after: Vec<AliasSet>,
    /// The call writes to it.
    pub is_write: bool,
    /// The marks of what the value holds, where it is a list.
    pub contained: Option<Box<AliasInfo>>,
}

impl AliasInfo {
    /// The sets of the tensors themselves: of the value, or of what the list holds.
    pub fn innermost(&self) -> &Self {
        let mut inner = self;
        while let Some(contained) = &inner.contained {
            inner = contained;
        }
        inner
    }

    fn sets(sets: &[AliasSet]) -> Vec<&AliasSet> {
        let mut sorted: Vec<_> = sets.iter().collect();
        sorted.sort_unstable();
        sorted
    }
}

/// The order of sets says nothing, nor do the numbers of fresh ones: each stands alone.
impl PartialEq for AliasInfo {
    fn eq(&self, other: &Self) -> bool {
        let fresh = |sets: &[AliasSet]| matches!(sets, [AliasSet::Fresh(_)]);
        let same = |left: &[AliasSet], right: &[AliasSet]| Self::sets(left) == Self::sets(right);
        self.is_write == other.is_write
            && (fresh(&self.before) && fresh(&other.before) || same(&self.before, &other.before))
            && same(&self.after, &other.after)
            && self.contained == other.contained
    }
}

impl Eq for AliasInfo {}

impl fmt::Display for AliasInfo {
    /// The mark of this level; nothing where only what is held has marks.
    ///
    /// Differs from PyTorch: sets stand in the order in which they were written; PyTorch's is that of a hash
    /// table. A lone `!` is printed so, and not as `($0! -> )`, which nothing can read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |sets: &[AliasSet]| sets.iter().map(ToString::to_string).collect::<Vec<_>>().join("|");
        if self.before.is_empty() {
            return Ok(());
        }
        if matches!(self.before[..], [AliasSet::Fresh(_)]) {
            return f.write_str("!");
        }
        write!(f, "({}{}", list(&self.before), if self.is_write { "!" } else { "" })?;
        if Self::sets(&self.before) != Self::sets(&self.after) {
            write!(f, " -> {}", list(&self.after))?;
        }
        f.write_str(")")
    }
}
