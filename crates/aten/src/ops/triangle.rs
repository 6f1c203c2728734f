//! Triangles of matrices: `tril`, `triu`, and their indices.

use c10_core::{Device, Layout, ScalarType};

use super::factory::options;
use super::new_options::Options;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::strided;
use crate::tensor::{Dims, Fresh, New, Tensor, access, for_words};

type Dtype = Option<ScalarType>;
type Lay = Option<Layout>;
type Dev = Option<Device>;
type Pin = Option<bool>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, tril, (this: &Tensor, diagonal: i64),
        functional "tril", inplace "tril_", out "tril.out");
    register_triple!(lib, triu, (this: &Tensor, diagonal: i64),
        functional "triu", inplace "triu_", out "triu.out");
    lib.all_backends(
        "tril_indices",
        |row: i64, col: i64, offset: i64, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            indices(row, col, Triangle::Lower(offset), options!(dtype, layout, device, pin))
        },
    )?;
    lib.all_backends(
        "triu_indices",
        |row: i64, col: i64, offset: i64, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            indices(row, col, Triangle::Upper(offset), options!(dtype, layout, device, pin))
        },
    )
}

/// The part of a matrix below or above a diagonal, which belongs to it.
#[derive(Clone, Copy)]
enum Triangle {
    Lower(i64),
    Upper(i64),
}

impl Triangle {
    fn has(self, row: i64, column: i64) -> bool {
        // Widened, so that no diagonal is too far away.
        let distance = i128::from(column) - i128::from(row);
        match self {
            Self::Lower(diagonal) => distance <= i128::from(diagonal),
            Self::Upper(diagonal) => distance >= i128::from(diagonal),
        }
    }
}

fn tril(dest: Dest<'_>, this: &Tensor, diagonal: i64) -> Result<Made> {
    keep(dest, this, Triangle::Lower(diagonal))
}

fn triu(dest: Dest<'_>, this: &Tensor, diagonal: i64) -> Result<Made> {
    keep(dest, this, Triangle::Upper(diagonal))
}

fn keep(dest: Dest<'_>, this: &Tensor, triangle: Triangle) -> Result<Made> {
    if this.rank() < 2 {
        return Err(Error::shape("tril and triu: input tensor must have at least 2 dimensions"));
    }
    dest.check_dtype(this.dtype())?;
    let strides = crate::shape::contiguous_strides(&this.sizes())?;
    let out = dest.output_from(this, strides, &[])?;
    if !out.is_meta() {
        access([], [out.tensor()], out.fresh(), |[], [to]| {
            let (sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
            let rank = sizes.len();
            let (rows, columns) = (sizes[rank - 2], sizes[rank - 1]);
            for_words!(this.dtype(), W => {
                let to = to.elements::<W>()?;
                strided::for_each(&sizes[..rank - 2], [&strides[..rank - 2]], |[o]| {
                    for row in 0..rows {
                        for column in (0..columns).filter(|&column| !triangle.has(row, column)) {
                            let at = (row * strides[rank - 2] + column * strides[rank - 1]) as usize;
                            to[o + at] = W::default();
                        }
                    }
                });
                Ok(())
            })
        })?;
    }
    out.finish()
}

fn indices(rows: i64, columns: i64, triangle: Triangle, options: Options) -> Result<Tensor> {
    if rows < 0 || columns < 0 {
        return Err(Error::invalid_argument(format!(
            "rows and columns must be non-negative, got {rows} and {columns}"
        )));
    }
    let (dtype, device) = options.or(ScalarType::Int64, Device::CPU)?;
    let places = || (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)));
    let chosen: Vec<(i64, i64)> = places().filter(|&(row, column)| triangle.has(row, column)).collect();
    let sizes = [2, chosen.len() as i64];
    let out = New::contiguous(sizes, dtype, device).make()?;
    if out.is_meta() {
        return Ok(out);
    }
    let made = New::contiguous(sizes, ScalarType::Int64, Device::CPU).make()?;
    access([], [&made], Fresh::Yes, |[], [to]| {
        let all = chosen.iter().map(|place| place.0).chain(chosen.iter().map(|place| place.1));
        to.slice::<i64>()?.iter_mut().zip(all).for_each(|(to, index)| *to = index);
        Ok(())
    })?;
    crate::kernels::copy_fresh(&out, &made)?;
    Ok(out)
}
