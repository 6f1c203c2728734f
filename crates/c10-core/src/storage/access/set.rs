#![expect(
    unsafe_code,
    reason = "lends the bytes of storages that the set has locked, by how each occurs in it"
)]
//! [`Access::acquire`] and [`AccessSet`]: access to several storages at once.

use std::ptr;
use std::sync::Arc;

use super::few::{Few, INLINE};
use super::held::{Held, may_wait};
use super::lock::{Mode, Wait};
use super::{HOST_READ, HOST_WRITE, PendingUse, clear, refuse, view};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::storage_impl::{PENDING_READ, PENDING_WRITE, StorageImpl};

/// The way to the bytes of several storages.
#[derive(Debug)]
pub enum Access {}

/// How [`Access::acquire_with`] takes access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessOptions {
    /// Adds one to the version of each storage that is written. Off for the fresh outputs of an operator, and
    /// where the caller counts versions elsewhere.
    pub bump_version: bool,
    /// The host will touch the bytes: pending uses by devices are waited for. Off for work that is enqueued on
    /// a device behind them; the set then gives addresses and no slices.
    pub host: bool,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self { bump_version: true, host: true }
    }
}

/// Access to several storages, each locked once, in its strongest mode, until the set is dropped.
///
/// Operands are numbered as they were given to [`Access::acquire`]. A storage may be several of them.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_core::storage::AccessSet<'static>>();
/// ```
#[must_use = "access ends as soon as the set is dropped"]
#[derive(Debug)]
pub struct AccessSet<'a> {
    /// In the caller's order, reads first.
    operands: Few<Operand<'a>>,
    reads: usize,
    host: bool,
    _held: Held,
    /// The handles that keep the operands, if the set borrows nobody's. Last: the end of one may be that of its
    /// memory, when this thread has given all back.
    _handles: Vec<Storage>,
}

/// A storage as one of the set's operands.
#[derive(Clone, Copy, Debug)]
struct Operand<'a> {
    storage: &'a StorageImpl,
    /// The strongest in which the set has the storage: its lock's.
    mode: Mode,
    /// This operand stands for the lock: it is the first one of its storage.
    has_lock: bool,
    /// The storage is no other operand.
    is_sole: bool,
}

impl Access {
    /// Locks storages to read and to write, as the host.
    ///
    /// Each is locked once: exclusively if it is among `writes`. Copy-on-write layers of those are
    /// materialised before. The thread waits, unless it holds a guard already. Adds one to the version of each
    /// storage that is written.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly) for a write to read-only memory, and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for released memory, both before any
    /// effect; [`ErrorKind::Busy`](crate::ErrorKind::Busy) where the thread may not wait; what the allocator
    /// or a device reports. Nothing is locked then.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let (a, b) = (Storage::from_bytes([1, 2].into())?, Storage::from_bytes([0, 0].into())?);
    /// let mut set = Access::acquire(&[&a], &[&b])?;
    /// let ([from], [to]) = set.slices()?;
    /// to.copy_from_slice(from);
    /// # drop(set);
    /// # assert_eq!(b.read()?.bytes()?, [1, 2]);
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    pub fn acquire<'a>(reads: &[&'a Storage], writes: &[&'a Storage]) -> Result<AccessSet<'a>> {
        Self::acquire_with(reads, writes, AccessOptions::default())
    }

    /// [`acquire`](Self::acquire), with options.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_with<'a>(
        reads: &[&'a Storage],
        writes: &[&'a Storage],
        options: AccessOptions,
    ) -> Result<AccessSet<'a>> {
        let mut operands = Few::with_capacity(reads.len() + writes.len());
        reads.iter().for_each(|storage| add(&mut operands, storage.as_impl(), Mode::Shared));
        writes.iter().for_each(|storage| add(&mut operands, storage.as_impl(), Mode::Exclusive));
        take(operands, reads.len(), options, Vec::new())
    }

    /// [`acquire_with`](Self::acquire_with), of the first `reads` handles to read and the rest to write, which the
    /// set keeps.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when
    /// there are fewer handles.
    pub fn acquire_owned(
        handles: Vec<Storage>,
        reads: usize,
        options: AccessOptions,
    ) -> Result<AccessSet<'static>> {
        if reads > handles.len() {
            return Err(no_operand("read", reads, handles.len()));
        }
        let mut operands = Few::with_capacity(handles.len());
        for (i, handle) in handles.iter().enumerate() {
            // SAFETY: the handle keeps it in its place, and the set keeps the handle until its locks are given
            // back. No method of the set lends what outlives the set.
            let storage: &'static StorageImpl = unsafe { &*ptr::from_ref(handle.as_impl()) };
            add(&mut operands, storage, if i < reads { Mode::Shared } else { Mode::Exclusive });
        }
        take(operands, reads, options, handles)
    }
}

#[inline]
fn take(
    mut operands: Few<Operand<'_>>,
    reads: usize,
    options: AccessOptions,
    handles: Vec<Storage>,
) -> Result<AccessSet<'_>> {
    if operands.len() > INLINE {
        merge(&mut operands);
    }
    if !try_all(&operands, options.host) {
        lock_all(&operands, options.host)?;
    }
    if options.bump_version {
        let written = locks(&operands).filter(|operand| operand.mode == Mode::Exclusive);
        written.for_each(|operand| operand.storage.bump_version());
    }
    Ok(AccessSet { operands, reads, host: options.host, _held: Held::new(), _handles: handles })
}

/// Adds an operand. Of few, those of one storage find each other here; of many, [`merge`] does it.
#[inline]
fn add<'a>(operands: &mut Few<Operand<'a>>, storage: &'a StorageImpl, mode: Mode) {
    let mut new = Operand { storage, mode, has_lock: true, is_sole: true };
    if operands.len() < INLINE {
        for old in operands.iter_mut().filter(|old| ptr::eq(old.storage, storage)) {
            unite(old, &mut new);
        }
    }
    operands.push(new);
}

/// Makes an operand and a later one of the same storage agree.
fn unite(first: &mut Operand<'_>, later: &mut Operand<'_>) {
    let mode = first.mode.max(later.mode);
    (first.mode, later.mode) = (mode, mode);
    (first.is_sole, later.is_sole) = (false, false);
    later.has_lock = false;
}

/// Unites the operands of each storage, all of them.
#[cold]
fn merge(operands: &mut Few<Operand<'_>>) {
    let alone = |operand: &mut Operand<'_>| (operand.has_lock, operand.is_sole) = (true, true);
    operands.iter_mut().for_each(alone);
    let order = by_address(operands);
    for same in order.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let mode = same.iter().filter_map(|(_, i)| operands.get(*i)).map(|operand| operand.mode).max();
        for (n, (_, i)) in same.iter().enumerate() {
            if let (Some(operand), Some(mode)) = (operands.get_mut(*i), mode) {
                (operand.mode, operand.has_lock, operand.is_sole) = (mode, n == 0, false);
            }
        }
    }
}

/// The operands, each by its storage's address and its place.
fn by_address(operands: &Few<Operand<'_>>) -> Vec<(usize, usize)> {
    let address = |(i, operand): (usize, &Operand<'_>)| (ptr::from_ref(operand.storage).addr(), i);
    let mut order: Vec<_> = operands.iter().enumerate().map(address).collect();
    order.sort_unstable();
    order
}

#[inline]
fn locks<'s, 'a: 's>(operands: &'s Few<Operand<'a>>) -> impl Iterator<Item = &'s Operand<'a>> {
    operands.iter().filter(|operand| operand.has_lock)
}

/// Takes all the locks, if none has to be waited for and nothing at all is in the way; or none of them. Who
/// never waits may take them in any order.
#[inline]
fn try_all(operands: &Few<Operand<'_>>, host: bool) -> bool {
    // Of many uses by a device, those that are done are to be removed.
    let others = if host { 0 } else { PENDING_READ | PENDING_WRITE };
    for (i, operand) in operands.iter().enumerate().filter(|(_, operand)| operand.has_lock) {
        let taken = operand.storage.access.try_acquire(operand.mode);
        if !taken || operand.storage.has(operand.obstacles(host) | others) {
            let after = i + usize::from(taken);
            operands.iter().take(after).filter(|operand| operand.has_lock).for_each(Operand::release);
            return false;
        }
    }
    true
}

/// Takes all the locks, in the order of their addresses, with no obstacle there; or none of them.
#[cold]
fn lock_all(operands: &Few<Operand<'_>>, host: bool) -> Result<()> {
    let wait = may_wait();
    let locks: Vec<_> = by_address(operands)
        .into_iter()
        .filter_map(|(_, i)| operands.get(i))
        .filter(|operand| operand.has_lock)
        .collect();
    loop {
        for lock in &locks {
            refuse(lock.storage, lock.obstacles(host))?;
        }
        for lock in &locks {
            clear(lock.storage, lock.mode, lock.obstacles(host), wait)?;
            if !host && lock.storage.has(PENDING_READ | PENDING_WRITE) {
                lock.storage.prune_pending();
            }
        }
        take_in_order(&locks, wait)?;
        if locks.iter().all(|lock| !lock.storage.has(lock.obstacles(host))) {
            return Ok(());
        }
        locks.iter().for_each(Operand::release);
    }
}

fn take_in_order(locks: &[Operand<'_>], wait: Wait) -> Result<()> {
    for (taken, lock) in locks.iter().enumerate() {
        if let Err(error) = lock.storage.access.acquire(lock.mode, wait) {
            locks.iter().take(taken).for_each(Operand::release);
            return Err(error);
        }
    }
    Ok(())
}

impl Operand<'_> {
    #[inline]
    fn obstacles(&self, host: bool) -> u32 {
        let all = if self.mode == Mode::Exclusive { HOST_WRITE } else { HOST_READ };
        if host { all } else { all & !(PENDING_READ | PENDING_WRITE) }
    }

    #[inline]
    fn release(&self) {
        self.storage.access.release(self.mode);
    }
}

impl AccessSet<'_> {
    /// The bytes of all operands, of `R` reads and `W` writes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there are not `R` reads and `W`
    /// writes, or a storage that is written is more than one operand;
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the host cannot reach the bytes.
    #[expect(clippy::type_complexity, reason = "two arrays, to be taken apart at once")]
    pub fn slices<const R: usize, const W: usize>(&mut self) -> Result<([&[u8]; R], [&mut [u8]; W])> {
        let writes = self.operands.len() - self.reads;
        if (self.reads, writes) != (R, W) {
            return Err(Error::invalid_argument(format!(
                "the set has {} reads and {writes} writes, and not {R} and {W}",
                self.reads
            )));
        }
        let mut read: [&[u8]; R] = [&[]; R];
        for (i, slot) in read.iter_mut().enumerate() {
            *slot = self.shared(self.operand(i)?)?;
        }
        let mut written: [&mut [u8]; W] = std::array::from_fn(|_| &mut [][..]);
        for (i, slot) in written.iter_mut().enumerate() {
            // SAFETY: the set is borrowed exclusively for as long as the slices, and each storage that
            // `exclusive` accepts is one operand only, so that no two of them are the same.
            *slot = unsafe { self.exclusive(self.operand(R + i)?) }?;
        }
        Ok((read, written))
    }

    /// The bytes of the read operand `i`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand or the
    /// set also writes its storage; [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the
    /// host cannot reach the bytes.
    pub fn read(&self, i: usize) -> Result<&[u8]> {
        self.shared(self.read_operand(i)?)
    }

    /// The bytes of the write operand `i`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand or its
    /// storage is another operand too; [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when
    /// the host cannot reach the bytes.
    pub fn write(&mut self, i: usize) -> Result<&mut [u8]> {
        let operand = self.write_operand(i)?;
        // SAFETY: the set is borrowed exclusively for as long as the slice.
        unsafe { self.exclusive(operand) }
    }

    /// The address of the read operand `i`, and how many bytes there are. If the set also writes its storage
    /// they may change under the reader's feet by the caller's own hand.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand.
    pub fn read_ptr(&self, i: usize) -> Result<(*const u8, usize)> {
        self.read_operand(i).map(|operand| (operand.storage.address().cast_const(), operand.storage.size()))
    }

    /// The address of the write operand `i`, for who answers for how it is used beside what else is lent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand.
    pub fn write_address(&self, i: usize) -> Result<*mut u8> {
        self.write_operand(i).map(|operand| operand.storage.address())
    }

    /// Whether the set was acquired for the host.
    pub fn is_for_host(&self) -> bool {
        self.host
    }

    /// The address of the write operand `i`, and how many bytes there are.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand.
    pub fn write_ptr(&mut self, i: usize) -> Result<(*mut u8, usize)> {
        self.write_operand(i).map(|operand| (operand.storage.address(), operand.storage.size()))
    }

    /// Says that a device still reads the read operand `i` after the set is dropped. It returns at once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand, or the
    /// set was acquired for the host, which may have slices of the bytes.
    pub fn defer_read(&self, i: usize, work: Arc<dyn PendingUse>) -> Result<()> {
        self.device_access()?;
        self.read_operand(i)?.storage.defer(Mode::Shared, work);
        Ok(())
    }

    /// Says that a device still writes the write operand `i` after the set is dropped. It returns at once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand, or the
    /// set was acquired for the host, which may have slices of the bytes.
    pub fn defer_write(&self, i: usize, work: Arc<dyn PendingUse>) -> Result<()> {
        self.device_access()?;
        self.write_operand(i)?.storage.defer(Mode::Exclusive, work);
        Ok(())
    }

    fn device_access(&self) -> Result<()> {
        if self.host {
            return Err(Error::invalid_argument("the access was acquired for the host and not for a device"));
        }
        Ok(())
    }

    fn read_operand(&self, i: usize) -> Result<Operand<'_>> {
        if i >= self.reads {
            return Err(no_operand("read", i, self.reads));
        }
        self.operand(i)
    }

    fn write_operand(&self, i: usize) -> Result<Operand<'_>> {
        let writes = self.operands.len() - self.reads;
        if i >= writes {
            return Err(no_operand("write", i, writes));
        }
        self.operand(self.reads + i)
    }

    fn operand(&self, i: usize) -> Result<Operand<'_>> {
        self.operands.get(i).ok_or_else(|| no_operand("", i, self.operands.len()))
    }

    fn shared<'s>(&'s self, operand: Operand<'s>) -> Result<&'s [u8]> {
        self.host_access()?;
        if operand.mode != Mode::Shared {
            return Err(Error::invalid_argument("a storage that is read is written by the same call"));
        }
        // SAFETY: the set has shared access with `HOST_READ`, outlives the slice, and gives out no `&mut` to a
        // storage that it has only shared.
        unsafe { view::shared(operand.storage) }
    }

    /// # Safety
    /// For as long as the slice lives, the set gives out no other of the same storage.
    unsafe fn exclusive<'s>(&'s self, operand: Operand<'s>) -> Result<&'s mut [u8]> {
        self.host_access()?;
        if !operand.is_sole {
            return Err(Error::invalid_argument(
                "a storage that is written is another operand of the same call",
            ));
        }
        assert!(operand.mode == Mode::Exclusive, "a write operand is locked exclusively");
        // SAFETY: the set has exclusive access with `HOST_WRITE`, and the caller answers for the rest.
        unsafe { view::exclusive(operand.storage) }
    }

    fn host_access(&self) -> Result<()> {
        if !self.host {
            return Err(Error::invalid_argument("the access was acquired for a device and not for the host"));
        }
        Ok(())
    }
}

impl Drop for AccessSet<'_> {
    #[inline]
    fn drop(&mut self) {
        locks(&self.operands).for_each(Operand::release);
    }
}

#[cold]
fn no_operand(kind: &str, i: usize, count: usize) -> Error {
    Error::invalid_argument(format!("there is no {kind} operand {i}: the set has {count}"))
}
