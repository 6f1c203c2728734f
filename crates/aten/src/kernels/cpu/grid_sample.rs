//! Images sampled at the places of a grid.
//!
//! A place is three numbers between -1 and 1: width, height, depth; an image of two dimensions is one of depth
//! 1, whose depth is not blended.
//!
//! Half precision rounds after every operation, places and weights too, as PyTorch's does.

use super::blend::Weight;
use crate::parallel::for_each_piece_of_two;
use crate::tensor::Plain;

/// How elements between elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpolation {
    Linear,
    Nearest,
    Cubic,
}

/// What stands beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    Zeros,
    Border,
    Reflection,
}

/// What is sampled, and how.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(crate) interpolation: Interpolation,
    pub(crate) beyond: Beyond,
    pub(crate) align_corners: bool,
    pub(crate) channels: usize,
    pub(crate) input: [usize; 3],
    /// How many places an image is sampled at.
    pub(crate) places: usize,
    /// Two or three dimensions.
    pub(crate) rank: usize,
}

/// Elements along one dimension, the weight of each, and how the weight changes with the place.
#[derive(Clone, Copy, Debug, Default)]
struct Taps<W> {
    len: usize,
    places: [Option<usize>; 4],
    weights: [W; 4],
    slopes: [W; 4],
}

impl Sampling {
    fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    /// The place in elements, and how it changes with the grid's number.
    fn unnormalized<W: Weight>(&self, at: W, len: usize) -> (W, W) {
        let (one, two) = (W::of(1.0), W::of(2.0));
        if self.align_corners {
            let last = W::of(len as f64 - 1.0);
            ((at + one) / two * last, last / two)
        } else {
            let len = W::of(len as f64);
            (((at + one) * len - one) / two, len / two)
        }
    }

    /// The place brought back into the image, and the sign that its change got.
    fn inside<W: Weight>(&self, at: W, len: usize) -> (W, W) {
        match self.beyond {
            Beyond::Zeros => (at, W::of(1.0)),
            Beyond::Border => clipped(at, len),
            Beyond::Reflection => {
                let (low, high) =
                    if self.align_corners { (0, 2 * (len as i64 - 1)) } else { (-1, 2 * len as i64 - 1) };
                let (reflected, slope) = reflected(at, low, high);
                let (clipped, inner) = clipped(reflected, len);
                (clipped, slope * inner)
            }
        }
    }

    fn taps<W: Weight>(&self, at: W, len: usize) -> Taps<W> {
        let (at, slope) = self.unnormalized(at, len);
        let on = |place: W| -> Option<usize> {
            let in_range = place >= W::of(0.0) && place < W::of(len as f64);
            in_range.then(|| place.to_i64() as usize)
        };
        let mut taps = Taps::default();
        match self.interpolation {
            Interpolation::Linear => {
                let (at, inner) = self.inside(at, len);
                let slope = slope * inner;
                let first = at.floor();
                let rest = at - first;
                let one = W::of(1.0);
                taps.len = 2;
                taps.places[..2].copy_from_slice(&[on(first), on(first + one)]);
                taps.weights[..2].copy_from_slice(&[one - rest, rest]);
                taps.slopes[..2].copy_from_slice(&[-slope, slope]);
            }
            Interpolation::Nearest => {
                let (at, _) = self.inside(at, len);
                taps.len = 1;
                taps.places[0] = on(at.round());
                taps.weights[0] = W::of(1.0);
            }
            Interpolation::Cubic => {
                let first = at.floor();
                let (weights, slopes) = cubic(at - first);
                taps.len = 4;
                for (tap, inner) in slopes.into_iter().enumerate() {
                    let place = first + W::of(tap as f64 - 1.0);
                    taps.places[tap] = on(self.inside(place, len).0);
                    taps.slopes[tap] = inner * slope;
                }
                taps.weights = weights;
            }
        }
        taps
    }

    /// The taps along depth, height and width at a place of the grid.
    fn all_taps<W: Weight>(&self, grid: &[W]) -> [Taps<W>; 3] {
        std::array::from_fn(|dim| match grid.get(2 - dim) {
            Some(&at) => self.taps(at, self.input[dim]),
            None => {
                let mut taps = Taps { len: 1, ..Taps::default() };
                taps.places[0] = Some(0);
                taps.weights[0] = W::of(1.0);
                taps
            }
        })
    }
}

fn clipped<W: Weight>(at: W, len: usize) -> (W, W) {
    let last = W::of(len as f64 - 1.0);
    // A place that is no number goes to the first element, too.
    if at > W::of(0.0) {
        if at >= last { (last, W::of(0.0)) } else { (at, W::of(1.0)) }
    } else {
        (W::of(0.0), W::of(0.0))
    }
}

/// Reflected between two bounds, which come doubled so that they are whole.
fn reflected<W: Weight>(at: W, low: i64, high: i64) -> (W, W) {
    if low == high {
        return (W::of(0.0), W::of(0.0));
    }
    let (low, span) = (W::of(low as f64 / 2.0), W::of((high - low) as f64 / 2.0));
    let from_low = at - low;
    let (from_low, sign) =
        if from_low < W::of(0.0) { (-from_low, -W::of(1.0)) } else { (from_low, W::of(1.0)) };
    let flips = (from_low / span).floor();
    let extra = from_low - flips * span;
    let is_even = (flips / W::of(2.0)).floor() * W::of(2.0) == flips;
    if is_even { (extra + low, sign) } else { (span - extra + low, -sign) }
}

/// Weights of a cubic convolution with the coefficient -0.75, and their slopes.
fn cubic<W: Weight>(rest: W) -> ([W; 4], [W; 4]) {
    let n = W::of;
    let a = n(-0.75);
    let one = n(1.0);
    let near = |x: W| ((a + n(2.0)) * x - (a + n(3.0))) * x * x + one;
    let far = |x: W| ((a * x - n(5.0) * a) * x + n(8.0) * a) * x - n(4.0) * a;
    let near_slope = |x: W| (n(3.0) * (a + n(2.0)) * x - n(2.0) * (a + n(3.0))) * x;
    let far_slope = |x: W| (n(3.0) * a * x - n(10.0) * a) * x + n(8.0) * a;
    let (before, second, third) = (rest + one, one - rest, n(2.0) - rest);
    (
        [far(before), near(rest), near(second), far(third)],
        [far_slope(before), near_slope(rest), -near_slope(second), -far_slope(third)],
    )
}

/// Calls `visit(place, weight, [slopes])` for the elements that are blended: their place in the plane, and how
/// the weight changes along depth, height and width.
fn for_each_tap<W: Weight>(taps: &[Taps<W>; 3], input: [usize; 3], mut visit: impl FnMut(usize, W, [W; 3])) {
    let [depth, height, width] = taps;
    for z in 0..depth.len {
        for y in 0..height.len {
            for x in 0..width.len {
                let (Some(at_z), Some(at_y), Some(at_x)) =
                    (depth.places[z], height.places[y], width.places[x])
                else {
                    continue;
                };
                let [wz, wy, wx] = [depth.weights[z], height.weights[y], width.weights[x]];
                let slopes =
                    [depth.slopes[z] * wy * wx, wz * height.slopes[y] * wx, wz * wy * width.slopes[x]];
                visit((at_z * input[1] + at_y) * input[2] + at_x, wx * wy * wz, slopes);
            }
        }
    }
}

/// Samples `input` at the places of `grid`.
pub(crate) fn sample<T: Weight + Plain>(sampling: &Sampling, input: &[T], grid: &[T], output: &mut [T]) {
    let (inputs, places, channels) = (sampling.inputs(), sampling.places, sampling.channels);
    let work = channels * places * 8;
    for_each_piece_of_two(output, channels * places, &mut [(); 0], 0, work, |image, output, _| {
        let input = &input[image * channels * inputs..][..channels * inputs];
        let grid = &grid[image * places * sampling.rank..][..places * sampling.rank];
        for (place, at) in grid.chunks_exact(sampling.rank).enumerate() {
            let taps = sampling.all_taps(at);
            for channel in 0..channels {
                let plane = &input[channel * inputs..][..inputs];
                let mut sum = T::default();
                for_each_tap(&taps, sampling.input, |at, weight, _| sum = sum + plane[at] * weight);
                output[channel * places + place] = sum;
            }
        }
    });
}

/// The gradients of `input` and `grid`.
pub(crate) fn sample_backward<T: Weight + Plain>(
    sampling: &Sampling,
    grad_output: &[T],
    input: &[T],
    grid: &[T],
    grad_input: &mut [T],
    grad_grid: &mut [T],
) {
    let (inputs, places, channels) = (sampling.inputs(), sampling.places, sampling.channels);
    let (rank, work) = (sampling.rank, channels * places * 8);
    let pieces = (channels * inputs, places * rank);
    for_each_piece_of_two(grad_input, pieces.0, grad_grid, pieces.1, work, |image, grad_input, grad_grid| {
        let input = &input[image * pieces.0..][..pieces.0];
        let grid = &grid[image * pieces.1..][..pieces.1];
        let grad_output = &grad_output[image * channels * places..][..channels * places];
        let mut sums = vec![T::default(); grad_input.len()];
        for (place, at) in grid.chunks_exact(rank).enumerate() {
            let taps = sampling.all_taps(at);
            let mut of_place = [T::default(); 3];
            for channel in 0..channels {
                let grad = grad_output[channel * places + place];
                let first = channel * inputs;
                for_each_tap(&taps, sampling.input, |at, weight, slopes| {
                    sums[first + at] = sums[first + at] + grad * weight;
                    let value = input[first + at] * grad;
                    of_place.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum = *sum + value * slope);
                });
            }
            // Width comes first in the grid.
            for (to, sum) in grad_grid[place * rank..][..rank].iter_mut().zip(of_place.iter().rev()) {
                *to = *sum;
            }
        }
        grad_input.copy_from_slice(&sums);
    });
}
