//! Tensors as text, as PyTorch prints them.
//!
//! Printing goes in three steps: [`elements`] reads what is to be shown, [`number`] finds how wide and in which
//! notation the numbers are, [`layout`] puts them in lines. A tensor of another device is copied to the host
//! first; a meta tensor shows its size.

mod elements;
mod layout;
mod number;
mod options;

use std::fmt;

use c10_core::{Device, ScalarType};

pub use options::PrintOptions;

use crate::error::Result;
use crate::tensor::Tensor;

/// A tensor with the options that it is printed with.
#[derive(Debug)]
pub struct Printed<'a> {
    tensor: &'a Tensor,
    options: PrintOptions,
}

impl Tensor {
    /// The tensor as `to_string` gives it, with other options.
    ///
    /// ```
    /// use aten::{PrintOptions, Tensor};
    ///
    /// let x = Tensor::from_slice(&[1.0_f32, 2.5], &[2])?;
    /// assert_eq!(x.to_string(), "tensor([1.0000, 2.5000])");
    /// let options = PrintOptions { precision: 1, ..PrintOptions::default() };
    /// assert_eq!(x.printed(options).to_string(), "tensor([1.0, 2.5])");
    /// # Ok::<(), aten::Error>(())
    /// ```
    pub fn printed(&self, options: PrintOptions) -> Printed<'_> {
        Printed { tensor: self, options }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.printed(PrintOptions::default()).fmt(f)
    }
}

const PREFIX: &str = "tensor(";

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = match self.contents() {
            Ok(contents) => contents,
            // Memory that cannot be reached is no reason for a log line to fail.
            Err(error) => format!("<{error}>"),
        };
        let text = format!("{PREFIX}{contents}");
        f.write_str(&layout::with_suffixes(&text, &self.suffixes(), PREFIX.len(), self.options.line_width))
    }
}

impl Printed<'_> {
    fn contents(&self) -> Result<String> {
        if self.tensor.is_meta() {
            return Ok("...".to_owned());
        }
        if self.tensor.numel() == 0 {
            return Ok("[]".to_owned());
        }
        let shown = elements::shown(self.tensor, &self.options)?;
        Ok(layout::nested(&shown, &self.options, PREFIX.len()))
    }

    /// What is said of the tensor beside its elements.
    fn suffixes(&self) -> Vec<String> {
        let tensor = self.tensor;
        let mut suffixes = Vec::new();
        let (dtype, sizes) = (tensor.dtype(), tensor.sizes());
        if tensor.device() != Device::CPU {
            suffixes.push(format!("device='{}'", tensor.device()));
        }
        let without_elements = tensor.is_meta() || sizes.contains(&0);
        let size_is_said = tensor.is_meta()
            || (without_elements && sizes.len() != 1)
            || (!without_elements && self.options.edge_items == 0);
        if size_is_said {
            suffixes.push(format!("size={}", tuple(&sizes)));
        }
        let is_evident = match dtype {
            ScalarType::Float32 => true,
            ScalarType::Complex64 | ScalarType::Int64 | ScalarType::Bool => !without_elements,
            _ => false,
        };
        if !is_evident {
            suffixes.push(format!("dtype=torch.{}", dtype.name()));
        }
        if tensor.is_recorded() {
            suffixes.push("requires_grad=True".to_owned());
        }
        suffixes
    }
}

/// Sizes as Python prints a tuple.
fn tuple(sizes: &[i64]) -> String {
    match sizes {
        [size] => format!("({size},)"),
        _ => {
            let sizes: Vec<_> = sizes.iter().map(i64::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}
