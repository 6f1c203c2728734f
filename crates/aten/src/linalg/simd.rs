//! [`Simd`]: the vectors that the microkernel counts with, one implementation for each instruction set.
//!
//! A value of an implementing type is the proof that the processor has the instructions: it is made only by
//! its `detect`, so everything but reading and writing memory is safe. All functions are inlined into one that
//! has the instructions enabled (the entry points in `microkernel`); outside of such a function they would be
//! correct and slow.

#![expect(unsafe_code, reason = "vector instructions, and loads and stores whose bounds the caller promises")]

/// Vectors of [`LANES`](Self::LANES) elements.
pub(crate) trait Simd: Copy {
    type Element: Copy;
    type Vector: Copy;
    /// Which of the first lanes take part.
    type Mask: Copy;
    const LANES: usize;

    /// The first `lanes` lanes, or all.
    fn mask(self, lanes: usize) -> Self::Mask;
    fn splat(self, value: Self::Element) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// The elements at `from` that the mask names, zero in the others.
    ///
    /// # Safety
    /// Those elements are readable.
    unsafe fn load(self, from: *const Self::Element, mask: Self::Mask) -> Self::Vector;

    /// Writes the lanes that the mask names.
    ///
    /// # Safety
    /// Those elements are writable.
    unsafe fn store(self, to: *mut Self::Element, value: Self::Vector, mask: Self::Mask);
}

/// An element that the microkernel can work on without any instruction set.
pub(crate) trait Ring: Copy + Send + Sync + PartialEq + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn ring_add(self, other: Self) -> Self;
    fn ring_mul(self, other: Self) -> Self;
}

macro_rules! rings {
    ($($element:ty, $zero:literal, $one:literal, $add:ident, $mul:ident;)*) => {$(
        impl Ring for $element {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            #[inline(always)]
            fn ring_add(self, other: Self) -> Self {
                self.$add(other)
            }

            #[inline(always)]
            fn ring_mul(self, other: Self) -> Self {
                self.$mul(other)
            }
        }
    )*};
}

use std::ops::{Add, Mul};

rings! {
    f32, 0.0, 1.0, add, mul;
    f64, 0.0, 1.0, add, mul;
    u8, 0, 1, wrapping_add, wrapping_mul;
    i8, 0, 1, wrapping_add, wrapping_mul;
    i16, 0, 1, wrapping_add, wrapping_mul;
    i32, 0, 1, wrapping_add, wrapping_mul;
    i64, 0, 1, wrapping_add, wrapping_mul;
}

/// Vectors that are arrays: for every element, and every processor.
#[derive(Clone, Copy)]
pub(crate) struct Portable<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: Ring> Simd for Portable<T> {
    type Element = T;
    type Vector = [T; 8];
    type Mask = usize;
    const LANES: usize = 8;

    #[inline(always)]
    fn mask(self, lanes: usize) -> usize {
        lanes.min(Self::LANES)
    }

    #[inline(always)]
    fn splat(self, value: T) -> [T; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn mul(self, a: [T; 8], b: [T; 8]) -> [T; 8] {
        std::array::from_fn(|lane| a[lane].ring_mul(b[lane]))
    }

    #[inline(always)]
    fn mul_add(self, a: [T; 8], b: [T; 8], c: [T; 8]) -> [T; 8] {
        std::array::from_fn(|lane| a[lane].ring_mul(b[lane]).ring_add(c[lane]))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const T, mask: usize) -> [T; 8] {
        if mask == Self::LANES {
            // SAFETY: all lanes are readable.
            return unsafe { from.cast::<[T; 8]>().read_unaligned() };
        }
        // SAFETY: the first `mask` elements are readable.
        let read = unsafe { std::slice::from_raw_parts(from, mask) };
        let mut vector = [T::ZERO; 8];
        vector[..mask].copy_from_slice(read);
        vector
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T, value: [T; 8], mask: usize) {
        // SAFETY: the first `mask` elements are writable, and `value` is not in that memory.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, mask) };
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::marker::PhantomData;

    use super::Simd;

    /// The proof that the processor has AVX-512 F.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512<T>(PhantomData<T>);

    /// The proof that the processor has AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2<T>(PhantomData<T>);

    impl<T> Avx512<T> {
        pub(crate) fn detect() -> Option<Self> {
            is_x86_feature_detected!("avx512f").then_some(Self(PhantomData))
        }
    }

    impl<T> Avx2<T> {
        pub(crate) fn detect() -> Option<Self> {
            let both = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            both.then_some(Self(PhantomData))
        }
    }

    macro_rules! avx512 {
        ($element:ty, $lanes:literal, $vector:ty, $mask:ty, $splat:ident, $mul:ident, $fma:ident, $load:ident, $store:ident) => {
            impl Simd for Avx512<$element> {
                type Element = $element;
                type Vector = $vector;
                type Mask = $mask;
                const LANES: usize = $lanes;

                #[inline(always)]
                fn mask(self, lanes: usize) -> $mask {
                    if lanes >= $lanes { <$mask>::MAX } else { (1 << lanes) - 1 }
                }

                #[inline(always)]
                fn splat(self, value: $element) -> $vector {
                    // SAFETY: `self` proves AVX-512 F.
                    unsafe { $splat(value) }
                }

                #[inline(always)]
                fn mul(self, a: $vector, b: $vector) -> $vector {
                    // SAFETY: `self` proves AVX-512 F.
                    unsafe { $mul(a, b) }
                }

                #[inline(always)]
                fn mul_add(self, a: $vector, b: $vector, c: $vector) -> $vector {
                    // SAFETY: `self` proves AVX-512 F.
                    unsafe { $fma(a, b, c) }
                }

                #[inline(always)]
                unsafe fn load(self, from: *const $element, mask: $mask) -> $vector {
                    // SAFETY: `self` proves AVX-512 F; masked lanes are not touched, the others are readable.
                    unsafe { $load(mask, from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $element, value: $vector, mask: $mask) {
                    // SAFETY: `self` proves AVX-512 F; masked lanes are not touched, the others are writable.
                    unsafe { $store(to, mask, value) };
                }
            }
        };
    }

    avx512! {
        f32, 16, __m512, u16,
        _mm512_set1_ps, _mm512_mul_ps, _mm512_fmadd_ps, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps
    }
    avx512! {
        f64, 8, __m512d, u8,
        _mm512_set1_pd, _mm512_mul_pd, _mm512_fmadd_pd, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd
    }

    macro_rules! avx2 {
        ($element:ty, $lanes:literal, $vector:ty, $bits:ty, $splat:ident, $mul:ident, $fma:ident, $load:ident, $store:ident) => {
            impl Simd for Avx2<$element> {
                type Element = $element;
                type Vector = $vector;
                type Mask = __m256i;
                const LANES: usize = $lanes;

                #[inline(always)]
                fn mask(self, lanes: usize) -> __m256i {
                    let bits: [$bits; $lanes] = std::array::from_fn(|lane| if lane < lanes { -1 } else { 0 });
                    // SAFETY: both are 32 bytes of plain bits.
                    unsafe { std::mem::transmute(bits) }
                }

                #[inline(always)]
                fn splat(self, value: $element) -> $vector {
                    // SAFETY: `self` proves AVX2.
                    unsafe { $splat(value) }
                }

                #[inline(always)]
                fn mul(self, a: $vector, b: $vector) -> $vector {
                    // SAFETY: `self` proves AVX2.
                    unsafe { $mul(a, b) }
                }

                #[inline(always)]
                fn mul_add(self, a: $vector, b: $vector, c: $vector) -> $vector {
                    // SAFETY: `self` proves FMA.
                    unsafe { $fma(a, b, c) }
                }

                #[inline(always)]
                unsafe fn load(self, from: *const $element, mask: __m256i) -> $vector {
                    // SAFETY: `self` proves AVX2; masked lanes are not touched, the others are readable.
                    unsafe { $load(from, mask) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $element, value: $vector, mask: __m256i) {
                    // SAFETY: `self` proves AVX2; masked lanes are not touched, the others are writable.
                    unsafe { $store(to, mask, value) };
                }
            }
        };
    }

    avx2! {
        f32, 8, __m256, i32,
        _mm256_set1_ps, _mm256_mul_ps, _mm256_fmadd_ps, _mm256_maskload_ps, _mm256_maskstore_ps
    }
    avx2! {
        f64, 4, __m256d, i64,
        _mm256_set1_pd, _mm256_mul_pd, _mm256_fmadd_pd, _mm256_maskload_pd, _mm256_maskstore_pd
    }
}
