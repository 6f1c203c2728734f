use proptest::prelude::*;

use super::*;

/// Windows of an axis of `len` elements: of any place and step, some of them empty.
fn axis(len: usize) -> impl Strategy<Value = Vec<Window>> {
    let window = (0..len, 0..len + 1, 1..3_usize);
    let window = window.prop_map(|(first, end, step)| Window { first, end, step, count: 1 + first });
    prop::collection::vec(window, 1..4)
}

fn windows() -> impl Strategy<Value = Windows> {
    (1..3_usize, 1..5_usize, 1..7_usize).prop_flat_map(|(depth, height, width)| {
        (axis(depth), axis(height), axis(width)).prop_map(move |(z, y, x)| Windows {
            axes: [z, y, x],
            input: [depth, height, width],
            divisor: None,
        })
    })
}

/// The places of each window's elements in order.
fn places(windows: &Windows) -> Vec<([Window; 3], Vec<usize>)> {
    let along = |window: &Window| (window.first..window.end).step_by(window.step).collect::<Vec<_>>();
    let mut all = Vec::new();
    for z in &windows.axes[0] {
        for y in &windows.axes[1] {
            for x in &windows.axes[2] {
                let mut places = Vec::new();
                for depth in along(z) {
                    for height in along(y) {
                        let row = (depth * windows.input[1] + height) * windows.input[2];
                        places.extend(along(x).into_iter().map(|width| row + width));
                    }
                }
                all.push(([*z, *y, *x], places));
            }
        }
    }
    all
}

/// Two planes of few different numbers, so that some are equal; one in eight of the second plane's is a NaN.
fn planes(windows: &Windows, seed: usize) -> Vec<f32> {
    let len = windows.inputs();
    let number = |i: usize| (i * 7 + seed) % 8;
    (0..2 * len).map(|i| if i >= len && number(i) == 5 { f32::NAN } else { number(i) as f32 - 4.0 }).collect()
}

proptest! {
    #[test]
    fn maxima_and_means_equal_the_naive_loops(windows in windows(), seed in 0..8_usize) {
        let (inputs, outputs) = (windows.inputs(), windows.outputs());
        let input = planes(&windows, seed);
        let (mut largest, mut at, mut means) =
            (vec![0.5; 2 * outputs], vec![-1; 2 * outputs], vec![0.5; 2 * outputs]);
        max(&windows, &input, &mut largest, &mut at);
        mean(&windows, &input, &mut means);
        let grads: Vec<f32> = (0..2 * outputs).map(|i| (i + seed) as f32).collect();
        let mut grad_input = vec![0.5; 2 * inputs];
        mean_backward(&windows, &grads, &mut grad_input);
        for plane in 0..2 {
            let input = &input[plane * inputs..][..inputs];
            let mut sums = vec![0.0; inputs];
            for (output, (window, places)) in places(&windows).into_iter().enumerate() {
                let index = plane * outputs + output;
                let [z, y, x] = window.map(|window| window.first);
                let mut expected = (f32::NEG_INFINITY, (z * windows.input[1] + y) * windows.input[2] + x);
                let mut sum = 0.0;
                let count = window.iter().map(|window| window.count as f32).product::<f32>();
                for &place in &places {
                    if input[place] > expected.0 || input[place].is_nan() {
                        expected = (input[place], place);
                    }
                    sum += input[place];
                    sums[place] += grads[index] / count;
                }
                prop_assert_eq!(largest[index].to_bits(), expected.0.to_bits());
                prop_assert_eq!(at[index], expected.1 as i64);
                let expected: f32 = if places.is_empty() { 0.0 } else { sum / count };
                prop_assert_eq!(means[index].to_bits(), expected.to_bits());
            }
            prop_assert_eq!(&grad_input[plane * inputs..][..inputs], &sums);
        }
    }
}
