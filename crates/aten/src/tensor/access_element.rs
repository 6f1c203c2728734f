#![expect(unsafe_code, reason = "declares of which bytes the values of a type are, and reads them")]
//! [`AccessElement`]: the Rust types that elements can be lent as.

use c10_core::{Complex, Element, F8E4M3Fn, F8E5M2, bf16, f16};

/// A type of elements that can be read and written where they are.
///
/// # Safety
/// [`is_valid`](Self::is_valid) accepts no bytes but those of values; `load` reads `size_of::<Self>()` bytes, of
/// any values; and there is no padding.
pub unsafe trait AccessElement: Element {
    /// Whether bytes, of which there are as many as some number of elements has, are values of the type.
    fn is_valid(bytes: &[u8]) -> bool;

    /// The element at an address, which need not be aligned.
    ///
    /// # Safety
    /// `from` is valid for reads of `size_of::<Self>()` bytes.
    unsafe fn load(from: *const u8) -> Self;
}

macro_rules! any_bytes {
    ($($element:ty),*) => {$(
        // SAFETY: integers and floats of any bits, or pairs of them.
        unsafe impl AccessElement for $element {
            #[inline]
            fn is_valid(_bytes: &[u8]) -> bool {
                true
            }

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
        }
    )*};
}
any_bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64);
any_bytes!(Complex<f16>, Complex<bf16>, Complex<f32>, Complex<f64>, F8E4M3Fn, F8E5M2);

// SAFETY: 0 and 1 are the `bool`s; any other byte is read as true.
unsafe impl AccessElement for bool {
    fn is_valid(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte <= 1)
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's.
        (unsafe { from.read() }) != 0
    }
}
