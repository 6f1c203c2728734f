//! Rows of a table by number: gradients of look-ups, and bags of rows.

use crate::random::{Continuous, Real};

/// How the rows of a bag become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BagMode {
    Sum,
    Mean,
    Max,
}

/// Which rows are in which bag, every number within bounds.
#[derive(Debug)]
pub(crate) struct Bags {
    pub(crate) indices: Vec<i64>,
    /// The bag of each index.
    pub(crate) bag_of: Vec<i64>,
    /// How many indices each bag has.
    pub(crate) sizes: Vec<i64>,
    /// The row that counts for nothing.
    pub(crate) padding: Option<i64>,
}

impl Bags {
    /// Which indices count, with their bags.
    pub(crate) fn members(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.indices
            .iter()
            .zip(&self.bag_of)
            .enumerate()
            .filter(|(_, (index, _))| Some(**index) != self.padding)
            .map(|(i, (&index, &bag))| (i, index as usize, bag as usize))
    }

    /// How many indices of each bag count.
    pub(crate) fn counted(&self) -> Vec<i64> {
        let mut counted = vec![0; self.sizes.len()];
        self.members().for_each(|(_, _, bag)| counted[bag] += 1);
        counted
    }

    /// The sums or means of the rows of each bag, scaled by a weight each; computed in `f64`.
    pub(crate) fn sum<T: Continuous>(
        &self,
        table: &[T],
        width: usize,
        weights: &[f64],
        mean: bool,
    ) -> Vec<T> {
        let mut sums = vec![0.0; self.sizes.len() * width];
        for (i, row, bag) in self.members() {
            let weight = weights.get(i).copied().unwrap_or(1.0);
            let from = &table[row * width..(row + 1) * width];
            for (sum, &element) in sums[bag * width..(bag + 1) * width].iter_mut().zip(from) {
                *sum += element.to_op().to_f64() * weight;
            }
        }
        let counted = if mean { self.counted() } else { Vec::new() };
        let by = |bag: usize| counted.get(bag).map_or(1.0, |&count| count.max(1) as f64);
        sums.iter().enumerate().map(|(at, &sum)| T::from_real(sum / by(at / width.max(1)))).collect()
    }

    /// The greatest elements of each bag's rows, and the row that each is of; zeros for a bag of nothing.
    pub(crate) fn max<T: Continuous>(&self, table: &[T], width: usize) -> (Vec<T>, Vec<i64>) {
        let mut values = vec![T::default(); self.sizes.len() * width];
        let mut rows = vec![0; values.len()];
        let mut begun = vec![false; self.sizes.len()];
        for (_, row, bag) in self.members() {
            for column in 0..width {
                let (element, at) = (table[row * width + column], bag * width + column);
                if !begun[bag] || element > values[at] {
                    (values[at], rows[at]) = (element, row as i64);
                }
            }
            begun[bag] = true;
        }
        (values, rows)
    }
}

/// Adds the gradient of each look-up, by its factor, to the row that it is of; computed in `f64`.
pub(crate) fn add_rows<T: Continuous>(
    rows: usize,
    width: usize,
    grad: &[T],
    look_ups: impl Iterator<Item = (usize, usize, f64)>,
) -> Vec<T> {
    let mut sums = vec![0.0; rows * width];
    for (row, from, factor) in look_ups {
        let from = &grad[from * width..(from + 1) * width];
        for (sum, &element) in sums[row * width..(row + 1) * width].iter_mut().zip(from) {
            *sum += element.to_op().to_f64() * factor;
        }
    }
    sums.into_iter().map(T::from_real).collect()
}

/// How often each number occurs.
pub(crate) fn occurrences(rows: usize, indices: impl Iterator<Item = usize>) -> Vec<i64> {
    let mut counts = vec![0; rows];
    indices.for_each(|row| counts[row] += 1);
    counts
}
