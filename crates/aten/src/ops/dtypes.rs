//! [`Dtypes`]: the dtypes that an operator takes.

use c10_core::ScalarType;

use crate::error::Result;
use crate::iter::loops::no_kernel;

/// A set of dtypes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dtypes(u64);

use ScalarType as S;

impl Dtypes {
    pub(super) const BOOL: Self = Self::of(&[S::Bool]);
    /// The integers that arithmetic takes.
    pub(super) const INTEGERS: Self = Self::of(&[S::UInt8, S::Int8, S::Int16, S::Int32, S::Int64]);
    /// Those that few operators take.
    pub(super) const WIDE_UNSIGNED: Self = Self::of(&[S::UInt16, S::UInt32, S::UInt64]);
    pub(super) const WIDE_FLOATS: Self = Self::of(&[S::Float32, S::Float64]);
    pub(super) const FLOATS: Self = Self::WIDE_FLOATS.and(Self::of(&[S::Float16, S::BFloat16]));
    pub(super) const COMPLEX: Self = Self::of(&[S::Complex64, S::Complex128]);
    pub(super) const ALL_COMPLEX: Self = Self::COMPLEX.and(Self::of(&[S::Complex32]));
    pub(super) const FLOAT8: Self = Self::of(&[S::Float8E4M3Fn, S::Float8E5M2]);
    pub(super) const FLOATS_COMPLEX: Self = Self::FLOATS.and(Self::COMPLEX);
    /// Integers and floats.
    pub(super) const NUMBERS: Self = Self::INTEGERS.and(Self::FLOATS);
    pub(super) const NUMBERS_COMPLEX: Self = Self::NUMBERS.and(Self::ALL_COMPLEX);
    /// Bool, integers and floats.
    pub(super) const REAL: Self = Self::NUMBERS.and(Self::BOOL);
    pub(super) const ALL: Self = Self::REAL.and(Self::WIDE_UNSIGNED).and(Self::ALL_COMPLEX).and(Self::FLOAT8);

    /// All and `bcomplex32`, which nothing computes with: what moves and compares elements takes it.
    pub(super) const EVERY: Self = Self::ALL.and(Self::of(&[S::BComplex32]));

    const fn of(dtypes: &[ScalarType]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < dtypes.len() {
            bits |= 1 << dtypes[i].number();
            i += 1;
        }
        Self(bits)
    }

    /// Those of either set.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn contains(self, dtype: ScalarType) -> bool {
        self.0 & (1 << dtype.number()) != 0
    }

    /// Refuses a dtype that is not in the set, as PyTorch refuses one that it has no kernel for.
    #[inline]
    pub(super) fn check(self, operator: &str, dtype: ScalarType) -> Result<()> {
        if self.contains(dtype) { Ok(()) } else { Err(no_kernel(operator, dtype)) }
    }
}
