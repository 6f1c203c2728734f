use proptest::prelude::*;

use super::backward::{backward_bias, backward_input, backward_weight};
use super::forward::forward;
use super::geometry::{ConvGeometry, output_len};

/// Calls `visit(output, weight, input)` for every product that a convolution sums.
fn naive(g: &ConvGeometry, mut visit: impl FnMut(usize, usize, usize)) {
    let place = |dim: usize, output: usize, tap: usize| {
        (output * g.stride[dim] + tap * g.dilation[dim])
            .checked_sub(g.padding[dim])
            .filter(|&place| place < g.input[dim])
    };
    for image in 0..g.batch * g.groups {
        for channel_out in 0..g.channels_out {
            for output in 0..g.output_len() {
                let [oz, oy, ox] = [
                    output / (g.output[1] * g.output[2]),
                    output / g.output[2] % g.output[1],
                    output % g.output[2],
                ];
                for depth in 0..g.depth() {
                    let [kz, ky, kx] = g.tap(depth % g.taps());
                    let (Some(z), Some(y), Some(x)) = (place(0, oz, kz), place(1, oy, ky), place(2, ox, kx))
                    else {
                        continue;
                    };
                    let channel = image * g.channels_in + depth / g.taps();
                    visit(
                        (image * g.channels_out + channel_out) * g.output_len() + output,
                        (image % g.groups * g.channels_out + channel_out) * g.depth() + depth,
                        channel * g.input_len() + (z * g.input[1] + y) * g.input[2] + x,
                    );
                }
            }
        }
    }
}

fn geometries() -> impl Strategy<Value = ConvGeometry> {
    let dim = || (1..9_usize, 1..4_usize, 1..4_usize, 0..4_usize, 1..4_usize);
    let short = || (1..4_usize, 1..3_usize, 1..3_usize, 0..2_usize, 1..3_usize);
    let counts = (1..4_usize, 1..4_usize, 0..5_usize, 1..18_usize);
    (
        counts,
        [
            short().boxed(),
            dim().boxed(),
            (1..40_usize, 1..4_usize, 1..4_usize, 0..4_usize, 1..4_usize).boxed(),
        ],
    )
        .prop_filter_map("the kernel fits", |((batch, groups, channels_in, channels_out), dims)| {
            let mut output = [0; 3];
            for (output, &(input, kernel, stride, padding, dilation)) in output.iter_mut().zip(&dims) {
                *output = output_len(input, kernel, stride, padding, dilation)?;
            }
            Some(ConvGeometry {
                batch,
                groups,
                channels_in,
                channels_out,
                input: dims.map(|dim| dim.0),
                kernel: dims.map(|dim| dim.1),
                stride: dims.map(|dim| dim.2),
                padding: dims.map(|dim| dim.3),
                dilation: dims.map(|dim| dim.4),
                output,
            })
        })
}

/// Whole numbers, so that sums are exact in every order.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed * 5) % 11) as f32 - 5.0).collect()
}

/// Whether the convolution and its gradients are what the loops make of the same numbers.
fn equal_the_naive_loops(g: &ConvGeometry) {
    let inputs = g.batch * g.groups * g.channels_in * g.input_len();
    let weights = g.groups * g.channels_out * g.depth();
    let outputs = g.batch * g.groups * g.channels_out * g.output_len();
    let (input, weight) = (numbers(inputs, 1), numbers(weights, 2));
    let bias = numbers(g.groups * g.channels_out, 3);
    let grad = numbers(outputs, 4);

    let mut expected: Vec<f32> =
        (0..outputs).map(|output| bias[output / g.output_len() % bias.len()]).collect();
    let mut expected_input = vec![0.0; inputs];
    let mut expected_weight = vec![0.0; weights];
    let mut expected_bias = vec![0.0; bias.len()];
    naive(g, |o, w, i| {
        expected[o] += weight[w] * input[i];
        expected_input[i] += weight[w] * grad[o];
        expected_weight[w] += input[i] * grad[o];
    });
    for (output, grad) in grad.iter().enumerate() {
        expected_bias[output / g.output_len() % bias.len()] += grad;
    }

    let mut output = vec![f32::NAN; outputs];
    forward(g, &input, &weight, Some(&bias), &mut output);
    assert_eq!(output, expected);
    let mut grad_input = vec![f32::NAN; inputs];
    backward_input(g, &grad, &weight, &mut grad_input);
    assert_eq!(grad_input, expected_input);
    let mut grad_weight = vec![f32::NAN; weights];
    backward_weight(g, &grad, &input, &mut grad_weight);
    assert_eq!(grad_weight, expected_weight);
    let mut grad_bias = vec![f32::NAN; bias.len()];
    backward_bias(g.batch, &grad, &mut grad_bias);
    assert_eq!(grad_bias, expected_bias);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn convolution_and_gradients_equal_the_naive_loops(g in geometries()) {
        equal_the_naive_loops(&g);
    }
}

/// The patches of a whole row would be too many to hold.
#[test]
fn long_rows_of_deep_patches() {
    let (input, kernel, stride, padding, dilation) = (1900, 7, 2, 3, 2);
    let output = output_len(input, kernel, stride, padding, dilation).unwrap();
    let along = |of: usize| [1, 2, of];
    for channels_in in [1, 60] {
        equal_the_naive_loops(&ConvGeometry {
            batch: 2,
            groups: 2,
            channels_in,
            channels_out: 3,
            input: along(input),
            kernel: [1, 1, kernel],
            stride: [1, 1, stride],
            padding: [0, 0, padding],
            dilation: [1, 1, dilation],
            output: along(output),
        });
    }
}
