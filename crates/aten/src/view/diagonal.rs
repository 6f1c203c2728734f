//! Diagonals.

use super::Strided;
use crate::error::{Error, Result};
use crate::shape::wrap_dim;

impl Strided {
    /// The diagonal of two dimensions, as the last dimension (`diagonal`). A positive offset lies above the
    /// main diagonal.
    pub(crate) fn diagonal(&mut self, offset: i64, dim1: i64, dim2: i64) -> Result<()> {
        let (row, column) = (wrap_dim(dim1, self.rank())?, wrap_dim(dim2, self.rank())?);
        if row == column {
            return Err(Error::invalid_argument(format!(
                "diagonal dimensions cannot be identical {dim1}, {dim2}"
            )));
        }
        let (skipped_rows, skipped_columns) = (offset.min(0).saturating_neg(), offset.max(0));
        let rows = self.sizes[row].saturating_sub(skipped_rows);
        let columns = self.sizes[column].saturating_sub(skipped_columns);
        let length = rows.min(columns).max(0);
        if length > 0 {
            self.advance(skipped_rows, row)?;
            self.advance(skipped_columns, column)?;
        }
        let stride =
            self.strides[row].checked_add(self.strides[column]).ok_or_else(super::strided::overflowed)?;
        self.remove(row.max(column));
        self.remove(row.min(column));
        self.sizes.push(length);
        self.strides.push(stride);
        Ok(())
    }
}
