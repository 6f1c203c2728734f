//! Pooling: the mean or the largest element of each window of a plane.
//!
//! Windows are products of ranges along each dimension, which the operator has worked out; nothing here knows
//! of padding or strides.

use std::hint::select_unpredictable;
use std::ops::Range;

use c10_core::{bf16, f16};

use super::sum::Summed;
use crate::error::{Error, Result};
use crate::parallel::{for_each_piece, for_each_piece_of_two};

/// The elements of a window along a dimension: `first`, `first + step`, …, below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: usize,
    pub(crate) end: usize,
    pub(crate) step: usize,
    /// How many elements count in a mean, padding among them.
    pub(crate) count: usize,
}

impl Window {
    fn len(&self) -> usize {
        self.end.saturating_sub(self.first).div_ceil(self.step)
    }

    fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// Calls `visit` with each element. An iterator that steps would divide to know its length, for each window.
    #[inline]
    fn elements(&self, mut visit: impl FnMut(usize)) {
        let mut element = self.first;
        while element < self.end {
            visit(element);
            element += self.step;
        }
    }
}

/// The windows along each dimension, and the plane that they lie in.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) axes: [Vec<Window>; 3],
    pub(crate) input: [usize; 3],
    /// What means are divided by, in place of the count.
    pub(crate) divisor: Option<i64>,
}

impl Windows {
    fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    fn outputs(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// What there is to do for a plane.
    fn work(&self) -> usize {
        self.axes.iter().map(|axis| axis.iter().map(|window| window.len().max(1)).sum::<usize>()).product()
    }

    /// Calls `visit(outputs, windows)` for each row of outputs of a plane in order, which have one window along the
    /// depth and one along the height.
    fn for_each_row(&self, mut visit: impl FnMut(Range<usize>, [Window; 2])) {
        let [depths, heights, widths] = &self.axes;
        let mut begin = 0;
        for &depth in depths {
            for &height in heights {
                visit(begin..begin + widths.len(), [depth, height]);
                begin += widths.len();
            }
        }
    }

    /// Where the row at a depth and a height begins.
    fn row(&self, [depth, height]: [usize; 2]) -> usize {
        (depth * self.input[1] + height) * self.input[2]
    }

    /// Where the rows begin that windows along depth and height have, in order, in place of what `starts` held.
    fn rows(&self, [depth, height]: [Window; 2], starts: &mut Vec<usize>) {
        starts.clear();
        depth.elements(|z| height.elements(|y| starts.push(self.row([z, y]))));
    }

    fn divisor_of(&self, windows: [Window; 3]) -> i64 {
        self.divisor.unwrap_or_else(|| windows.iter().map(|window| window.count as i64).product())
    }
}

/// An element whose maxima are looked for.
pub(crate) trait Ordered: Summed + PartialOrd {
    const LOWEST: Self;
}

/// An element that has means.
pub(crate) trait Averaged: Summed {
    fn divide(sum: Self::Sum, by: i64) -> Self::Sum;
}

macro_rules! pooled {
    ($($element:ty, $lowest:expr, $divide:expr;)*) => {$(
        impl Ordered for $element {
            const LOWEST: Self = $lowest;
        }

        impl Averaged for $element {
            #[inline]
            fn divide(sum: Self::Sum, by: i64) -> Self::Sum {
                let divide: fn(Self::Sum, i64) -> Self::Sum = $divide;
                divide(sum, by)
            }
        }
    )*};
}

pooled! {
    u8, Self::MIN, |sum, by| (i64::from(sum).wrapping_div(by)) as u8;
    i8, Self::MIN, |sum, by| (i64::from(sum).wrapping_div(by)) as i8;
    i16, Self::MIN, |sum, by| (i64::from(sum).wrapping_div(by)) as i16;
    i32, Self::MIN, |sum, by| (i64::from(sum).wrapping_div(by)) as i32;
    i64, Self::MIN, i64::wrapping_div;
    f16, Self::NEG_INFINITY, |sum, by| sum / by as f32;
    bf16, Self::NEG_INFINITY, |sum, by| sum / by as f32;
    f32, Self::NEG_INFINITY, |sum, by| sum / by as f32;
    f64, Self::NEG_INFINITY, |sum, by| sum / by as f64;
}

/// The largest element of each window and its place in the plane. A NaN is larger than everything, and the
/// last one of a window counts.
pub(crate) fn max<T: Ordered>(windows: &Windows, input: &[T], output: &mut [T], places: &mut [i64]) {
    let (inputs, outputs) = (windows.inputs(), windows.outputs());
    for_each_piece_of_two(output, outputs, places, outputs, windows.work(), |plane, output, places| {
        let input = &input[plane * inputs..][..inputs];
        let mut starts = Vec::new();
        windows.for_each_row(|outputs, rows| {
            windows.rows(rows, &mut starts);
            let has_nan = starts.iter().any(|&start| {
                input[start..][..windows.input[2]].iter().fold(false, |has, &value| has | is_nan(value))
            });
            let first = windows.row(rows.map(|window| window.first));
            let results = output[outputs.clone()].iter_mut().zip(&mut places[outputs]);
            for ((largest, place), window) in results.zip(&windows.axes[2]) {
                let none = first + window.first;
                (*largest, *place) = match has_nan {
                    false => largest_of(input, &starts, window, none, |value, largest| value > largest),
                    true => largest_of(input, &starts, window, none, |value, largest| {
                        value > largest || is_nan(value)
                    }),
                };
            }
        });
    });
}

#[expect(clippy::eq_op, reason = "a NaN is the element that differs from itself")]
fn is_nan<T: PartialEq>(value: T) -> bool {
    value != value
}

/// The largest element that a window has in the rows that begin at `starts`, and its place; `place` where there is
/// none. Which elements are larger than those before is as good as random: no branch.
#[inline]
fn largest_of<T: Ordered>(
    input: &[T],
    starts: &[usize],
    window: &Window,
    mut place: usize,
    is_larger: impl Fn(T, T) -> bool,
) -> (T, i64) {
    let mut largest = T::LOWEST;
    for &start in starts {
        window.elements(|x| {
            let value = input[start + x];
            let is_larger = is_larger(value, largest);
            place = select_unpredictable(is_larger, start + x, place);
            largest = select_unpredictable(is_larger, value, largest);
        });
    }
    (largest, place as i64)
}

/// Adds the gradient of each output to the element at its place.
///
/// # Errors
/// When a place lies outside of the plane; nothing was written.
pub(crate) fn max_backward<T: Summed>(
    inputs: usize,
    outputs: usize,
    grad_output: &[T],
    places: &[i64],
    grad_input: &mut [T],
) -> Result<()> {
    if let Some(place) =
        places.iter().find(|&&place| usize::try_from(place).is_err() || place as usize >= inputs)
    {
        return Err(Error::index(format!("index {place} lies outside of a plane of {inputs} elements")));
    }
    for_each_piece(grad_input, inputs, inputs + outputs, |plane, grad_input| {
        let mut sums = vec![T::Sum::default(); inputs];
        let from = plane * outputs..(plane + 1) * outputs;
        for (&place, grad) in places[from.clone()].iter().zip(&grad_output[from]) {
            let sum = &mut sums[place as usize];
            *sum = T::add(*sum, grad.widen());
        }
        grad_input.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
    });
    Ok(())
}

/// The mean of each window; zero of an empty one.
pub(crate) fn mean<T: Averaged>(windows: &Windows, input: &[T], output: &mut [T]) {
    let (inputs, outputs) = (windows.inputs(), windows.outputs());
    for_each_piece(output, outputs, windows.work(), |plane, output| {
        let input = &input[plane * inputs..][..inputs];
        let mut starts = Vec::new();
        windows.for_each_row(|outputs, rows| {
            windows.rows(rows, &mut starts);
            for (to, &width) in output[outputs].iter_mut().zip(&windows.axes[2]) {
                let mut sum = T::Sum::default();
                for &start in &starts {
                    width.elements(|x| sum = T::add(sum, input[start + x].widen()));
                }
                let window = [rows[0], rows[1], width];
                let is_empty = window.iter().any(Window::is_empty);
                let mean = if is_empty { sum } else { T::divide(sum, windows.divisor_of(window)) };
                *to = T::narrow(mean);
            }
        });
    });
}

/// Adds to each element of a window its share of the output's gradient.
pub(crate) fn mean_backward<T: Averaged>(windows: &Windows, grad_output: &[T], grad_input: &mut [T]) {
    let (inputs, outputs) = (windows.inputs(), windows.outputs());
    for_each_piece(grad_input, inputs, windows.work(), |plane, grad_input| {
        let grad_output = &grad_output[plane * outputs..][..outputs];
        let (mut sums, mut starts) = (vec![T::Sum::default(); inputs], Vec::new());
        windows.for_each_row(|outputs, rows| {
            windows.rows(rows, &mut starts);
            for (grad, &width) in grad_output[outputs].iter().zip(&windows.axes[2]) {
                let window = [rows[0], rows[1], width];
                if window.iter().any(Window::is_empty) {
                    continue;
                }
                let share = T::divide(grad.widen(), windows.divisor_of(window));
                for &start in &starts {
                    width.elements(|x| sums[start + x] = T::add(sums[start + x], share));
                }
            }
        });
        grad_input.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
    });
}

/// Puts each input at its place in an empty plane.
///
/// # Errors
/// When a place lies outside of the plane; nothing was written.
pub(crate) fn unpool<T: Summed>(
    inputs: usize,
    outputs: usize,
    input: &[T],
    places: &[i64],
    output: &mut [T],
) -> Result<()> {
    if let Some(place) =
        places.iter().find(|&&place| usize::try_from(place).is_err() || place as usize >= outputs)
    {
        return Err(Error::index(format!(
            "found an invalid max index: {place} (output volumes are of size {outputs})"
        )));
    }
    for_each_piece(output, outputs, inputs + outputs, |plane, output| {
        output.fill(T::default());
        let from = plane * inputs..(plane + 1) * inputs;
        for (&place, &value) in places[from.clone()].iter().zip(&input[from]) {
            output[place as usize] = value;
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests;
