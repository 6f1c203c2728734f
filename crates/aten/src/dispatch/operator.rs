//! [`OperatorHandle`]: an operator, its schema and its table of kernels (`c10::OperatorHandle`,
//! `c10::impl::OperatorEntry`).
//!
//! The table has one slot for each runtime key. The dispatcher fills it, under its lock, whenever a
//! registration changes; calls read it with no lock. A call that runs meanwhile finds in each slot what was
//! there before or what comes after.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::kernel::Kernel;
use super::key::{Backend, DispatchKey, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;
use super::local::LocalDispatchKeySet;
use super::missing;
use super::schema::FunctionSchema;
use super::slot::Slot;
use super::table::KernelSource;
use super::value::{self, Stack};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An operator of a dispatcher. It is good for ever, also when the operator's definition is taken back.
#[derive(Clone, Copy)]
pub struct OperatorHandle(pub(super) &'static OperatorEntry);

/// What a call is led to: the keys that have something to do, and the kernel of the highest.
pub(super) type Led = (DispatchKeySet, &'static Kernel);

/// Calls a function with each tensor among the arguments of a call.
type EachTensor<'a> = dyn Fn(&mut dyn FnMut(&Tensor)) + 'a;

pub(super) struct OperatorEntry {
    /// `namespace::name.overload`.
    name: String,
    pub(super) schema: Slot<FunctionSchema>,
    table: [Slot<Kernel>; NUM_RUNTIME_ENTRIES],
    /// For each slot why it holds what it holds; for texts alone.
    sources: [AtomicU8; NUM_RUNTIME_ENTRIES],
    /// The keys that have something to do: for calls without a backend, then for those of each backend.
    masks: [AtomicU64; Backend::COUNT + 1],
    /// What masks and table say of the keys in [`USUAL`].
    usual: [Usual; USUAL.len()],
    /// The same of the first of them, where no tensor is followed: see Note [Calls that nobody follows].
    unfollowed: Usual,
}

/// The keys that nearly all calls have: with plain tensors of the host, the same below the autograd keys, and without
/// tensors. For these the masks and the table are looked up once, whenever they change.
const USUAL: [DispatchKeySet; 3] = {
    let cpu = DispatchKeySet::new(DispatchKey::Cpu);
    let followed = cpu.union(DispatchKeySet::autograd_related(Backend::Cpu));
    [
        LocalDispatchKeySet::DEFAULT.apply(followed),
        cpu,
        LocalDispatchKeySet::DEFAULT.apply(DispatchKeySet::EMPTY),
    ]
};

// Note [Calls that nobody follows]
// Once an autograd crate is there, its kernels stand before all others, and most calls are none of their concern: no
// tensor among the arguments has anything of autograd's with it. Where such a kernel says so (`Around::PASSED_BY`),
// these calls are led past it, which is found out once, whenever a registration changes. A kernel that marks views has
// the views' own kernels do that (`Kernel::links_views`): they are called with all keys, and those of autograd among
// them say that nobody stood before.

/// The keys of [`USUAL`] that have something to do, and the kernel of the highest.
struct Usual {
    keys: AtomicU64,
    kernel: Slot<Kernel>,
}

impl Usual {
    const fn new() -> Self {
        Self { keys: AtomicU64::new(0), kernel: Slot::new() }
    }

    fn store(&self, (keys, kernel): (DispatchKeySet, Option<&'static Kernel>)) {
        self.keys.store(keys.raw_repr(), Ordering::Relaxed);
        self.kernel.store(kernel);
    }

    fn is(&self, (keys, kernel): (DispatchKeySet, Option<&'static Kernel>)) -> bool {
        self.keys.load(Ordering::Relaxed) == keys.raw_repr()
            && self.kernel.load().map(std::ptr::from_ref) == kernel.map(std::ptr::from_ref)
    }

    #[inline]
    fn load(&self) -> Option<Led> {
        let keys = DispatchKeySet::from_raw_repr(self.keys.load(Ordering::Relaxed));
        self.kernel.load().map(|kernel| (keys, kernel))
    }
}

impl OperatorEntry {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            schema: Slot::new(),
            table: [const { Slot::new() }; NUM_RUNTIME_ENTRIES],
            sources: [const { AtomicU8::new(KernelSource::Missing as u8) }; NUM_RUNTIME_ENTRIES],
            masks: [const { AtomicU64::new(DispatchKeySet::FULL.raw_repr()) }; Backend::COUNT + 1],
            usual: [const { Usual::new() }; USUAL.len()],
            unfollowed: Usual::new(),
        }
    }

    /// What a slot holds, and why.
    pub(super) fn slot(&self, index: usize) -> (Option<&'static Kernel>, KernelSource) {
        (
            self.table[index].load(),
            KernelSource::ALL[usize::from(self.sources[index].load(Ordering::Relaxed))],
        )
    }

    /// Fills a slot. Says whether the masks must be [made anew](Self::refresh_masks).
    pub(super) fn fill(&self, index: usize, kernel: Option<&'static Kernel>, source: KernelSource) -> bool {
        let had_nothing_to_do = self.table[index].load().is_some_and(Kernel::is_fallthrough);
        self.sources[index].store(source as u8, Ordering::Relaxed);
        self.table[index].store(kernel);
        had_nothing_to_do != kernel.is_some_and(Kernel::is_fallthrough)
    }

    /// Leaves out of the calls' keys, for each backend, those whose slot is fallthrough.
    pub(super) fn refresh_masks(&self) {
        for (mask, computed) in self.masks.iter().zip(self.computed_masks()) {
            mask.store(computed.raw_repr(), Ordering::Relaxed);
        }
    }

    /// Looks up the usual keys anew, after slots were filled and masks made.
    pub(super) fn refresh_usual(&'static self) {
        for (keys, usual) in USUAL.into_iter().zip(&self.usual) {
            usual.store(self.looked_up(keys));
        }
        self.unfollowed.store(self.looked_up_unfollowed());
    }

    /// Whether what it has for the usual keys is what masks and table say.
    pub(super) fn has_usual(&'static self) -> bool {
        USUAL.into_iter().zip(&self.usual).all(|(keys, usual)| usual.is(self.looked_up(keys)))
            && self.unfollowed.is(self.looked_up_unfollowed())
    }

    fn looked_up(&'static self, keys: DispatchKeySet) -> (DispatchKeySet, Option<&'static Kernel>) {
        let keys = OperatorHandle(self).mask(keys);
        (keys, self.table[keys.table_index()].load())
    }

    fn looked_up_unfollowed(&'static self) -> (DispatchKeySet, Option<&'static Kernel>) {
        let (keys, first) = self.looked_up(USUAL[0]);
        let Some(passed) = first.and_then(Kernel::passed_by) else { return (keys, first) };
        let (below, kernel) = self.looked_up(keys & passed.below);
        match passed.marks {
            false => (below, kernel),
            true if kernel.is_some_and(Kernel::links_views) => (keys, kernel),
            true => (keys, first),
        }
    }

    pub(super) fn masks(&self) -> [DispatchKeySet; Backend::COUNT + 1] {
        std::array::from_fn(|number| {
            DispatchKeySet::from_raw_repr(self.masks[number].load(Ordering::Relaxed))
        })
    }

    /// What the masks should be.
    pub(super) fn computed_masks(&self) -> [DispatchKeySet; Backend::COUNT + 1] {
        let mut masks = [DispatchKeySet::FULL; Backend::COUNT + 1];
        for (index, slot) in self.table.iter().enumerate() {
            if !slot.load().is_some_and(Kernel::is_fallthrough) {
                continue;
            }
            let key = DispatchKey::from_table_index(index);
            match key.backend() {
                Some(backend) => {
                    let number = backend as usize;
                    masks[number] = masks[number].remove(key);
                }
                None => masks.iter_mut().for_each(|mask| *mask = mask.remove(key)),
            }
        }
        // A call without a backend finds the first backend's slot: see `DispatchKeySet::table_index`.
        masks[0] = masks[Backend::ALL[0] as usize];
        masks
    }
}

impl OperatorHandle {
    /// `namespace::name.overload`.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// The schema; `None` when there are kernels and no definition.
    pub fn schema(self) -> Option<&'static FunctionSchema> {
        self.0.schema.load()
    }

    /// Whether a call under this key finds a kernel, its own or another (`hasComputedKernelForDispatchKey`).
    pub fn has_kernel_for(self, key: DispatchKey) -> bool {
        key.table_index()
            .is_some_and(|index| self.0.slot(index).0.is_some_and(|kernel| !kernel.is_fallthrough()))
    }

    /// Why a call under this key finds what it finds.
    pub fn kernel_source(self, key: DispatchKey) -> KernelSource {
        key.table_index().map_or(KernelSource::Missing, |index| self.0.slot(index).1)
    }

    /// Calls it by its schema's arguments, in their order and all of them; they are replaced by the results.
    ///
    /// # Errors
    /// As [`Op::call`](super::Op::call).
    pub fn call_boxed(self, stack: &mut Stack) -> Result<()> {
        let mut keys = DispatchKeySet::EMPTY;
        let mut add = |tensor: &Tensor| keys = keys.union(tensor.key_set());
        stack.iter().for_each(|value| value.for_each_tensor(&mut add));
        self.call_boxed_for_keys(self.effective_keys(keys), stack)
    }

    /// Calls the kernel of the highest of `keys`, whatever the arguments and the thread say
    /// (`redispatchBoxed`). A kernel for `key` passes what it was given and
    /// [`full_after`](DispatchKeySet::full_after)`(key)` have in common.
    ///
    /// # Errors
    /// As [`call_boxed`](Self::call_boxed).
    pub fn redispatch_boxed(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        self.call_boxed_for_keys(self.mask(keys), stack)
    }

    /// As [`redispatch_boxed`](Self::redispatch_boxed), of keys less the highest.
    pub(super) fn call_below(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        match keys.highest_functionality() {
            Some(highest) => {
                let below = keys.minus(DispatchKeySet::of_functionalities(&[highest]));
                self.redispatch_boxed(below, stack)
            }
            None => Err(missing::error(self, keys)),
        }
    }

    fn call_boxed_for_keys(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let arguments = value::tensors(stack);
        self.kernel(keys)
            .and_then(|kernel| kernel.call_boxed(self, keys, stack))
            .map_err(|error| error.with_operator(self.name()).with_tensors(&arguments))
    }

    /// The keys that a call has of its arguments' and the thread's.
    #[inline]
    fn effective_keys(self, keys: DispatchKeySet) -> DispatchKeySet {
        self.mask(LocalDispatchKeySet::current().apply(keys))
    }

    /// The kernel of a call with arguments of `keys`, and the keys that it is called with.
    #[inline]
    pub(super) fn lead_call(self, keys: DispatchKeySet, is_followed: impl FnOnce() -> bool) -> Result<Led> {
        let keys = LocalDispatchKeySet::current().apply(keys);
        let usual = match keys {
            keys if keys == USUAL[0] && !is_followed() => self.0.unfollowed.load(),
            keys if keys == USUAL[0] => self.0.usual[0].load(),
            keys if keys == USUAL[2] => self.0.usual[2].load(),
            _ => None,
        };
        usual.map_or_else(|| self.lead(keys), Ok)
    }

    /// The keys with which a call of this operator, of `tensor` alone, is led to the kernel of this crate that makes a
    /// view, and nothing else. Who knows what view that would be may make it in place of the call. `None` where the call
    /// is led anywhere else.
    #[inline]
    pub(crate) fn keys_of_own_view(self, tensor: &Tensor) -> Option<DispatchKeySet> {
        let (keys, kernel) = self.lead_call(tensor.key_set(), || tensor.is_followed()).ok()?;
        kernel.links_views().then_some(keys)
    }

    /// Whether a call of this operator, of `tensor` alone, is led to the kernel of the host, and nothing else. Who knows
    /// what that does may do it in place of the call.
    #[inline]
    pub(crate) fn leads_to_host(self, tensor: &Tensor) -> bool {
        const HOST: usize = DispatchKeySet::of(&[DispatchKey::Cpu]).table_index();
        let of_host = self.0.table[HOST].load();
        let led = self.lead_call(tensor.key_set(), || tensor.is_followed());
        led.is_ok_and(|(_, kernel)| of_host.is_some_and(|of_host| std::ptr::eq(kernel, of_host)))
    }

    /// As [`lead_call`](Self::lead_call), of keys that count whatever the thread says.
    #[inline]
    pub(super) fn lead_redispatch(self, keys: DispatchKeySet) -> Result<Led> {
        let usual = if keys == USUAL[1] { self.0.usual[1].load() } else { None };
        usual.map_or_else(|| self.lead(keys), Ok)
    }

    #[inline(never)]
    fn lead(self, keys: DispatchKeySet) -> Result<Led> {
        let keys = self.mask(keys);
        self.kernel(keys).map(|kernel| (keys, kernel))
    }

    #[inline]
    fn mask(self, keys: DispatchKeySet) -> DispatchKeySet {
        let mask = self.0.masks[keys.highest_backend_number()].load(Ordering::Relaxed);
        keys & DispatchKeySet::from_raw_repr(mask)
    }

    #[inline]
    fn kernel(self, keys: DispatchKeySet) -> Result<&'static Kernel> {
        match self.0.table[keys.table_index()].load() {
            Some(kernel) => Ok(kernel),
            None => Err(missing::error(self, keys)),
        }
    }

    #[cold]
    pub(super) fn annotate(self, error: Error, for_each: &EachTensor<'_>) -> Error {
        let mut tensors = Vec::new();
        for_each(&mut |tensor| tensors.push(tensor.clone()));
        error.with_operator(self.name()).with_tensors(&tensors)
    }

    /// The arguments on the stack that are results too, in the order of the results.
    pub(super) fn written_results(self, stack: &Stack) -> Stack {
        match self.schema() {
            Some(schema) => written_results(schema).filter_map(|at| stack.get(at).cloned()).collect(),
            None => Vec::new(),
        }
    }
}

/// For each return that is a written argument, which argument it is.
fn written_results(schema: &FunctionSchema) -> impl Iterator<Item = usize> {
    let of = |alias: &Option<super::arg_type::AliasInfo>| {
        alias.as_ref().filter(|alias| alias.is_write).map(|alias| alias.before.clone())
    };
    schema.returns().iter().filter_map(move |result| {
        let sets = of(&result.alias)?;
        schema.arguments().iter().position(|argument| of(&argument.alias).as_ref() == Some(&sets))
    })
}

impl fmt::Debug for OperatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorHandle({})", self.name())
    }
}
