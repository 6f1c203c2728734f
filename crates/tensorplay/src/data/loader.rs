//! [`DataLoader`]: the batches of a dataset, in order or shuffled as PyTorch shuffles them.

use aten::random::Generator;
use aten::tensor::RandomInPlaceOptions;
use aten::{Error, Result, Tensor};
use c10_core::ScalarType;
use tensorplay_autograd::no_grad;

use super::dataset::TensorDataset;

/// What a [`DataLoader`] takes beside dataset and batch size.
#[derive(Clone, Debug, Default)]
pub struct LoaderConfig {
    /// Each time in another order.
    pub shuffle: bool,
    /// Leaves out a last batch that is not full.
    pub drop_last: bool,
    /// Draws the order; by default one that is seeded from the default generator each time.
    pub generator: Option<Generator>,
}

/// Gives the batches of a dataset (`torch.utils.data.DataLoader`, in one process). Under the same seed the order is
/// PyTorch's.
///
/// ```
/// use tensorplay::prelude::*;
///
/// let dataset = data::TensorDataset::new(vec![Tensor::arange(5, ScalarType::Int64)?])?;
/// let loader = data::DataLoader::new(dataset, 2)?;
/// let sizes: Result<Vec<i64>> = loader.batches()?.map(|batch| Ok(batch?[0].numel())).collect();
/// assert_eq!(sizes?, [2, 2, 1]);
/// # Ok::<(), tensorplay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DataLoader {
    dataset: TensorDataset,
    batch_size: i64,
    config: LoaderConfig,
}

impl DataLoader {
    /// In the dataset's order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the batch size is not positive.
    pub fn new(dataset: TensorDataset, batch_size: i64) -> Result<Self> {
        Self::with(dataset, batch_size, LoaderConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(dataset: TensorDataset, batch_size: i64, config: LoaderConfig) -> Result<Self> {
        if batch_size <= 0 {
            return Err(Error::invalid_argument(format!("a batch cannot have {batch_size} examples")));
        }
        Ok(Self { dataset, batch_size, config })
    }

    /// How many batches there are each time.
    pub fn len(&self) -> i64 {
        let examples = self.dataset.examples();
        examples / self.batch_size + i64::from(!self.config.drop_last && examples % self.batch_size != 0)
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batches, once; each has one tensor for each of the dataset.
    ///
    /// # Errors
    /// When there is no memory for the order.
    pub fn batches(&self) -> Result<Batches<'_>> {
        // PyTorch's loader draws a seed for its workers first, whether it has any or not.
        random_number(self.config.generator.as_ref())?;
        let order = if self.config.shuffle { Some(self.order()?) } else { None };
        Ok(Batches { loader: self, order, next: 0 })
    }

    fn order(&self) -> Result<Tensor> {
        let drawn;
        let generator = match &self.config.generator {
            Some(generator) => generator,
            None => {
                drawn = Generator::with_seed(random_number(None)?);
                &drawn
            }
        };
        Tensor::randperm_generator(self.dataset.examples(), Some(generator), ScalarType::Int64)
    }
}

/// A number of 63 bits.
fn random_number(generator: Option<&Generator>) -> Result<u64> {
    no_grad(|| {
        let number = Tensor::empty(&[], ScalarType::Int64)?;
        number.random_with_(RandomInPlaceOptions { generator })?;
        Ok(number.item()?.to::<i64>()?.unsigned_abs())
    })
}

/// The batches of a [`DataLoader`].
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a DataLoader,
    order: Option<Tensor>,
    next: i64,
}

impl Batches<'_> {
    fn batch(&self, start: i64, length: i64) -> Result<Vec<Tensor>> {
        match &self.order {
            Some(order) => self.loader.dataset.select(&order.narrow(0, start, length)?),
            None => Ok(self.loader.dataset.slice(start, length)?.tensors().to_vec()),
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<Tensor>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.loader.len() {
            return None;
        }
        let start = self.next * self.loader.batch_size;
        let length = self.loader.batch_size.min(self.loader.dataset.examples() - start);
        self.next += 1;
        Some(self.batch(start, length))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.loader.len() - self.next).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches<'_> {}
