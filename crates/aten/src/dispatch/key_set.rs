//! [`DispatchKeySet`]: which keys a tensor, a thread or a call carries, in one word.
//!
//! The low 16 bits are backends, the 47 above are functionalities (bit 15 + number), as in PyTorch. A runtime
//! key of a per-backend functionality is in the set when both its bits are: {CPU, AutogradCUDA} therefore also
//! holds CUDA and AutogradCPU. This is why nothing here takes backend bits away with a key:
//! [`minus`](DispatchKeySet::minus) and [`remove`](DispatchKeySet::remove) clear functionalities only.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitXor, Sub};

use super::key::{Backend, DispatchKey, Functionality, TABLE_PLACES};

/// Bits of backends.
const BACKENDS: u64 = (1 << Backend::COUNT) - 1;
/// Bits of functionalities that a backend completes.
const PER_BACKEND: u64 = {
    let (mut bits, mut i) = (0, 0);
    while i < Functionality::ALL.len() {
        if Functionality::ALL[i].is_per_backend() {
            bits |= Functionality::ALL[i].bit();
        }
        i += 1;
    }
    bits
};

/// A set of [`DispatchKey`]s. See the [module](self).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DispatchKeySet(u64);

impl DispatchKeySet {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// Everything.
    pub const FULL: Self = Self((1 << (Backend::COUNT + Functionality::ALL.len())) - 1);
    /// Every backend bit, no functionality.
    pub const BACKENDS: Self = Self(BACKENDS);
    /// The autograd keys.
    pub const AUTOGRAD: Self = Self::of_functionalities(&[
        Functionality::Autograd,
        Functionality::AutogradOther,
        Functionality::AutogradNestedTensor,
    ]);
    /// The autograd keys and ADInplaceOrView.
    pub const AUTOGRAD_WITH_AD_INPLACE_OR_VIEW: Self =
        Self::AUTOGRAD.union(Self::of_functionalities(&[Functionality::AdInplaceOrView]));
    /// The autocast keys.
    pub const AUTOCAST: Self = Self::of_functionalities(&[
        Functionality::AutocastCpu,
        Functionality::AutocastMtia,
        Functionality::AutocastMaia,
        Functionality::AutocastXpu,
        Functionality::AutocastIpu,
        Functionality::AutocastHpu,
        Functionality::AutocastXla,
        Functionality::AutocastMps,
        Functionality::AutocastCuda,
        Functionality::AutocastPrivateUse1,
    ]);
    /// Backends that share [`DispatchKey::AutogradOther`], having no autograd key of their own.
    pub const AUTOGRAD_OTHER_BACKENDS: Self = Self::BACKENDS.union(Self::of_functionalities(&[
        Functionality::Fpga,
        Functionality::Vulkan,
        Functionality::Metal,
        Functionality::CustomRngKeyId,
        Functionality::MkldnnCpu,
        Functionality::Sparse,
        Functionality::SparseCsr,
        Functionality::Quantized,
    ]));
    /// Every key under which a backend's kernels stand, nested tensors' apart.
    const BACKEND_KEYS: Self =
        Self::AUTOGRAD_OTHER_BACKENDS.union(Self::of_functionalities(&[Functionality::Dense]));
    const NESTED: Self = Self::BACKENDS.union(Self::of_functionalities(&[Functionality::NestedTensor]));

    /// The set of one key. Aliases and *undefined* are in no set: theirs is empty.
    pub const fn new(key: DispatchKey) -> Self {
        let functionality = match key.functionality() {
            Some(functionality) => functionality.bit(),
            None => 0,
        };
        let backend = match key.backend() {
            Some(backend) => backend.bit(),
            None => 0,
        };
        Self(functionality | backend)
    }

    /// The set of several keys.
    pub const fn of(keys: &[DispatchKey]) -> Self {
        let (mut set, mut i) = (Self::EMPTY, 0);
        while i < keys.len() {
            set = set.add(keys[i]);
            i += 1;
        }
        set
    }

    /// Functionalities without backends.
    pub const fn of_functionalities(functionalities: &[Functionality]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < functionalities.len() {
            bits |= functionalities[i].bit();
            i += 1;
        }
        Self(bits)
    }

    /// A backend without functionality.
    pub const fn of_backend(backend: Backend) -> Self {
        Self(backend.bit())
    }

    /// Keys of lower priority than `key`, and PythonDispatcher: where a kernel for `key` may redispatch to.
    pub const fn full_after(key: DispatchKey) -> Self {
        let number = match key.functionality() {
            Some(functionality) => functionality as u8 as usize,
            None => 0,
        };
        Self(((1 << (Backend::COUNT - 1 + number)) - 1) | Functionality::PythonDispatcher.bit())
    }

    /// The keys with which autograd follows tensors of a backend.
    pub const fn autograd_related(backend: Backend) -> Self {
        Self::new(DispatchKey::new(Functionality::Autograd, backend)).add(DispatchKey::AdInplaceOrView)
    }

    /// Backends whose tensors meet an autograd key; empty for other keys.
    pub const fn backends_of_autograd(key: DispatchKey) -> Self {
        match (key.functionality(), key.backend()) {
            (Some(Functionality::AutogradOther), _) => Self::AUTOGRAD_OTHER_BACKENDS,
            (Some(Functionality::AutogradNestedTensor), _) => Self::NESTED,
            (Some(Functionality::Autograd), Some(backend)) => {
                Self::new(DispatchKey::new(Functionality::Dense, backend))
            }
            _ => Self::EMPTY,
        }
    }

    /// The runtime keys that a key of a registration stands for: an alias's, or the key alone.
    pub const fn runtime_of(key: DispatchKey) -> Self {
        match key {
            DispatchKey::Autograd => Self::AUTOGRAD.union(Self::BACKENDS),
            DispatchKey::CompositeImplicitAutograd => {
                Self::BACKEND_KEYS.union(Self::NESTED).union(Self::AUTOGRAD)
            }
            DispatchKey::FuncTorchBatchedDecomposition => Self::new(DispatchKey::FuncTorchBatched),
            DispatchKey::CompositeImplicitAutogradNestedTensor => {
                Self::NESTED.add(DispatchKey::AutogradNestedTensor)
            }
            DispatchKey::CompositeExplicitAutograd => Self::BACKEND_KEYS,
            DispatchKey::CompositeExplicitAutogradNonFunctional => Self::BACKEND_KEYS
                .minus(Self::of_functionalities(&[Functionality::Sparse]))
                .remove_backend(Backend::Xla)
                .remove_backend(Backend::Lazy),
            key => Self::new(key),
        }
    }

    /// Kernels of a backend stand under this key, nested tensors' apart; *undefined* is none.
    pub const fn is_backend_key(key: DispatchKey) -> bool {
        Self::BACKEND_KEYS.has(key)
    }

    /// A set by its bits.
    pub const fn from_raw_repr(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, as in PyTorch.
    pub const fn raw_repr(self) -> u64 {
        self.0
    }

    /// Holds no key and no backend.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Holds the key; for half a key, its functionality. Nothing holds aliases or *undefined*.
    #[inline]
    pub const fn has(self, key: DispatchKey) -> bool {
        let wanted = Self::new(key);
        wanted.0 != 0 && self.has_all(wanted)
    }

    /// Holds the backend's bit.
    pub const fn has_backend(self, backend: Backend) -> bool {
        self.0 & backend.bit() != 0
    }

    /// Holds every bit of the other.
    pub const fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Holds any key of the other; where the other is only backends, or only functionalities, any of those.
    pub const fn has_any(self, other: Self) -> bool {
        let common = self.0 & other.0;
        if other.0 & PER_BACKEND == 0 || other.0 & BACKENDS == 0 {
            return common != 0;
        }
        common & !(PER_BACKEND | BACKENDS) != 0 || (common & PER_BACKEND != 0 && common & BACKENDS != 0)
    }

    /// The bits of either.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits of both.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Without the other's functionalities. Backends stay.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & (BACKENDS | !other.0))
    }

    /// With the key.
    pub const fn add(self, key: DispatchKey) -> Self {
        self.union(Self::new(key))
    }

    /// Without the key's functionality. Its backend stays.
    pub const fn remove(self, key: DispatchKey) -> Self {
        self.minus(Self::new(key))
    }

    /// Without the backend.
    pub const fn remove_backend(self, backend: Backend) -> Self {
        Self(self.0 & !backend.bit())
    }

    /// The functionality to be served first.
    pub const fn highest_functionality(self) -> Option<Functionality> {
        match self.highest_number() {
            0 => None,
            number => Some(Functionality::ALL[number - 1]),
        }
    }

    /// The backend that wins.
    pub const fn highest_backend(self) -> Option<Backend> {
        match self.highest_backend_number() {
            0 => None,
            number => Some(Backend::ALL[number - 1]),
        }
    }

    /// Number of the highest backend; 0 for none.
    #[inline]
    pub(super) const fn highest_backend_number(self) -> usize {
        (u64::BITS - (self.0 & BACKENDS).leading_zeros()) as usize
    }

    /// The key to be served first: *undefined* without a functionality, half a key where a functionality lacks
    /// its backend. PyTorch's `highestPriorityTypeId`.
    pub const fn highest_priority_key(self) -> DispatchKey {
        match (self.highest_functionality(), self.highest_backend()) {
            (None, _) => DispatchKey::Undefined,
            (Some(functionality), Some(backend)) => DispatchKey::new(functionality, backend),
            (Some(functionality), None) => DispatchKey::functionality_only(functionality),
        }
    }

    /// The slot of the key to be served first in an operator's table.
    #[inline]
    pub const fn table_index(self) -> usize {
        let (first, backends) = TABLE_PLACES[self.highest_number()];
        let backend = (self.0 & backends as u64) >> 1;
        first as usize + (u64::BITS - backend.leading_zeros()) as usize
    }

    /// The runtime keys: of lower priority first, and of each functionality by backend.
    pub fn iter(self) -> impl Iterator<Item = DispatchKey> {
        let backends = move || Backend::ALL.into_iter().filter(move |backend| self.has_backend(*backend));
        Functionality::ALL.into_iter().filter(move |f| self.0 & f.bit() != 0).flat_map(move |functionality| {
            let single =
                (!functionality.is_per_backend()).then(|| DispatchKey::functionality_only(functionality));
            let several = functionality
                .is_per_backend()
                .then(|| backends().map(move |backend| DispatchKey::new(functionality, backend)));
            single.into_iter().chain(several.into_iter().flatten())
        })
    }

    /// Number of the highest functionality; 0 for none.
    #[inline]
    const fn highest_number(self) -> usize {
        // The topmost bit of the word is no key: it is masked so that any word has a place in a table.
        let functionalities = (self.0 & Self::FULL.0) >> Backend::COUNT;
        (u64::BITS - functionalities.leading_zeros()) as usize
    }
}

impl From<DispatchKey> for DispatchKeySet {
    fn from(key: DispatchKey) -> Self {
        Self::new(key)
    }
}

impl FromIterator<DispatchKey> for DispatchKeySet {
    fn from_iter<I: IntoIterator<Item = DispatchKey>>(keys: I) -> Self {
        keys.into_iter().fold(Self::EMPTY, Self::add)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident => $named:ident,)*) => {$(
        impl $trait for DispatchKeySet {
            type Output = Self;

            #[inline]
            fn $method(self, other: Self) -> Self {
                self.$named(other)
            }
        }
    )*};
}

operators! {
    BitOr bitor => union,
    BitAnd bitand => intersection,
    Sub sub => minus,
}

impl BitXor for DispatchKeySet {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl fmt::Display for DispatchKeySet {
    /// As PyTorch prints it: `DispatchKeySet(CPU, AutogradCPU)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DispatchKeySet(")?;
        for (i, key) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{key}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for DispatchKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
