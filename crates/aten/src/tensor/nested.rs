//! Tensors of nested arrays and lists: [`tensor!`](crate::tensor!).

use c10_core::{Complex, Element, bf16, f16};

use super::{Dims, Tensor};
use crate::error::{Error, Result};

/// A number, or an array, a `Vec` or a slice of them, nested to any depth: the elements of a tensor, row by
/// row.
pub trait Nested {
    /// What a number is.
    type Element: Element;

    /// Adds the sizes from this level on, as the first of each level has them.
    fn push_sizes(&self, sizes: &mut Dims);

    /// Adds the elements in order; says whether every level has the sizes given.
    fn push_elements(&self, sizes: &[i64], elements: &mut Vec<Self::Element>) -> bool;
}

macro_rules! numbers {
    ($($element:ty),*) => {$(
        impl Nested for $element {
            type Element = Self;

            fn push_sizes(&self, _sizes: &mut Dims) {}

            fn push_elements(&self, sizes: &[i64], elements: &mut Vec<Self>) -> bool {
                elements.push(*self);
                sizes.is_empty()
            }
        }
    )*};
}
numbers!(
    bool,
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    u64,
    i64,
    f16,
    bf16,
    f32,
    f64,
    Complex<f16>,
    Complex<bf16>,
    Complex<f32>,
    Complex<f64>
);

impl<T: Nested> Nested for [T] {
    type Element = T::Element;

    fn push_sizes(&self, sizes: &mut Dims) {
        sizes.push(self.len() as i64);
        if let Some(first) = self.first() {
            first.push_sizes(sizes);
        }
    }

    fn push_elements(&self, sizes: &[i64], elements: &mut Vec<T::Element>) -> bool {
        let Some((size, inner)) = sizes.split_first() else { return false };
        *size == self.len() as i64 && self.iter().all(|item| item.push_elements(inner, elements))
    }
}

macro_rules! as_slices {
    ($([$($generic:tt)*] $list:ty;)*) => {$(
        impl<$($generic)*> Nested for $list {
            type Element = T::Element;

            fn push_sizes(&self, sizes: &mut Dims) {
                self[..].push_sizes(sizes);
            }

            fn push_elements(&self, sizes: &[i64], elements: &mut Vec<T::Element>) -> bool {
                self[..].push_elements(sizes, elements)
            }
        }
    )*};
}
as_slices! {
    [T: Nested, const N: usize] [T; N];
    [T: Nested] Vec<T>;
    [T: Nested] &[T];
}

impl Tensor {
    /// A tensor on the host of nested arrays or lists (`torch.tensor`). Its dtype is that of the numbers.
    ///
    /// ```
    /// let tensor = aten::Tensor::from_nested(&[[1_i64, 2, 3], [4, 5, 6]])?;
    /// assert_eq!(tensor.sizes(), [2, 3]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when rows of one level are not of one length.
    pub fn from_nested<T: Nested + ?Sized>(nested: &T) -> Result<Self> {
        let mut sizes = Dims::new();
        nested.push_sizes(&mut sizes);
        let mut elements = Vec::new();
        if !nested.push_elements(&sizes, &mut elements) {
            return Err(Error::shape(format!(
                "the rows are not all of the sizes {sizes:?} that the first have"
            )));
        }
        Self::from_slice(&elements, &sizes)
    }
}

/// A tensor on the host of a nested literal: `tensor![[1.0, 2.0], [3.0, 4.0]]` (`torch.tensor`), or of one
/// number. Its dtype is that of the numbers, by Rust's rules: `1.0` is `float64`, `1.0_f32` is `float32`. One
/// list alone is a tensor of one dimension.
///
/// ```
/// use aten::tensor;
///
/// assert_eq!(tensor![[1_i64, 2], [3, 4]]?.sizes(), [2, 2]);
/// assert_eq!(tensor!(2.5_f32)?.sizes(), []);
/// # Ok::<(), aten::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::from_nested`](crate::Tensor::from_nested).
#[macro_export]
macro_rules! tensor {
    ($number:expr) => {
        $crate::Tensor::from_nested(&$number)
    };
    ($($row:expr),+ $(,)?) => {
        $crate::Tensor::from_nested(&[$($row),+])
    };
}
