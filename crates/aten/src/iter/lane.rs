#![expect(unsafe_code, reason = "reads and writes a row of elements by pointer and stride")]
//! [`Lane`]: a type that loops compute in, and how rows of elements of a dtype become slices of it.
//!
//! A loop over blocks sees slices alone. A row that is contiguous, aligned and of the lane's own type is lent
//! as it lies; any other is gathered into a buffer, block by block, and converted on the way: strides, single
//! numbers, the narrow floats that are computed as `f32`, and the bytes of `bool`s, are all met here once,
//! rather than in each loop.

use std::mem::MaybeUninit;

use c10_core::{Complex, F8E4M3Fn, F8E5M2, ScalarType, bf16, f16};

use super::loops::Elem;
use super::run::Further;

/// How many elements a buffer holds.
pub(super) const BLOCK: usize = 256;

/// A buffer of one operand.
pub(super) type Buffer<C> = [MaybeUninit<C>; BLOCK];

/// How elements of one dtype in memory are read and written as a `C`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format<C> {
    /// In bytes.
    size: usize,
    /// Whether the memory may be seen as a slice of `C`.
    plain: bool,
    /// # Safety
    /// The pointer, moved by the stride up to the slice's length less one, is valid for reads of `size` bytes.
    gather: unsafe fn(*const u8, isize, &mut [MaybeUninit<C>]),
    /// # Safety
    /// As for `gather`, for writes.
    scatter: unsafe fn(&[C], *mut u8, isize),
}

/// A type that loops compute in.
pub(crate) trait Lane: Elem {
    /// Whether memory of this type's own dtype may be seen as a slice of it.
    const PLAIN: bool;

    /// How elements of `dtype` are read and written, if this is the type to compute them in.
    fn format(dtype: ScalarType) -> Option<Format<Self>>;
}

/// An element that is computed as a `C`.
trait ComputedAs<C>: Elem {
    fn widened(self) -> C;
    fn narrowed(value: C) -> Self;
}

impl<T: Elem> ComputedAs<T> for T {
    #[inline(always)]
    fn widened(self) -> T {
        self
    }

    #[inline(always)]
    fn narrowed(value: T) -> Self {
        value
    }
}

macro_rules! computed_as {
    ($($narrow:ty as $lane:ty: $widened:expr, $narrowed:expr;)*) => {$(
        impl ComputedAs<$lane> for $narrow {
            #[inline(always)]
            fn widened(self) -> $lane {
                let convert: fn($narrow) -> $lane = $widened;
                convert(self)
            }

            #[inline(always)]
            fn narrowed(value: $lane) -> Self {
                let convert: fn($lane) -> $narrow = $narrowed;
                convert(value)
            }
        }
    )*};
}
computed_as! {
    f16 as f32: f16::to_f32, f16::from_f32;
    bf16 as f32: bf16::to_f32, bf16::from_f32;
    F8E4M3Fn as f32: F8E4M3Fn::to_f32, F8E4M3Fn::from_f32;
    F8E5M2 as f32: F8E5M2::to_f32, F8E5M2::from_f32;
    Complex<f16> as Complex<f32>: |z| z.map(f32::from), |z| z.map(f16::from_f32);
    Complex<bf16> as Complex<f32>: |z| z.map(f32::from), |z| z.map(bf16::from_f32);
}

impl<C: Elem> Format<C> {
    #[inline]
    fn of<S: ComputedAs<C>>(plain: bool) -> Self {
        Self { size: size_of::<S>(), plain, gather: gather::<S, C>, scatter: scatter::<S, C> }
    }
}

/// # Safety
/// See [`Format::gather`].
unsafe fn gather<S: ComputedAs<C>, C>(from: *const u8, stride: isize, to: &mut [MaybeUninit<C>]) {
    let at = |i: usize, stride: isize| {
        // SAFETY: the caller's.
        unsafe { S::load(from.wrapping_offset(i as isize * stride)) }.widened()
    };
    if stride == 0 && !to.is_empty() {
        let value = at(0, 0);
        let narrow = S::narrowed(value);
        to.iter_mut().for_each(|to| _ = to.write(narrow.widened()));
    } else if stride == size_of::<S>() as isize {
        to.iter_mut().enumerate().for_each(|(i, to)| _ = to.write(at(i, size_of::<S>() as isize)));
    } else {
        to.iter_mut().enumerate().for_each(|(i, to)| _ = to.write(at(i, stride)));
    }
}

/// # Safety
/// See [`Format::scatter`].
unsafe fn scatter<S: ComputedAs<C>, C: Copy>(from: &[C], to: *mut u8, stride: isize) {
    let put = |i: usize, value: C, stride: isize| {
        // SAFETY: the caller's.
        unsafe { S::narrowed(value).store(to.wrapping_offset(i as isize * stride)) };
    };
    if stride == size_of::<S>() as isize {
        from.iter().enumerate().for_each(|(i, &value)| put(i, value, size_of::<S>() as isize));
    } else {
        from.iter().enumerate().for_each(|(i, &value)| put(i, value, stride));
    }
}

macro_rules! lanes {
    ($($lane:ty, plain: $plain:literal $(, $narrow:ty)*;)*) => {$(
        impl Lane for $lane {
            const PLAIN: bool = $plain;

            #[inline]
            fn format(dtype: ScalarType) -> Option<Format<Self>> {
                let own = <Self as c10_core::Element>::SCALAR_TYPE;
                if dtype == own {
                    return Some(Format::of::<Self>($plain));
                }
                $(
                    if dtype == <$narrow as c10_core::Element>::SCALAR_TYPE {
                        return Some(Format::of::<$narrow>(false));
                    }
                )*
                None
            }
        }
    )*};
}
lanes! {
    bool, plain: false;
    u8, plain: true;
    i8, plain: true;
    u16, plain: true;
    i16, plain: true;
    u32, plain: true;
    i32, plain: true;
    u64, plain: true;
    i64, plain: true;
    f32, plain: true, f16, bf16, F8E4M3Fn, F8E5M2;
    f64, plain: true;
    Complex<f32>, plain: true, Complex<f16>, Complex<bf16>;
    Complex<f64>, plain: true;
}

/// Whether a row of elements of a plain lane's own dtype may be lent whole, as it lies.
#[inline(always)]
pub(super) fn is_direct<C: Lane>(pointer: *mut u8, stride: i64, n: i64) -> bool {
    (stride == size_of::<C>() as i64 || n == 1) && pointer.cast::<C>().is_aligned()
}

/// Whether two rows that may be lent as they lie share no bytes.
#[inline(always)]
pub(super) fn are_apart<A, B>(a: *mut u8, b: *mut u8, n: i64) -> bool {
    let (begin_a, begin_b) = (a.addr(), b.addr());
    begin_a + n as usize * size_of::<A>() <= begin_b || begin_b + n as usize * size_of::<B>() <= begin_a
}

/// As [`is_direct`], of operand `at`, for the row at `pointer` and those that follow it.
pub(super) fn are_all_direct<C: Lane, const N: usize>(
    (first, strides, n): (&[*mut u8; N], &[i64; N], i64),
    further: Further<'_, N>,
    at: usize,
) -> bool {
    is_direct::<C>(first[at], strides[at], n) && further.steps[at] % align_of::<C>() as i64 == 0
}

/// As [`are_apart`], of the output and operand `at`, for all of their rows that begin at `first` and follow that row.
pub(super) fn are_all_apart<A, O, const N: usize>(
    first: &[*mut u8; N],
    n: i64,
    further: Further<'_, N>,
    at: usize,
) -> bool {
    // Steps that are not forward are rare: then each row is asked for.
    let span = |at: usize, element: usize| {
        let all = further.steps[at].checked_mul(further.rows as i64).filter(|&all| all >= 0)?;
        Some(first[at].addr()..first[at].addr() + all as usize + n as usize * element)
    };
    match (span(at, size_of::<A>()), span(0, size_of::<O>())) {
        (Some(a), Some(out)) => a.end <= out.start || out.end <= a.start,
        _ => false,
    }
}

/// All of a row that may be lent as it lies.
///
/// # Safety
/// It has `n` elements; while they are in use nothing writes there.
#[inline(always)]
pub(super) unsafe fn lent<'b, C: Lane>(pointer: *mut u8, n: i64) -> &'b [C] {
    // SAFETY: the row is contiguous, aligned and of this type, and nothing writes there.
    unsafe { std::slice::from_raw_parts(pointer.cast::<C>().cast_const(), n as usize) }
}

/// As [`lent`], to write.
///
/// # Safety
/// It has `n` elements; while they are in use nothing else is done there.
#[inline(always)]
pub(super) unsafe fn lent_mut<'b, C: Lane>(pointer: *mut u8, n: i64) -> &'b mut [C] {
    // SAFETY: the row is contiguous, aligned and of this type, and nothing else is done there.
    unsafe { std::slice::from_raw_parts_mut(pointer.cast::<C>(), n as usize) }
}

/// One operand's row: `n` elements from a pointer on, a stride apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOf<C> {
    pointer: *mut u8,
    stride: isize,
    format: Format<C>,
    /// Whether the row may be lent as a slice.
    direct: bool,
}

impl<C: Lane> RowOf<C> {
    /// The row of an output.
    ///
    /// # Safety
    /// `pointer`, moved by `stride` up to `n - 1` times, is valid for an element of the format's dtype, for
    /// writes if it is an output's, and nothing else is done there while this is in use.
    #[inline]
    pub(super) unsafe fn new(pointer: *mut u8, stride: i64, n: i64, format: Format<C>) -> Self {
        let contiguous = stride == size_of::<C>() as i64 || n == 1;
        let direct = format.plain && contiguous && pointer.cast::<C>().is_aligned();
        Self { pointer, stride: stride as isize, format, direct }
    }

    /// The row of an input, which is not lent as it lies where it shares bytes with the output `out`.
    ///
    /// # Safety
    /// As for [`new`](Self::new), but that the output may be where the input is.
    #[inline]
    pub(super) unsafe fn input<O>(
        pointer: *mut u8,
        stride: i64,
        n: i64,
        format: Format<C>,
        out: &RowOf<O>,
    ) -> Self {
        // SAFETY: the caller's.
        let row = unsafe { Self::new(pointer, stride, n, format) };
        let apart = row.end(n) <= out.begin(n) || out.end(n) <= row.begin(n);
        Self { direct: row.direct && apart, ..row }
    }

    /// Elements `start..start + len`, lent or gathered.
    ///
    /// # Safety
    /// They are within the row; while they are in use nothing writes there.
    pub(super) unsafe fn read<'b>(&self, start: usize, len: usize, buffer: &'b mut Buffer<C>) -> &'b [C] {
        if self.direct {
            let from = self.at(start).cast::<C>().cast_const();
            // SAFETY: the row is contiguous, aligned and of this type, and nothing writes there.
            return unsafe { std::slice::from_raw_parts(from, len) };
        }
        // A single number fills the buffer once.
        if self.stride != 0 || start == 0 {
            let whole = if self.stride == 0 { BLOCK.min(len) } else { len };
            // SAFETY: the elements are within the row.
            unsafe { (self.format.gather)(self.at(start), self.stride, &mut buffer[..whole]) };
        }
        // SAFETY: as many were just written, or at the first block.
        unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<C>(), len) }
    }

    /// Room for elements `start..start + len`: the row itself, or a buffer to be [written](Self::write_back).
    ///
    /// # Safety
    /// They are within the row; while the room is in use nothing else is done there.
    pub(super) unsafe fn room<'b>(&self, start: usize, len: usize, buffer: &'b mut Buffer<C>) -> &'b mut [C] {
        if self.direct {
            // SAFETY: the row is contiguous, aligned and of this type, and nothing else is done there.
            return unsafe { std::slice::from_raw_parts_mut(self.at(start).cast::<C>(), len) };
        }
        let room = &mut buffer[..len];
        room.iter_mut().for_each(|element| _ = element.write(C::default()));
        // SAFETY: all of them were just written.
        unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<C>(), len) }
    }

    /// Brings elements that were written to a buffer to the row.
    ///
    /// # Safety
    /// They are within the row of an output, and nothing else is done there.
    pub(super) unsafe fn write_back(&self, start: usize, elements: &[C]) {
        if !self.direct {
            // SAFETY: the caller's.
            unsafe { (self.format.scatter)(elements, self.at(start), self.stride) };
        }
    }

    fn at(&self, i: usize) -> *mut u8 {
        self.pointer.wrapping_offset(i as isize * self.stride)
    }
}

impl<C> RowOf<C> {
    fn begin(&self, n: i64) -> usize {
        let last = self.pointer.wrapping_offset((n as isize - 1) * self.stride);
        self.pointer.addr().min(last.addr())
    }

    fn end(&self, n: i64) -> usize {
        let last = self.pointer.wrapping_offset((n as isize - 1) * self.stride);
        self.pointer.addr().max(last.addr()) + self.format.size
    }
}
