//! [`AdaptiveAvgPool`] and [`AdaptiveMaxPool`]: pools whose output has given sizes.

use aten::{Result, Tensor};

use super::module::{Forward, Module};

macro_rules! adaptive {
    ($Name:ident, $what:literal, $($alias:ident = $n:literal: $over:literal),*; $input:ident, $sizes:ident, $one:expr, $two:expr, $three:expr) => {
        #[doc = concat!("The ", $what, " of each of as many windows as the output has elements, over `N` dimensions.")]
        #[derive(Clone, Debug)]
        pub struct $Name<const N: usize> {
            output_size: [i64; N],
        }

        $(
            #[doc = concat!("Over the last ", $over, " (`torch.nn.", stringify!($alias), "`).")]
            pub type $alias = $Name<$n>;
        )*

        impl<const N: usize> $Name<N> {
            /// With an output of these sizes.
            pub fn new(output_size: [i64; N]) -> Self {
                Self { output_size }
            }
        }

        impl<const N: usize> Module for $Name<N> {
            crate::parts!();
        }

        impl<const N: usize> Forward for $Name<N> {
            fn forward(&self, $input: &Tensor) -> Result<Tensor> {
                let $sizes = &self.output_size;
                match N {
                    1 => $one,
                    2 => $two,
                    _ => $three,
                }
            }
        }
    };
}

adaptive!(
    AdaptiveAvgPool, "mean",
    AdaptiveAvgPool1d = 1: "dimension", AdaptiveAvgPool2d = 2: "two dimensions",
    AdaptiveAvgPool3d = 3: "three dimensions";
    input, sizes,
    input.adaptive_avg_pool1d(sizes), input.adaptive_avg_pool2d(sizes), input.adaptive_avg_pool3d(sizes)
);

adaptive!(
    AdaptiveMaxPool, "largest element",
    AdaptiveMaxPool1d = 1: "dimension", AdaptiveMaxPool2d = 2: "two dimensions",
    AdaptiveMaxPool3d = 3: "three dimensions";
    input, sizes,
    input.adaptive_max_pool1d(sizes).map(|(values, _)| values),
    input.adaptive_max_pool2d(sizes).map(|(values, _)| values),
    input.adaptive_max_pool3d(sizes).map(|(values, _)| values)
);
