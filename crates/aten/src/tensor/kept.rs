//! Tensors of few elements that have ended and are kept by their thread, each with its storage, for the next results of
//! operators: see Note \[Kept whole\] in `c10-core/src/storage/kept.rs`.
//!
//! - K1 a tensor in the list has its only handle there. Its storage rests, its sizes and strides are inline, and it has
//!   nothing but its geometry; in the place of the tensor that a view is of stands the next one of the list.

use std::cell::Cell;
use std::sync::Once;

use c10_core::Storage;
use c10_core::allocator::HostAllocator;
use c10_core::shared::{Keep, Shared};

use super::Tensor;
use super::tensor_impl::TensorImpl;

/// How many a thread keeps: the results along a chain end together, and those of the next one follow.
const KEPT: usize = 1024;

struct List {
    first: Cell<Option<Tensor>>,
    len: Cell<usize>,
}

/// Whether the allocator knows of the lists.
static IS_KNOWN: Once = Once::new();

thread_local! {
    static LIST: List = const { List { first: Cell::new(None), len: Cell::new(0) } };
}

/// A tensor of the host of so many bytes, if one is kept. What it is besides is what `begin` makes of it.
#[inline(always)]
pub(super) fn take(bytes: usize, begin: impl FnOnce(&mut TensorImpl)) -> Option<Tensor> {
    if !Storage::may_rest(bytes) {
        return None;
    }
    LIST.try_with(|list| list.take(bytes, begin)).ok().flatten()
}

impl Keep for TensorImpl {
    #[inline]
    fn may_be_kept(&self) -> bool {
        self.has_storage_alone()
    }

    #[inline(never)]
    fn keep(mut last: Shared<Self>) {
        let Some(tensor) = Shared::get_mut(&mut last) else { return };
        if !tensor.rest() {
            return;
        }
        // It may end others, and so ends when this tensor is put away.
        let _made_by = tensor.forget_made_by();
        // Where the thread is at its end, or has enough of them, the tensor ends.
        let _ = LIST.try_with(|list| list.put(Tensor(last.into())));
    }
}

impl List {
    #[inline(always)]
    fn take(&self, bytes: usize, begin: impl FnOnce(&mut TensorImpl)) -> Option<Tensor> {
        let mut first = self.first.take()?;
        let tensor = Shared::get_mut(&mut first.0)?;
        // What was there was just taken.
        std::mem::forget(self.first.replace(tensor.view_base.take()));
        self.len.set(self.len.get() - 1);
        if !tensor.wake(bytes) {
            return None;
        }
        begin(tensor);
        Some(first)
    }

    #[inline]
    fn put(&self, mut last: Tensor) {
        match self.len.get() {
            0 => IS_KNOWN.call_once(|| HostAllocator::empty_with(empty)),
            KEPT.. => return,
            _ => {}
        }
        let Some(tensor) = Shared::get_mut(&mut last.0) else { return };
        // There is none in either place that is written.
        std::mem::forget(std::mem::replace(&mut tensor.view_base, self.first.take()));
        std::mem::forget(self.first.replace(Some(last)));
        self.len.set(self.len.get() + 1);
    }

    #[cold]
    fn empty(&self) {
        let mut next = self.first.take();
        self.len.set(0);
        while let Some(mut first) = next {
            next = Shared::get_mut(&mut first.0).and_then(|tensor| tensor.view_base.take());
        }
    }
}

/// Ends those that this thread keeps.
fn empty() {
    // Where the thread is at its end there are none left.
    let _ = LIST.try_with(List::empty);
}

impl Drop for List {
    fn drop(&mut self) {
        self.empty();
    }
}
