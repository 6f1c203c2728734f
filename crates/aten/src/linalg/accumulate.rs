//! [`Accumulate`]: in which type the products of an element type are summed.

use half::{bf16, f16};

use super::microkernel::KernelElement;

/// An element, and the type that sums of its products are kept in until they are rounded once.
pub(crate) trait Accumulate: Copy + Default + Send + Sync + 'static {
    type Sum: KernelElement;

    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;

    /// The elements themselves, where they are their own sums.
    fn as_sums(elements: &[Self]) -> Option<&[Self::Sum]>;
}

macro_rules! own_sums {
    ($($element:ty)*) => {$(
        impl Accumulate for $element {
            type Sum = Self;

            fn widen(self) -> Self {
                self
            }

            fn narrow(sum: Self) -> Self {
                sum
            }

            fn as_sums(elements: &[Self]) -> Option<&[Self]> {
                Some(elements)
            }
        }
    )*};
}

own_sums!(u8 i8 i16 i32 i64 f32 f64);

macro_rules! halves {
    ($($element:ty)*) => {$(
        impl Accumulate for $element {
            type Sum = f32;

            fn widen(self) -> f32 {
                self.to_f32()
            }

            fn narrow(sum: f32) -> Self {
                Self::from_f32(sum)
            }

            fn as_sums(_: &[Self]) -> Option<&[f32]> {
                None
            }
        }
    )*};
}

halves!(f16 bf16);
