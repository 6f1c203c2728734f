//! `dropout` and kin, made of a product with noise.

use c10_core::ScalarType;

use super::handles;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    let kinds = [
        ("dropout", "dropout_", Kind { feature: false, alpha: false }),
        ("feature_dropout", "feature_dropout_", Kind { feature: true, alpha: false }),
        ("alpha_dropout", "alpha_dropout_", Kind { feature: false, alpha: true }),
        ("feature_alpha_dropout", "feature_alpha_dropout_", Kind { feature: true, alpha: true }),
    ];
    for (name, in_place, kind) in kinds {
        lib.composite(name, move |input: &Tensor, p: f64, train: bool| {
            match kind.noise(input, p, train)? {
                None => Ok(input.clone()),
                Some(Noise { factor, shift: None }) => handles::MUL_TENSOR.call(input, &factor),
                Some(Noise { factor, shift: Some(shift) }) => {
                    handles::ADD_TENSOR.call(&handles::MUL_TENSOR.call(input, &factor)?, &shift, 1.into())
                }
            }
        })?;
        lib.composite(in_place, move |input: &Tensor, p: f64, train: bool| {
            if let Some(noise) = kind.noise(input, p, train)? {
                handles::MUL__TENSOR.call(input, &noise.factor)?;
                if let Some(shift) = &noise.shift {
                    handles::ADD__TENSOR.call(input, shift, 1.into())?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Which of the family.
#[derive(Clone, Copy)]
struct Kind {
    /// Whole channels go at once.
    feature: bool,
    /// What goes becomes a value that keeps mean and variance, not zero.
    alpha: bool,
}

/// `input * factor + shift`.
struct Noise {
    factor: Tensor,
    shift: Option<Tensor>,
}

/// The negative of the value that a self-normalizing unit saturates at.
const ALPHA: f64 = 1.758_099_340_847_376_6;

impl Kind {
    /// The noise; none where nothing is to change.
    fn noise(self, input: &Tensor, p: f64, train: bool) -> Result<Option<Noise>> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::invalid_argument(format!(
                "dropout probability has to be between 0 and 1, but got {p}"
            )));
        }
        if p == 0.0 || !train || input.numel() == 0 {
            return Ok(None);
        }
        if p == 1.0 {
            let factor = handles::ZEROS.call(&[], Some(input.dtype()), None, Some(input.device()), None)?;
            return Ok(Some(Noise { factor, shift: None }));
        }
        let factor = self.kept(input, 1.0 - p)?;
        if !self.alpha {
            handles::DIV__SCALAR.call(&factor, (1.0 - p).into())?;
            return Ok(Some(Noise { factor, shift: None }));
        }
        let scale = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
        let shift = handles::ADD_SCALAR.call(&factor, (-1).into(), 1.into())?;
        handles::MUL__SCALAR.call(&shift, (ALPHA * scale).into())?;
        handles::ADD__SCALAR.call(&shift, (ALPHA * scale * p).into(), 1.into())?;
        handles::MUL__SCALAR.call(&factor, scale.into())?;
        Ok(Some(Noise { factor, shift: Some(shift) }))
    }

    /// Ones where an element, or a channel, stays.
    fn kept(self, input: &Tensor, probability: f64) -> Result<Tensor> {
        // Both parts of a complex element stay or go together.
        let dtype: Option<ScalarType> = Some(input.dtype().to_real());
        let kept = if self.feature {
            let mut sizes = input.sizes();
            if sizes.len() < 2 {
                return Err(Error::shape("Feature dropout requires at least 2 dimensions in the input"));
            }
            sizes.iter_mut().skip(2).for_each(|size| *size = 1);
            handles::NEW_EMPTY.call(input, &sizes, dtype, None, None, None)?
        } else {
            handles::EMPTY_LIKE.call(input, dtype, None, None, None, None)?
        };
        handles::BERNOULLI__FLOAT.call(&kept, probability, None)?;
        Ok(kept)
    }
}
