#![expect(
    unsafe_code,
    reason = "owns boxed nodes through one atomic pointer; taking all of them is the only way out"
)]
#![cfg_attr(not(loom), allow(unreachable_pub, reason = "public to the loom tests alone"))]
//! [`HandOver`]: a lock-free stack of boxed nodes that any thread pushes to and any thread takes whole.
//!
//! It is one atomic pointer, to a list of nodes linked through themselves. A push is one compare-and-exchange,
//! and allocates nothing. Nothing is ever taken but everything, by one swap, so that no node is read by a
//! thread that does not own it, and the ABA problem of lock-free stacks has no place to occur.
//!
//! It can be *closed*: the pointer itself then says so. A push is either before the closing, and the closer
//! takes the node, or after it, and the pusher gets it back; none is lost between the two.

use std::marker::PhantomData;
use std::ptr;

use crate::sync::atomic::{AtomicPtr, Ordering};

/// A value that can be pushed, in a box of its own.
#[derive(Debug)]
pub struct Node<T> {
    /// The value.
    pub value: T,
    next: *mut Node<T>,
}

impl<T> Node<T> {
    /// A node that is in no stack.
    pub fn new(value: T) -> Self {
        Self { value, next: ptr::null_mut() }
    }
}

// SAFETY: `next` is used by the one owner of the node alone.
unsafe impl<T: Send> Send for Node<T> {}

/// The stack.
#[derive(Debug)]
pub struct HandOver<T> {
    /// Null, the newest node, or [`closed`](Self::closed).
    newest: AtomicPtr<Node<T>>,
    owned: PhantomData<Box<Node<T>>>,
}

// SAFETY: nodes pass from thread to thread whole, never shared.
unsafe impl<T: Send> Send for HandOver<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for HandOver<T> {}

impl<T> HandOver<T> {
    /// An empty, open stack.
    pub fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    /// Puts a node on top.
    ///
    /// # Errors
    /// The node itself, when the stack is closed.
    pub fn push(&self, node: Box<Node<T>>) -> Result<(), Box<Node<T>>> {
        let node = Box::into_raw(node);
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            if ptr::eq(newest, Self::closed()) {
                // SAFETY: the box was made raw above, and nobody else has seen it.
                return Err(unsafe { Box::from_raw(node) });
            }
            // SAFETY: as above, the node still is this thread's alone.
            unsafe { (*node).next = newest };
            match self.newest.compare_exchange_weak(newest, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => newest = other,
            }
        }
    }

    /// Takes all nodes, newest first. The stack stays open, or closed.
    pub fn take_all(&self) -> Taken<T> {
        let mut newest = self.newest.load(Ordering::Relaxed);
        while !newest.is_null() && !ptr::eq(newest, Self::closed()) {
            let empty = ptr::null_mut();
            match self.newest.compare_exchange_weak(newest, empty, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Taken { next: newest, owned: PhantomData },
                Err(other) => newest = other,
            }
        }
        Taken::default()
    }

    /// Takes all nodes and gives back every later one to its pusher.
    pub fn close(&self) -> Taken<T> {
        let newest = self.newest.swap(Self::closed(), Ordering::Acquire);
        let next = if ptr::eq(newest, Self::closed()) { ptr::null_mut() } else { newest };
        Taken { next, owned: PhantomData }
    }

    /// An address that no node has.
    fn closed() -> *mut Node<T> {
        ptr::without_provenance_mut(1)
    }
}

impl<T> Default for HandOver<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for HandOver<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// What was taken: an iterator over the nodes, which drops the rest at its end.
#[derive(Debug)]
pub struct Taken<T> {
    next: *mut Node<T>,
    owned: PhantomData<Box<Node<T>>>,
}

// SAFETY: it owns its nodes alone, as boxes.
unsafe impl<T: Send> Send for Taken<T> {}

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Self { next: ptr::null_mut(), owned: PhantomData }
    }
}

impl<T> Iterator for Taken<T> {
    type Item = Box<Node<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: every node in the list came from a box, and left the stack with this list alone.
        let node = unsafe { Box::from_raw(self.next) };
        self.next = node.next;
        Some(node)
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
