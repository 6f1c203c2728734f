//! [`Layout`]: how a tensor keeps its elements.
//!
//! The names exist so that schemas, options and recorded calls can be read; this library's tensors are all
//! [`Strided`](Layout::Strided), and asking for another layout is refused.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How elements are kept (`c10::Layout`, `torch.layout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(i8)]
#[non_exhaustive]
pub enum Layout {
    /// Sizes and strides over one storage: the only one that tensors here have.
    #[default]
    Strided = 0,
    /// Coordinates and values.
    Sparse = 1,
    /// Compressed rows.
    SparseCsr = 2,
    /// oneDNN's opaque blocks.
    Mkldnn = 3,
    /// Compressed columns.
    SparseCsc = 4,
    /// Compressed rows of dense blocks.
    SparseBsr = 5,
    /// Compressed columns of dense blocks.
    SparseBsc = 6,
    /// Rows of different lengths.
    Jagged = 7,
}

impl Layout {
    /// Every layout, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Strided,
        Self::Sparse,
        Self::SparseCsr,
        Self::Mkldnn,
        Self::SparseCsc,
        Self::SparseBsr,
        Self::SparseBsc,
        Self::Jagged,
    ];

    /// The layout of one of PyTorch's numbers.
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.number() == number)
    }

    /// PyTorch's number of the layout.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// PyTorch's name of the layout without `torch.`: `strided`, `sparse_coo`, `_mkldnn`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strided => "strided",
            Self::Sparse => "sparse_coo",
            Self::SparseCsr => "sparse_csr",
            Self::Mkldnn => "_mkldnn",
            Self::SparseCsc => "sparse_csc",
            Self::SparseBsr => "sparse_bsr",
            Self::SparseBsc => "sparse_bsc",
            Self::Jagged => "jagged",
        }
    }

    /// Whether tensors of this library can have it.
    pub const fn is_supported(self) -> bool {
        matches!(self, Self::Strided)
    }
}

impl fmt::Display for Layout {
    /// `strided`; with `{:#}` as Python prints it, `torch.strided`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { f.pad(&format!("torch.{}", self.name())) } else { f.pad(self.name()) }
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// Takes each [`name`](Self::name), with or without `torch.`.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) when the text is none of them.
    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|l| l.name() == name)
            .ok_or_else(|| Error::unknown_name("layout", text, Self::ALL.into_iter().map(Self::name)))
    }
}
