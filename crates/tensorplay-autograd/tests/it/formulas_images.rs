//! Derivatives of pools, borders, patches, and images of another size.

use aten::ops::handles;
use aten::{Result, Tensor};

use crate::numeric::{check_one, numbers, places};

type One = fn(&Tensor) -> Result<Tensor>;

#[test]
fn pools_have_second_derivatives() {
    let pools: [(&str, One); 6] = [
        ("max_pool2d", |x| {
            let pooled =
                handles::MAX_POOL2D_WITH_INDICES.call(x, &[2, 2], &[1, 2], &[1, 1], &[1, 1], true)?.0;
            &pooled * &pooled
        }),
        ("adaptive_max_pool2d", |x| {
            let pooled = handles::ADAPTIVE_MAX_POOL2D.call(x, &[2, 3])?.0;
            &pooled * &pooled
        }),
        ("avg_pool2d", |x| handles::AVG_POOL2D.call(x, &[2, 3], &[2, 1], &[1, 1], true, false, None)),
        ("avg_pool2d by a divisor", |x| handles::AVG_POOL2D.call(x, &[2], &[], &[0], false, true, Some(3))),
        ("adaptive_avg_pool2d", |x| handles::_ADAPTIVE_AVG_POOL2D.call(x, &[3, 2])),
        ("max_unpool2d", |x| {
            let (pooled, indices) =
                handles::MAX_POOL2D_WITH_INDICES.call(x, &[2, 2], &[2, 2], &[0, 0], &[1, 1], false)?;
            handles::MAX_UNPOOL2D.call(&pooled, &indices, &[4, 5])
        }),
    ];
    for (name, f) in pools {
        check_one(name, &[numbers(&[1, 2, 4, 5], 1)], |x| f(&x[0]));
        check_one(&format!("{name} without batch"), &[numbers(&[2, 4, 5], 2)], |x| f(&x[0]));
    }
    let pools: [(&str, One); 4] = [
        ("max_pool3d", |x| Ok(handles::MAX_POOL3D_WITH_INDICES.call(x, &[2], &[1], &[0], &[1], false)?.0)),
        ("adaptive_max_pool3d", |x| Ok(handles::ADAPTIVE_MAX_POOL3D.call(x, &[1, 2, 2])?.0)),
        ("avg_pool3d", |x| handles::AVG_POOL3D.call(x, &[2], &[1], &[1], false, true, None)),
        ("adaptive_avg_pool3d", |x| handles::_ADAPTIVE_AVG_POOL3D.call(x, &[2, 1, 2])),
    ];
    for (name, f) in pools {
        check_one(name, &[numbers(&[1, 2, 3, 3], 3)], |x| f(&x[0]));
    }
}

#[test]
fn borders_have_second_derivatives() {
    let borders: [(&str, &[i64], One); 8] = [
        ("constant", &[2, 3], |x| x.constant_pad_nd(&[1, -1, 2, 0])),
        ("reflection 1", &[2, 4], |x| x.reflection_pad1d(&[1, 2])),
        ("reflection 2", &[1, 3, 4], |x| x.reflection_pad2d(&[1, 2, 0, 2])),
        ("reflection 3", &[1, 2, 3, 2], |x| x.reflection_pad3d(&[1, 0, 2, 1, 0, 1])),
        ("replication 1", &[2, 4], |x| x.replication_pad1d(&[3, 1])),
        ("replication 2", &[1, 2, 3], |x| x.replication_pad2d(&[1, 2, 0, 3])),
        ("replication 3", &[1, 2, 2, 2], |x| x.replication_pad3d(&[1, 0, 2, 1, 0, 1])),
        ("circular", &[1, 2, 3], |x| handles::PAD.call(x, &[1, 2], "circular", None)),
    ];
    for (name, sizes, f) in borders {
        check_one(name, &[numbers(sizes, 4)], |x| {
            let y = f(&x[0])?;
            &y * &y
        });
    }
}

#[test]
fn patches_go_back() {
    check_one("im2col", &[numbers(&[1, 2, 3, 4], 5)], |x| x[0].im2col(&[2, 2], &[1, 1], &[1, 0], &[1, 2]));
    check_one("col2im", &[numbers(&[1, 4, 6], 6)], |x| {
        x[0].col2im(&[3, 4], &[2, 2], &[1, 1], &[0, 0], &[1, 1])
    });
}

#[test]
fn images_of_another_size_have_second_derivatives() {
    let resized: [(&str, &[i64], One); 10] = [
        ("nearest 1", &[1, 2, 3], |x| handles::UPSAMPLE_NEAREST1D.call(x, &[5], None)),
        ("nearest 2", &[1, 2, 3, 2], |x| handles::UPSAMPLE_NEAREST2D.call(x, &[5, 3], Some(1.7), None)),
        ("nearest 3", &[1, 1, 2, 2, 2], |x| {
            handles::UPSAMPLE_NEAREST3D.call(x, &[3, 2, 4], None, None, None)
        }),
        ("exact 1", &[1, 2, 3], |x| handles::_UPSAMPLE_NEAREST_EXACT1D.call(x, &[5], None)),
        ("exact 2", &[1, 2, 3, 2], |x| handles::_UPSAMPLE_NEAREST_EXACT2D.call(x, &[5, 3], None, None)),
        ("exact 3", &[1, 1, 2, 2, 2], |x| {
            handles::_UPSAMPLE_NEAREST_EXACT3D.call(x, &[3, 2, 4], None, None, None)
        }),
        ("linear", &[1, 2, 3], |x| handles::UPSAMPLE_LINEAR1D.call(x, &[5], true, None)),
        ("bilinear", &[1, 2, 3, 2], |x| handles::UPSAMPLE_BILINEAR2D.call(x, &[5, 3], false, None, None)),
        ("trilinear", &[1, 1, 2, 2, 2], |x| {
            handles::UPSAMPLE_TRILINEAR3D.call(x, &[3, 2, 4], false, None, None, None)
        }),
        ("bicubic", &[1, 1, 3, 3], |x| handles::UPSAMPLE_BICUBIC2D.call(x, &[5, 4], false, None, None)),
    ];
    for (name, sizes, f) in resized {
        check_one(name, &[numbers(sizes, 7)], |x| {
            let y = f(&x[0])?;
            &y * &y
        });
    }
}

#[test]
fn grids_have_second_derivatives_of_images_and_places() {
    let two = [numbers(&[1, 1, 3, 4], 8), numbers(&[1, 1, 3, 2], 9).mul_scalar(1.3).unwrap()];
    for interpolation in 0..3 {
        for padding in 0..3 {
            for align_corners in [false, true] {
                check_one(&format!("grid_sampler_2d {interpolation} {padding} {align_corners}"), &two, |x| {
                    handles::GRID_SAMPLER_2D.call(&x[0], &x[1], interpolation, padding, align_corners)
                });
            }
        }
    }
    check_one("grid_sampler_3d", &[numbers(&[1, 1, 2, 3, 2], 10), numbers(&[1, 2, 1, 2, 3], 11)], |x| {
        handles::GRID_SAMPLER_3D.call(&x[0], &x[1], 0, 1, true)
    });
}

#[test]
fn the_padding_of_an_embedding_has_no_gradient() {
    check_one("embedding", &[numbers(&[3, 2], 12)], |x| {
        let rows = handles::EMBEDDING.call(&x[0], &places(&[1, 2, 2, 1], &[2, 2]), 1, false, false)?;
        // The padding's row counts in the result and not in the gradient, so that it must not be moved.
        rows.mul(&places(&[0, 1, 1, 0], &[2, 2]).unsqueeze(-1)?)
    });
}
