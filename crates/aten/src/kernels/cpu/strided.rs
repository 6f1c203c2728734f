//! Walks over positions of a shape, for kernels that index slices by strides.

use smallvec::SmallVec;

use crate::tensor::Plain;

/// Calls `f` with the offsets of each position in row-major order: one for each of the strides, all of which
/// cover the dimensions of `sizes`. Offsets are from a tensor's first element, in elements; a negative stride makes
/// them wrap, so that a wrapping sum with where the walk begins is right.
pub(crate) fn for_each<const N: usize>(sizes: &[i64], strides: [&[i64]; N], mut f: impl FnMut([usize; N])) {
    for_each_row(sizes, strides, |mut at, steps, n| {
        for _ in 0..n {
            f(at);
            for i in 0..N {
                at[i] = at[i].wrapping_add(steps[i]);
            }
        }
    });
}

/// As [`for_each`], a row of the innermost dimension at a time: the offsets of its first element, the steps
/// within it, and its length. Dimensions that all operands walk as one are one.
pub(crate) fn for_each_row<const N: usize>(
    sizes: &[i64],
    strides: [&[i64]; N],
    mut f: impl FnMut([usize; N], [usize; N], usize),
) {
    if sizes.contains(&0) {
        return;
    }
    let (sizes, steps) = merged(sizes, strides);
    let (inner, outer) = match sizes.split_last() {
        Some((&inner, outer)) => (inner, outer),
        None => return f([0; N], [0; N], 1),
    };
    let inner_steps = steps[outer.len()];
    let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
    let mut at = [0; N];
    loop {
        f(at, inner_steps, inner);
        let mut dim = outer.len();
        loop {
            let Some(next) = dim.checked_sub(1) else { return };
            dim = next;
            index[dim] += 1;
            if index[dim] < outer[dim] {
                for i in 0..N {
                    at[i] = at[i].wrapping_add(steps[dim][i]);
                }
                break;
            }
            index[dim] = 0;
            for i in 0..N {
                at[i] = at[i].wrapping_sub(steps[dim][i].wrapping_mul(outer[dim] - 1));
            }
        }
    }
}

/// Sizes and steps, with neighbours made one where every operand walks them as one, and without sizes of 1.
fn merged<const N: usize>(
    sizes: &[i64],
    strides: [&[i64]; N],
) -> (SmallVec<[usize; 6]>, SmallVec<[[usize; N]; 6]>) {
    let mut merged: SmallVec<[usize; 6]> = SmallVec::new();
    let mut steps: SmallVec<[[usize; N]; 6]> = SmallVec::new();
    for (dim, &size) in sizes.iter().enumerate() {
        let size = size as usize;
        if size == 1 {
            continue;
        }
        let step: [usize; N] = std::array::from_fn(|i| strides[i][dim] as usize);
        match (merged.last_mut(), steps.last_mut()) {
            (Some(last), Some(last_step)) if (0..N).all(|i| last_step[i] == step[i].wrapping_mul(size)) => {
                *last *= size;
                *last_step = step;
            }
            _ => {
                merged.push(size);
                steps.push(step);
            }
        }
    }
    (merged, steps)
}

/// Copies elements from one strided place to another.
pub(crate) fn copy<W: Plain>(sizes: &[i64], out: &mut [W], out_strides: &[i64], src: &[W], strides: &[i64]) {
    for_each_row(sizes, [out_strides, strides], |[o, s], [o_step, s_step], n| {
        if o_step == 1 && s_step == 1 {
            out[o..o + n].copy_from_slice(&src[s..s + n]);
            return;
        }
        for i in 0..n {
            out[o + i * o_step] = src[s + i * s_step];
        }
    });
}
