#![expect(unsafe_code, reason = "the pointers that C programs pass: the only code that follows them")]
//! Pointers as they come from a C program: for results, for arguments, to texts.
//!
//! Invariant: a value of these types comes from a caller of the C interface, who promises what CUDA asks: that it is
//! null, or that what it points to is valid for what the called function documents until the function returns. No
//! other value of them is made.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::slice;

use super::{Code, Outcome};

/// Plain data, of which every bit pattern is a value.
///
/// # Safety
/// All of its bits may be anything.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(
            // SAFETY: numbers, and structs of numbers with C's layout.
            unsafe impl Plain for $type {}
        )*
    };
}
plain!(u8, i32, u32, u64, usize, super::Handle, OutAny);
plain!(super::layout::MemLocation, super::layout::MemAllocationProp, super::layout::MemAccessDesc);
plain!(super::layout::LaunchConfigC);

/// Where a C program wants a result, or an array of them. What it points to may be read first, too.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A result that nobody wants.
    pub(crate) const NOT_WANTED: Self = Self(std::ptr::null_mut());

    /// Fails where a result has no place to go.
    pub(crate) const fn check(&self) -> Outcome {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    pub(crate) const fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes a result.
    pub(crate) fn put(&self, value: T) -> Outcome {
        self.check()?;
        self.put_if_wanted(value);
        Ok(())
    }

    /// Writes a result, unless the program does not want it.
    pub(crate) fn put_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, so the module's invariant says that it can be written.
            unsafe { self.0.write(value) }
        }
    }
}

impl<T: Plain> Out<T> {
    /// What stands there now.
    pub(crate) fn read(&self) -> Outcome<T> {
        self.check()?;
        // SAFETY: it is not null, so the module's invariant says that it can be read; any bits are a value.
        Ok(unsafe { self.0.read() })
    }

    /// Writes as many results as there are; the program has room for them.
    pub(crate) fn put_all(&self, values: &[T]) -> Outcome {
        if values.is_empty() {
            return Ok(());
        }
        self.check()?;
        // SAFETY: the program says that there is room for so many.
        let place = unsafe { slice::from_raw_parts_mut(self.0, values.len()) };
        place.copy_from_slice(values);
        Ok(())
    }
}

/// Where a C program wants a result whose type another argument says.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct OutAny(*mut c_void);

impl OutAny {
    pub(crate) const fn of<T>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

/// An argument that a C program passes by address, or an array of them.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Plain> In<T> {
    /// An argument that is not there.
    pub(crate) const ABSENT: Self = Self(std::ptr::null());

    pub(crate) const fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn read(&self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, so the module's invariant says that it can be read; any bits are a value.
        Ok(unsafe { self.0.read() })
    }

    pub(crate) fn read_all(&self, count: usize) -> Outcome<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, and the program says that there are so many.
        Ok(unsafe { slice::from_raw_parts(self.0, count) }.to_vec())
    }
}

/// A text of a C program.
#[repr(transparent)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// The text; CUDA's names are ASCII.
    pub(crate) fn to_str(&self) -> Outcome<&'a str> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: it is not null, so the module's invariant says that it is a text that ends in a zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Code::INVALID_VALUE)
    }
}

/// The bytes of memory that a C program passes, without a length of its own: a text, or the head of a known format.
pub(crate) fn bytes_until_zero<'a>(at: In<u8>) -> Outcome<&'a [u8]> {
    if at.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: it is not null; what CUDA takes here is an image, and the caller has looked at its head, which says
    // that it is a text that ends in a zero.
    Ok(unsafe { CStr::from_ptr(at.0.cast()) }.to_bytes())
}

/// Copies `bytes` bytes of the program's memory at an address that the program passed.
pub(crate) fn bytes_at(address: u64, bytes: usize) -> Outcome<Vec<u8>> {
    In::<u8>(std::ptr::with_exposed_provenance(address as usize)).read_all(bytes)
}
