//! [`HostKernel`]: what the simulated device runs in place of a kernel's machine code.
//!
//! A module's image is text: the line `tensorplay host kernels 1`, then a line for each function, its name and the
//! sizes of its parameters in bytes. What a name does is looked up, when the module is loaded, in a table of the
//! process: the built-in kernels and what [`register_host_kernel`] has added. A kernel says of its parameters what it
//! will read and write, and reaches nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use super::builtin_kernels::BUILT_IN;
use crate::driver::{Access, DevicePtr, KernelMemory, LaunchConfig};

/// The first line of an image.
const HEAD: &str = "tensorplay host kernels 1";

/// What a kernel reads, and what it writes.
pub type Accesses = (Vec<Access>, Vec<Access>);

/// A kernel that runs on the host.
#[derive(Clone, Copy)]
pub struct HostKernel {
    /// What a launch with these parameters will read and write.
    pub accesses: fn(&LaunchConfig, &KernelParams) -> Accesses,
    /// What it does, as [`KernelBody`](crate::driver::KernelBody) says; ranges have the numbers that they have in
    /// `accesses`.
    pub body: fn(&LaunchConfig, &KernelParams, &mut dyn KernelMemory),
    /// What it takes beyond moving those bytes, in nanoseconds of virtual time.
    pub cost_ns: fn(&LaunchConfig, &KernelParams) -> u64,
}

impl HostKernel {
    /// A kernel that takes what moving its bytes takes.
    pub const fn new(
        accesses: fn(&LaunchConfig, &KernelParams) -> Accesses,
        body: fn(&LaunchConfig, &KernelParams, &mut dyn KernelMemory),
    ) -> Self {
        Self { accesses, body, cost_ns: |_, _| 0 }
    }
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostKernel").finish_non_exhaustive()
    }
}

static REGISTERED: RwLock<BTreeMap<&'static str, HostKernel>> = RwLock::new(BTreeMap::new());

/// Says what functions of that name do, in modules that are loaded from here on, of all machines of the process. A
/// name that was registered, or is built in, means this from here on.
pub fn register_host_kernel(name: &'static str, kernel: HostKernel) {
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).insert(name, kernel);
}

/// What a name stands for, with the name as it was registered.
fn find(name: &str) -> Option<(&'static str, HostKernel)> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let own = registered.get_key_value(name).map(|(name, kernel)| (*name, *kernel));
    own.or_else(|| BUILT_IN.into_iter().find(|(built_in, _)| *built_in == name))
}

/// A function as an image declares it.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) kernel: HostKernel,
    /// The sizes of its parameters.
    sizes: Vec<usize>,
}

/// The functions of an image; `None` when it is none, or names what nobody has registered.
pub(super) fn parse_image(image: &[u8]) -> Option<Vec<Declared>> {
    // CUDA takes text with a zero behind it.
    let text = std::str::from_utf8(image.strip_suffix(b"\0").unwrap_or(image)).ok()?;
    let mut lines = text.lines();
    if lines.next()?.trim_end() != HEAD {
        return None;
    }
    lines.filter(|line| !line.trim().is_empty()).map(parse_function).collect()
}

fn parse_function(line: &str) -> Option<Declared> {
    let mut words = line.split_whitespace();
    let (name, kernel) = find(words.next()?)?;
    let sizes = words.map(|word| word.parse().ok().filter(|size| (1..=4096).contains(size)));
    Some(Declared { name, kernel, sizes: sizes.collect::<Option<_>>()? })
}

impl Declared {
    /// The arguments of a launch, if they are what the function takes.
    pub(super) fn params(&self, params: &[&[u8]]) -> Option<KernelParams> {
        let fits = params.iter().map(|param| param.len()).eq(self.sizes.iter().copied());
        fits.then(|| KernelParams(params.iter().map(|param| Box::from(*param)).collect()))
    }
}

/// The arguments of a launch.
///
/// # Panics
/// The typed reads panic when there is no such parameter, or it has another size: the kernel and its image do not
/// belong together. Such a launch is refused.
#[derive(Clone, Debug)]
pub struct KernelParams(Vec<Box<[u8]>>);

impl KernelParams {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The bytes of one.
    pub fn bytes(&self, index: usize) -> &[u8] {
        self.0.get(index).map(|bytes| &**bytes).unwrap_or_else(|| {
            panic!("the kernel reads parameter {index}, and its image has {}", self.0.len())
        })
    }

    /// One of four bytes, as an integer.
    pub fn u32(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.sized(index))
    }

    /// One of eight bytes, as an integer.
    pub fn u64(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.sized(index))
    }

    /// One of four bytes, as a float.
    pub fn f32(&self, index: usize) -> f32 {
        f32::from_le_bytes(self.sized(index))
    }

    /// One of eight bytes, as an address.
    pub fn ptr(&self, index: usize) -> DevicePtr {
        DevicePtr(self.u64(index))
    }

    fn sized<const N: usize>(&self, index: usize) -> [u8; N] {
        let bytes = self.bytes(index);
        let Ok(sized) = bytes.try_into() else {
            panic!("the kernel reads parameter {index} as {N} bytes, and its image says {}", bytes.len());
        };
        sized
    }
}
