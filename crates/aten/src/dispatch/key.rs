//! [`DispatchKey`]: one place in the order in which a call looks for its kernel. [`Backend`] and
//! [`Functionality`]: the two things that make up most keys.
//!
//! Numbers and bits are PyTorch's, so that a raw key set of one is a raw key set of the other. A key is one of
//! - *undefined* (0): no tensor said anything;
//! - a *functionality* (1–46), in order of priority. Six of them ([`Functionality::is_per_backend`]) are only
//!   half a key: with a backend they give a runtime key;
//! - a *runtime key of a functionality and a backend* ([`DispatchKey::AutogradCpu`]);
//! - an *alias* (150–155) that stands for many runtime keys in registrations and is never in a set.
//!
//! A key with a slot of its own in an operator's table is a *runtime key*; [`DispatchKey::table_index`] is its
//! place.

use std::fmt;
use std::str::FromStr;

use c10_core::DeviceType;

use super::key_set::DispatchKeySet;
use crate::error::{Error, ErrorKind};

macro_rules! numbered {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$variant_doc])* #[doc = concat!("PyTorch's `", $name, "`.")] $variant = $number,)*
        }

        impl $type {
            /// All of them, in the order of their numbers.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$variant),*];

            /// PyTorch's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

numbered! {
    /// Whose memory and kernels: the low 16 bits of a key set. A higher one wins where tensors of two meet, so
    /// that Meta wins over every real device.
    Backend {
        Cpu = 1 "CPU",
        Cuda = 2 "CUDA",
        Hip = 3 "HIP",
        Xla = 4 "XLA",
        Mps = 5 "MPS",
        Ipu = 6 "IPU",
        Xpu = 7 "XPU",
        Hpu = 8 "HPU",
        Ve = 9 "VE",
        Lazy = 10 "Lazy",
        Mtia = 11 "MTIA",
        Maia = 12 "MAIA",
        PrivateUse1 = 13 "PrivateUse1",
        PrivateUse2 = 14 "PrivateUse2",
        PrivateUse3 = 15 "PrivateUse3",
        Meta = 16 "Meta",
    }
}

numbered! {
    /// What is done: the high bits of a key set, a later one first.
    Functionality {
        Dense = 1 "Dense",
        Fpga = 2 "FPGA",
        Vulkan = 3 "Vulkan",
        Metal = 4 "Metal",
        Quantized = 5 "Quantized",
        CustomRngKeyId = 6 "CustomRNGKeyId",
        MkldnnCpu = 7 "MkldnnCPU",
        Sparse = 8 "Sparse",
        SparseCsr = 9 "SparseCsr",
        NestedTensor = 10 "NestedTensor",
        BackendSelect = 11 "BackendSelect",
        Fake = 12 "Fake",
        Python = 13 "Python",
        FuncTorchDynamicLayerBackMode = 14 "FuncTorchDynamicLayerBackMode",
        Functionalize = 15 "Functionalize",
        Conjugate = 16 "Conjugate",
        Negative = 17 "Negative",
        ZeroTensor = 18 "ZeroTensor",
        AdInplaceOrView = 19 "ADInplaceOrView",
        AutogradOther = 20 "AutogradOther",
        Autograd = 21 "AutogradFunctionality",
        AutogradNestedTensor = 22 "AutogradNestedTensor",
        Tracer = 23 "Tracer",
        AutocastCpu = 24 "AutocastCPU",
        AutocastMtia = 25 "AutocastMTIA",
        AutocastMaia = 26 "AutocastMAIA",
        AutocastXpu = 27 "AutocastXPU",
        AutocastIpu = 28 "AutocastIPU",
        AutocastHpu = 29 "AutocastHPU",
        AutocastXla = 30 "AutocastXLA",
        AutocastMps = 31 "AutocastMPS",
        AutocastCuda = 32 "AutocastCUDA",
        AutocastPrivateUse1 = 33 "AutocastPrivateUse1",
        FuncTorchBatched = 34 "FuncTorchBatched",
        BatchedNestedTensor = 35 "BatchedNestedTensor",
        FuncTorchVmapMode = 36 "FuncTorchVmapMode",
        Batched = 37 "Batched",
        VmapMode = 38 "VmapMode",
        FuncTorchGradWrapper = 39 "FuncTorchGradWrapper",
        DeferredInit = 40 "DeferredInit",
        PythonTlsSnapshot = 41 "PythonTLSSnapshot",
        FuncTorchDynamicLayerFrontMode = 42 "FuncTorchDynamicLayerFrontMode",
        TestingOnlyGenericWrapper = 43 "TESTING_ONLY_GenericWrapper",
        TestingOnlyGenericMode = 44 "TESTING_ONLY_GenericMode",
        PreDispatch = 45 "PreDispatch",
        PythonDispatcher = 46 "PythonDispatcher",
    }
}

impl Backend {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The bit of a key set.
    pub(super) const fn bit(self) -> u64 {
        1 << (self as u8 - 1)
    }

    /// The backend of tensors on a type of device.
    ///
    /// # Panics
    /// For a type that `c10-core` has and this crate does not know.
    pub const fn of(device: DeviceType) -> Self {
        match device {
            DeviceType::Cpu => Self::Cpu,
            DeviceType::Cuda => Self::Cuda,
            DeviceType::Meta => Self::Meta,
            DeviceType::Mps => Self::Mps,
            DeviceType::Xpu => Self::Xpu,
            DeviceType::PrivateUse1 => Self::PrivateUse1,
            _ => panic!("every type of device has its backend above"),
        }
    }
}

impl Functionality {
    /// The six that a backend completes, and the prefix of the names of what comes out.
    const PER_BACKEND: [(Self, &'static str); 6] = [
        (Self::Dense, ""),
        (Self::Quantized, "Quantized"),
        (Self::Sparse, "Sparse"),
        (Self::SparseCsr, "SparseCsr"),
        (Self::NestedTensor, "NestedTensor"),
        (Self::Autograd, "Autograd"),
    ];

    /// The bit of a key set.
    pub(super) const fn bit(self) -> u64 {
        1 << (self as u8 as usize + Backend::COUNT - 1)
    }

    /// Has one runtime key for each backend.
    pub const fn is_per_backend(self) -> bool {
        self.place_per_backend().is_some()
    }

    const fn place_per_backend(self) -> Option<usize> {
        let mut i = 0;
        while i < Self::PER_BACKEND.len() {
            if Self::PER_BACKEND[i].0 as u8 == self as u8 {
                return Some(i);
            }
            i += 1;
        }
        None
    }
}

/// One place in the order of dispatch. See the [module](self) for the kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DispatchKey(u8);

/// The number before the first runtime key of a functionality and a backend.
const BEFORE_PER_BACKEND: u8 = 47;
/// Numbers between the first keys of two functionalities: each group begins with a number that is no key.
const PER_BACKEND_STEP: u8 = Backend::COUNT as u8 + 1;

macro_rules! keys {
    ($($name:ident = $functionality:ident $(of $backend:ident)?,)*) => {
        $(
            #[doc = concat!("[`Functionality::", stringify!($functionality), "`]" $(, " of [`Backend::", stringify!($backend), "`]")?, ".")]
            pub const $name: Self = keys!(@value $functionality $($backend)?);
        )*
    };
    (@value $functionality:ident) => { Self::functionality_only(Functionality::$functionality) };
    (@value $functionality:ident $backend:ident) => { Self::new(Functionality::$functionality, Backend::$backend) };
}

#[expect(non_upper_case_globals, reason = "they stand for the variants of PyTorch's enumeration")]
impl DispatchKey {
    /// No key.
    pub const Undefined: Self = Self(0);

    keys! {
        Cpu = Dense of Cpu,
        Cuda = Dense of Cuda,
        Mps = Dense of Mps,
        Xpu = Dense of Xpu,
        PrivateUse1 = Dense of PrivateUse1,
        Meta = Dense of Meta,
        BackendSelect = BackendSelect,
        Fake = Fake,
        Python = Python,
        Functionalize = Functionalize,
        Conjugate = Conjugate,
        Negative = Negative,
        ZeroTensor = ZeroTensor,
        AdInplaceOrView = AdInplaceOrView,
        AutogradOther = AutogradOther,
        AutogradNestedTensor = AutogradNestedTensor,
        AutogradCpu = Autograd of Cpu,
        AutogradCuda = Autograd of Cuda,
        AutogradMps = Autograd of Mps,
        AutogradXpu = Autograd of Xpu,
        AutogradPrivateUse1 = Autograd of PrivateUse1,
        AutogradMeta = Autograd of Meta,
        Tracer = Tracer,
        AutocastCpu = AutocastCpu,
        AutocastMps = AutocastMps,
        AutocastXpu = AutocastXpu,
        AutocastCuda = AutocastCuda,
        AutocastPrivateUse1 = AutocastPrivateUse1,
        FuncTorchBatched = FuncTorchBatched,
        PythonTlsSnapshot = PythonTlsSnapshot,
        PreDispatch = PreDispatch,
        PythonDispatcher = PythonDispatcher,
    }

    /// Alias: every autograd key.
    pub const Autograd: Self = Self(150);
    /// Alias: every backend and every autograd key: a kernel made of operators that differentiate themselves.
    pub const CompositeImplicitAutograd: Self = Self(151);
    /// Alias: [`FuncTorchBatched`](Self::FuncTorchBatched), by decomposition.
    pub const FuncTorchBatchedDecomposition: Self = Self(152);
    /// Alias: the nested-tensor keys.
    pub const CompositeImplicitAutogradNestedTensor: Self = Self(153);
    /// Alias: every backend: a kernel for all of them, with a derivative of its own.
    pub const CompositeExplicitAutograd: Self = Self(154);
    /// As [`CompositeExplicitAutograd`](Self::CompositeExplicitAutograd), without the backends that want
    /// functional kernels (Sparse, XLA, Lazy).
    pub const CompositeExplicitAutogradNonFunctional: Self = Self(155);
}

const ALIAS_NAMES: [&str; 6] = [
    "Autograd",
    "CompositeImplicitAutograd",
    "FuncTorchBatchedDecomposition",
    "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
];

/// Slots of an operator's table: one for *undefined*, one for each functionality of one slot, sixteen for each
/// of the others.
pub const NUM_RUNTIME_ENTRIES: usize =
    1 + Functionality::ALL.len() + Functionality::PER_BACKEND.len() * (Backend::COUNT - 1);

/// Where the slots of a functionality begin, and which backend bits choose among them.
pub(super) const TABLE_PLACES: [(u8, u16); Functionality::ALL.len() + 1] = {
    let mut places = [(0, 0); Functionality::ALL.len() + 1];
    let (mut functionality, mut next) = (1, 1);
    while functionality < places.len() {
        let per_backend = Functionality::ALL[functionality - 1].is_per_backend();
        places[functionality] = (next as u8, if per_backend { u16::MAX } else { 0 });
        next += if per_backend { Backend::COUNT } else { 1 };
        functionality += 1;
    }
    assert!(next == NUM_RUNTIME_ENTRIES, "every slot is some key's");
    places
};

/// The key of each slot.
const TABLE_KEYS: [DispatchKey; NUM_RUNTIME_ENTRIES] = {
    let mut keys = [DispatchKey::Undefined; NUM_RUNTIME_ENTRIES];
    let mut functionality = 0;
    while functionality < Functionality::ALL.len() {
        let of = Functionality::ALL[functionality];
        let first = TABLE_PLACES[functionality + 1].0 as usize;
        let mut backend = 0;
        while backend < if of.is_per_backend() { Backend::COUNT } else { 1 } {
            keys[first + backend] = DispatchKey::new(of, Backend::ALL[backend]);
            backend += 1;
        }
        functionality += 1;
    }
    keys
};

impl DispatchKey {
    /// Numbers are below this.
    pub(super) const COUNT: usize = 156;

    /// The aliases, by number.
    pub const ALIASES: [Self; 6] = [Self(150), Self(151), Self(152), Self(153), Self(154), Self(155)];

    /// The runtime key of a functionality for a backend; the functionality's own where it has only one.
    pub const fn new(functionality: Functionality, backend: Backend) -> Self {
        match functionality.place_per_backend() {
            Some(place) => Self(BEFORE_PER_BACKEND + 1 + place as u8 * PER_BACKEND_STEP + backend as u8),
            None => Self(functionality as u8),
        }
    }

    /// The key of a functionality without a backend: half a key, where the functionality is per backend.
    pub const fn functionality_only(functionality: Functionality) -> Self {
        Self(functionality as u8)
    }

    /// The key of kernels for tensors on a type of device.
    pub const fn of_device(device: DeviceType) -> Self {
        Self::new(Functionality::Dense, Backend::of(device))
    }

    /// The autograd key of tensors on a type of device.
    pub const fn autograd_of_device(device: DeviceType) -> Self {
        Self::new(Functionality::Autograd, Backend::of(device))
    }

    /// PyTorch's number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// What is done under this key; none for *undefined* and aliases.
    pub const fn functionality(self) -> Option<Functionality> {
        match self.0 {
            0 => None,
            n if n < BEFORE_PER_BACKEND => Some(Functionality::ALL[n as usize - 1]),
            n if n < Self::ALIASES[0].0 => {
                let place = (n - BEFORE_PER_BACKEND - 1) / PER_BACKEND_STEP;
                Some(Functionality::PER_BACKEND[place as usize].0)
            }
            _ => None,
        }
    }

    /// Whose kernels; none where the key is not for one backend.
    pub const fn backend(self) -> Option<Backend> {
        if self.0 <= BEFORE_PER_BACKEND || self.is_alias() {
            return None;
        }
        let backend = (self.0 - BEFORE_PER_BACKEND - 1) % PER_BACKEND_STEP;
        Some(Backend::ALL[backend as usize - 1])
    }

    /// Stands for many runtime keys in registrations.
    pub const fn is_alias(self) -> bool {
        self.0 >= Self::ALIASES[0].0
    }

    /// Has a slot in every operator's table.
    pub const fn is_runtime(self) -> bool {
        match self.functionality() {
            Some(functionality) => self.backend().is_some() || !functionality.is_per_backend(),
            None => !self.is_alias(),
        }
    }

    /// Its slot in every operator's table; none for aliases and half keys.
    pub const fn table_index(self) -> Option<usize> {
        if self.is_runtime() { Some(DispatchKeySet::new(self).table_index()) } else { None }
    }

    /// The runtime key of a slot.
    ///
    /// # Panics
    /// When `index` is not below [`NUM_RUNTIME_ENTRIES`].
    pub const fn from_table_index(index: usize) -> Self {
        TABLE_KEYS[index]
    }

    /// Every key with a slot, in the order of the slots.
    pub fn runtime_keys() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        TABLE_KEYS.into_iter()
    }
}

impl fmt::Display for DispatchKey {
    /// PyTorch's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_alias() {
            return f.pad(ALIAS_NAMES[usize::from(self.0 - Self::ALIASES[0].0)]);
        }
        match (self.functionality(), self.backend()) {
            (None, _) => f.pad("Undefined"),
            (Some(functionality), None) => f.pad(functionality.name()),
            (Some(functionality), Some(backend)) => {
                let prefix =
                    functionality.place_per_backend().map_or("", |place| Functionality::PER_BACKEND[place].1);
                f.pad(&format!("{prefix}{}", backend.name()))
            }
        }
    }
}

impl fmt::Debug for DispatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DispatchKey {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let halves = Functionality::ALL.into_iter().map(Self::functionality_only);
        TABLE_KEYS
            .into_iter()
            .chain(halves)
            .chain(Self::ALIASES)
            .find(|key| key.to_string() == name)
            .ok_or_else(|| {
                Error::new(ErrorKind::Parse, format!("'{}' is no dispatch key", name.escape_debug()))
            })
    }
}
