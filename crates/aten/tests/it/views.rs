//! Views against an oracle that knows, for each element, which element of the base it is.

use aten::tensor::{AsStridedOptions, DiagonalOptions, SliceOptions, SplitOptions, UnbindOptions};
use aten::{Error, ErrorKind, Tensor};
use proptest::prelude::*;

/// Elements in row-major order, each the number of an element of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Oracle {
    sizes: Vec<i64>,
    places: Vec<i64>,
}

impl Oracle {
    fn base(sizes: &[i64]) -> Self {
        Self { sizes: sizes.to_vec(), places: (0..sizes.iter().product()).collect() }
    }

    fn at(&self, index: &[i64]) -> i64 {
        let flat = index.iter().zip(&self.sizes).fold(0, |flat, (i, size)| flat * size + i);
        self.places[flat as usize]
    }

    /// The oracle of other sizes, each of whose elements is where `from` says.
    fn map(&self, sizes: Vec<i64>, from: impl Fn(&[i64]) -> Vec<i64>) -> Self {
        let places = indices(&sizes).map(|index| self.at(&from(&index))).collect();
        Self { sizes, places }
    }
}

fn indices(sizes: &[i64]) -> impl Iterator<Item = Vec<i64>> + use<> {
    let sizes = sizes.to_vec();
    let count = if sizes.contains(&0) { 0 } else { sizes.iter().product() };
    (0..count).map(move |mut flat| {
        let mut index = vec![0; sizes.len()];
        for dim in (0..sizes.len()).rev() {
            index[dim] = flat % sizes[dim];
            flat /= sizes[dim];
        }
        index
    })
}

/// A step of a random program; the numbers are cut to what the tensor has.
#[derive(Clone, Debug)]
enum Step {
    Select(usize, i64),
    Slice(usize, i64, i64, i64),
    Permute(u64),
    Transpose(usize, usize),
    Unsqueeze(usize),
    Squeeze,
    Expand(i64),
    Diagonal(usize, usize, i64),
    Unfold(usize, i64, i64),
    Flatten(usize, usize),
    Split(usize, i64, usize),
    Unbind(usize, usize),
    Movedim(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let dim = 0..6_usize;
    prop_oneof![
        (dim.clone(), -6..6_i64).prop_map(|(dim, index)| Step::Select(dim, index)),
        (dim.clone(), -7..7_i64, -7..7_i64, 1..4_i64).prop_map(|(d, a, b, s)| Step::Slice(d, a, b, s)),
        any::<u64>().prop_map(Step::Permute),
        (dim.clone(), dim.clone()).prop_map(|(a, b)| Step::Transpose(a, b)),
        dim.clone().prop_map(Step::Unsqueeze),
        Just(Step::Squeeze),
        (1..4_i64).prop_map(Step::Expand),
        (dim.clone(), dim.clone(), -3..4_i64).prop_map(|(a, b, o)| Step::Diagonal(a, b, o)),
        (dim.clone(), 0..4_i64, 1..4_i64).prop_map(|(d, size, step)| Step::Unfold(d, size, step)),
        (dim.clone(), dim.clone()).prop_map(|(a, b)| Step::Flatten(a, b)),
        (dim.clone(), 1..4_i64, dim.clone()).prop_map(|(d, size, part)| Step::Split(d, size, part)),
        (dim.clone(), dim.clone()).prop_map(|(d, place)| Step::Unbind(d, place)),
        (dim.clone(), dim).prop_map(|(from, to)| Step::Movedim(from, to)),
    ]
}

/// Takes a step on both, or none where the tensor has no dimension for it.
fn take(step: &Step, x: &Tensor, o: &Oracle) -> Result<Option<(Tensor, Oracle)>, Error> {
    let rank = o.sizes.len();
    let dim = |d: usize| d % rank;
    let needed = match step {
        Step::Unsqueeze(_) | Step::Squeeze | Step::Permute(_) | Step::Expand(_) => 0,
        Step::Diagonal(..) => 2,
        _ => 1,
    };
    if rank < needed || rank > 6 || o.places.len() > 4000 {
        return Ok(None);
    }
    Ok(Some(match *step {
        Step::Select(d, index) => {
            let d = dim(d);
            let size = o.sizes[d];
            if size == 0 {
                return Ok(None);
            }
            let index = index.rem_euclid(size) - if index < 0 { size } else { 0 };
            let mut sizes = o.sizes.clone();
            sizes.remove(d);
            let place = index.rem_euclid(size);
            (x.select(d as i64, index)?, o.map(sizes, |at| [&at[..d], &[place], &at[d..]].concat()))
        }
        Step::Slice(d, start, end, step) => {
            let d = dim(d);
            let places: Vec<i64> = python_slice(o.sizes[d], start, end, step);
            let mut sizes = o.sizes.clone();
            sizes[d] = places.len() as i64;
            let options = SliceOptions { dim: d as i64, start: Some(start), end: Some(end), step };
            (x.slice_with(options)?, o.map(sizes, |at| replaced(at, d, places[at[d] as usize])))
        }
        Step::Permute(seed) => {
            let order = shuffled(rank, seed);
            let sizes = order.iter().map(|&d| o.sizes[d]).collect();
            let dims: Vec<i64> = order.iter().map(|&d| d as i64).collect();
            let back = |at: &[i64]| {
                let mut index = vec![0; rank];
                order.iter().zip(at).for_each(|(&d, &i)| index[d] = i);
                index
            };
            (x.permute(&dims)?, o.map(sizes, back))
        }
        Step::Transpose(a, b) => {
            let (a, b) = (dim(a), dim(b));
            let swap = |list: &[i64]| {
                let mut list = list.to_vec();
                list.swap(a, b);
                list
            };
            (x.transpose(a as i64, b as i64 - rank as i64)?, o.map(swap(&o.sizes), swap))
        }
        Step::Unsqueeze(d) => {
            let d = d % (rank + 1);
            let mut sizes = o.sizes.clone();
            sizes.insert(d, 1);
            (x.unsqueeze(d as i64)?, o.map(sizes, |at| [&at[..d], &at[d + 1..]].concat()))
        }
        Step::Squeeze => {
            let kept: Vec<usize> = (0..rank).filter(|&d| o.sizes[d] != 1).collect();
            let sizes = kept.iter().map(|&d| o.sizes[d]).collect();
            let back = |at: &[i64]| {
                let mut index = vec![0; rank];
                kept.iter().zip(at).for_each(|(&d, &i)| index[d] = i);
                index
            };
            (x.squeeze()?, o.map(sizes, back))
        }
        Step::Expand(count) => {
            let inner = o.sizes.iter().map(|&size| if size == 1 { count } else { size });
            let sizes: Vec<i64> = std::iter::once(count).chain(inner).collect();
            let back = |at: &[i64]| {
                at[1..].iter().zip(&o.sizes).map(|(&i, &size)| if size == 1 { 0 } else { i }).collect()
            };
            (x.expand(&sizes)?, o.map(sizes.clone(), back))
        }
        Step::Diagonal(a, b, offset) => {
            let (a, b) = (dim(a), dim(b));
            if a == b {
                return Ok(None);
            }
            let (row, column) = (0.max(-offset), 0.max(offset));
            let length = 0.max((o.sizes[a] - row).min(o.sizes[b] - column));
            let rest: Vec<usize> = (0..rank).filter(|&d| d != a && d != b).collect();
            let sizes = rest.iter().map(|&d| o.sizes[d]).chain([length]).collect();
            let back = |at: &[i64]| {
                let mut index = vec![0; rank];
                rest.iter().zip(at).for_each(|(&d, &i)| index[d] = i);
                (index[a], index[b]) = (at[at.len() - 1] + row, at[at.len() - 1] + column);
                index
            };
            let options = DiagonalOptions { offset, dim1: a as i64, dim2: b as i64 };
            (x.diagonal_with(options)?, o.map(sizes, back))
        }
        Step::Unfold(d, size, step) => {
            let d = dim(d);
            if size > o.sizes[d] {
                return Ok(None);
            }
            let mut sizes = o.sizes.clone();
            sizes[d] = (o.sizes[d] - size) / step + 1;
            sizes.push(size);
            let back = |at: &[i64]| replaced(&at[..rank], d, at[d] * step + at[rank]);
            (x.unfold(d as i64, size, step)?, o.map(sizes, back))
        }
        Step::Flatten(a, b) => {
            let (a, b) = (dim(a).min(dim(b)), dim(a).max(dim(b)));
            let joined = o.sizes[a..=b].iter().product();
            let sizes = [&o.sizes[..a], &[joined], &o.sizes[b + 1..]].concat();
            // A copy is no view; the oracle is of what shares memory.
            let Ok(view) = x.view(&sizes) else { return Ok(None) };
            (view, Oracle { sizes, places: o.places.clone() })
        }
        Step::Split(d, size, part) => {
            let d = dim(d);
            let parts = x.split_with(size, SplitOptions { dim: d as i64 })?;
            let part = part % parts.len();
            let start = part as i64 * size;
            let mut sizes = o.sizes.clone();
            sizes[d] = size.min(o.sizes[d] - start);
            (parts[part].clone(), o.map(sizes, |at| replaced(at, d, at[d] + start)))
        }
        Step::Unbind(d, place) => {
            let d = dim(d);
            let all = x.unbind_with(UnbindOptions { dim: d as i64 })?;
            if all.is_empty() {
                return Ok(None);
            }
            let place = place % all.len();
            let mut sizes = o.sizes.clone();
            sizes.remove(d);
            (all[place].clone(), o.map(sizes, |at| [&at[..d], &[place as i64], &at[d..]].concat()))
        }
        Step::Movedim(from, to) => {
            let (from, to) = (dim(from), dim(to));
            let moved = |list: &[i64], from: usize, to: usize| {
                let mut list = list.to_vec();
                let item = list.remove(from);
                list.insert(to, item);
                list
            };
            (x.movedim(from as i64, to as i64)?, o.map(moved(&o.sizes, from, to), |at| moved(at, to, from)))
        }
    }))
}

fn replaced(at: &[i64], dim: usize, value: i64) -> Vec<i64> {
    let mut index = at.to_vec();
    index[dim] = value;
    index
}

fn python_slice(size: i64, start: i64, end: i64, step: i64) -> Vec<i64> {
    let place = |at: i64| (if at < 0 { at + size } else { at }).clamp(0, size);
    (place(start)..place(end)).step_by(step as usize).collect()
}

fn shuffled(rank: usize, mut seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    for i in (1..rank).rev() {
        order.swap(i, (seed % (i as u64 + 1)) as usize);
        seed /= 7;
    }
    order
}

fn numbered(sizes: &[i64]) -> Tensor {
    let count: i64 = sizes.iter().product();
    Tensor::from_slice(&(0..count).collect::<Vec<i64>>(), sizes).unwrap()
}

proptest! {
    #[test]
    fn views_are_where_the_oracle_says(
        sizes in prop::collection::vec(0..5_i64, 0..5),
        steps in prop::collection::vec(step(), 1..9),
    ) {
        let base = numbered(&sizes);
        let (mut x, mut o) = (base.clone(), Oracle::base(&sizes));
        for step in &steps {
            if let Some((view, oracle)) = take(step, &x, &o).unwrap() {
                (x, o) = (view, oracle);
            }
            prop_assert_eq!(&x.sizes()[..], &o.sizes[..], "{:?}", step);
            prop_assert_eq!(&x.to_vec::<i64>().unwrap(), &o.places, "{:?}", step);
            prop_assert!(x.is_alias_of(&base));
        }
        // What is written through the view is read through the base, and the version is one.
        let before = base.version();
        let mut expected = base.to_vec::<i64>().unwrap();
        o.places.iter().for_each(|&place| expected[place as usize] = -1);
        let distinct: std::collections::HashSet<_> = o.places.iter().collect();
        match x.copy_(&Tensor::from_slice(&[-1_i64], &[]).unwrap()) {
            Ok(_) => prop_assert_eq!(base.to_vec::<i64>().unwrap(), expected),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Overlap);
                prop_assert!(distinct.len() < o.places.len());
            }
        }
        prop_assert_eq!(base.version(), x.version());
        prop_assert!(x.version() > before || o.places.is_empty() || distinct.len() < o.places.len());
    }

    /// `reshape` gives the elements in their order, and shares memory exactly where `view` can.
    #[test]
    fn reshape_keeps_the_order(
        steps in prop::collection::vec(step(), 0..5),
        cut in 1..5_usize,
    ) {
        let (mut x, mut o) = (numbered(&[4, 3, 2]), Oracle::base(&[4, 3, 2]));
        for step in &steps {
            if let Some(next) = take(step, &x, &o).unwrap() {
                (x, o) = next;
            }
        }
        let count = o.places.len() as i64;
        let cut = cut as i64;
        prop_assume!(count % cut == 0 && count > 0);
        let reshaped = x.reshape(&[cut, -1]).unwrap();
        prop_assert_eq!(reshaped.to_vec::<i64>().unwrap(), o.places);
        let as_view = x.view(&[cut, -1]);
        prop_assert_eq!(reshaped.is_alias_of(&x), as_view.is_ok());
        prop_assert_eq!(x.view_copy(&[cut, -1]).unwrap().to_vec::<i64>().unwrap(), reshaped.to_vec::<i64>().unwrap());
    }

    /// No sizes, strides and offset reach beyond the storage, and none overflow.
    #[test]
    fn as_strided_stays_within_the_storage(
        sizes in prop::collection::vec(prop_oneof![-1..5_i64, Just(1 << 62)], 0..4),
        strides in prop::collection::vec(prop_oneof![-1..7_i64, Just(1 << 62)], 0..4),
        offset in prop_oneof![-1..30_i64, Just(i64::MAX)],
    ) {
        let base = numbered(&[24]);
        let result = base.as_strided_with(&sizes, &strides, AsStridedOptions { storage_offset: Some(offset) });
        let valid = sizes.len() == strides.len()
            && offset >= 0
            && sizes.iter().chain(&strides).all(|&number| number >= 0);
        let last = sizes.iter().zip(&strides).map(|(&size, &stride)| (i128::from(size) - 1) * i128::from(stride));
        let end = last.sum::<i128>() + i128::from(offset);
        let empty = sizes.contains(&0);
        match result {
            Ok(view) => {
                prop_assert!(valid && (empty || end < 24));
                if view.numel() > 10_000 {
                    // It fits the storage by strides of 0, and no memory.
                    prop_assert!(view.to_vec::<i64>().is_err());
                    return Ok(());
                }
                let expected: Vec<i64> = indices(&sizes)
                    .map(|at| offset + at.iter().zip(&strides).map(|(i, stride)| i * stride).sum::<i64>())
                    .collect();
                prop_assert_eq!(view.to_vec::<i64>().unwrap(), expected);
            }
            Err(_) => prop_assert!(!valid || end >= 24 || sizes.contains(&(1 << 62))),
        }
    }
}
