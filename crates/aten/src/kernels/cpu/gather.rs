//! Planes whose rows, columns and depths are taken from those of another plane by tables: padding that reflects
//! or repeats, and enlarging without blending.

use super::sum::Summed;
use crate::parallel::for_each_piece;
use crate::tensor::Plain;

/// Where the elements along each dimension come from, and the plane that they come from.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) axes: [Vec<usize>; 3],
    pub(crate) input: [usize; 3],
}

impl Tables {
    fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    fn outputs(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// Calls `visit(output, input)` for the rows of a plane: the place of their first element, and of the row that
    /// they come from.
    fn rows(&self, mut visit: impl FnMut(usize, usize)) {
        let [depths, heights, widths] = &self.axes;
        let mut output = 0;
        for z in depths {
            for y in heights {
                visit(output, (z * self.input[1] + y) * self.input[2]);
                output += widths.len();
            }
        }
    }
}

/// Copies the elements that the tables name.
pub(crate) fn gather<T: Plain>(tables: &Tables, input: &[T], output: &mut [T]) {
    let (inputs, outputs) = (tables.inputs(), tables.outputs());
    let widths = &tables.axes[2];
    for_each_piece(output, outputs, outputs, |plane, output| {
        let input = &input[plane * inputs..][..inputs];
        tables.rows(|to, from| {
            let from = &input[from..][..tables.input[2]];
            let to = output[to..][..widths.len()].iter_mut();
            to.zip(widths).for_each(|(to, &x)| *to = from[x]);
        });
    });
}

/// Adds to each input the gradients of the elements that were copied from it.
pub(crate) fn scatter_add<T: Summed>(tables: &Tables, grad_output: &[T], grad_input: &mut [T]) {
    let (inputs, outputs) = (tables.inputs(), tables.outputs());
    let widths = &tables.axes[2];
    for_each_piece(grad_input, inputs, inputs + outputs, |plane, grad_input| {
        let grad_output = &grad_output[plane * outputs..][..outputs];
        let mut sums = vec![T::Sum::default(); inputs];
        tables.rows(|from, to| {
            let sums = &mut sums[to..][..tables.input[2]];
            for (grad, &x) in grad_output[from..].iter().zip(widths) {
                sums[x] = T::add(sums[x], grad.widen());
            }
        });
        grad_input.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
    });
}
