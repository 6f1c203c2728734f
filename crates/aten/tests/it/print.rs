//! Tensors as text: what PyTorch printed for the same elements is in `testdata/print.txt`.

use aten::{PrintOptions, Tensor};
use c10_core::{Complex, Device, Element, Scalar, ScalarType, bf16, f16};

/// The elements after the sizes: `iota COUNT DIVISOR`, or each of them.
fn scalars(spec: &str) -> Vec<Scalar> {
    let words: Vec<&str> = spec.split_whitespace().collect();
    if let ["iota", count, divisor] = words[..] {
        let (count, divisor): (i64, f64) = (count.parse().unwrap(), divisor.parse().unwrap());
        return (0..count)
            .map(|i| if divisor == 1.0 { i.into() } else { (i as f64 / divisor).into() })
            .collect();
    }
    words.into_iter().map(scalar).collect()
}

fn scalar(word: &str) -> Scalar {
    if let Some((re, im)) = word.split_once(',') {
        return Scalar::Complex(Complex::new(re.parse().unwrap(), im.parse().unwrap()));
    }
    match word.parse::<i64>() {
        Ok(value) => value.into(),
        Err(_) => word.parse::<f64>().unwrap().into(),
    }
}

fn tensor(dtype: &str, sizes: &[i64], values: &[Scalar]) -> Tensor {
    fn of<T: Element>(sizes: &[i64], values: &[Scalar]) -> Tensor {
        let values: Vec<T> = values.iter().map(|value| value.to::<T>().unwrap()).collect();
        Tensor::from_slice(&values, sizes).unwrap()
    }
    match dtype {
        "bool" => of::<bool>(sizes, values),
        "uint8" => of::<u8>(sizes, values),
        "int8" => of::<i8>(sizes, values),
        "int16" => of::<i16>(sizes, values),
        "int32" => of::<i32>(sizes, values),
        "int64" => of::<i64>(sizes, values),
        "float16" => of::<f16>(sizes, values),
        "bfloat16" => of::<bf16>(sizes, values),
        "float32" => of::<f32>(sizes, values),
        "float64" => of::<f64>(sizes, values),
        "complex64" => of::<Complex<f32>>(sizes, values),
        "complex128" => of::<Complex<f64>>(sizes, values),
        other => panic!("{other}"),
    }
}

fn options(text: &str) -> PrintOptions {
    let mut options = PrintOptions::default();
    for (name, value) in text.split_whitespace().map(|word| word.split_once('=').unwrap()) {
        match name {
            "precision" => options.precision = value.parse().unwrap(),
            "threshold" => options.threshold = value.parse().unwrap(),
            "edgeitems" => options.edge_items = value.parse().unwrap(),
            "linewidth" => options.line_width = value.parse().unwrap(),
            "sci_mode" => options.sci_mode = Some(value == "True"),
            other => panic!("{other}"),
        }
    }
    options
}

/// Splits `DTYPE [SIZES] [VALUES] OPTIONS`.
fn header(line: &str) -> (&str, Vec<i64>, Vec<Scalar>, PrintOptions) {
    let (dtype, rest) = line.split_once(" [").unwrap();
    let (sizes, rest) = rest.split_once("] [").unwrap();
    let (values, rest) = rest.split_once(']').unwrap();
    let sizes = sizes.split(", ").filter(|size| !size.is_empty()).map(|size| size.parse().unwrap()).collect();
    (dtype, sizes, scalars(values), options(rest))
}

#[test]
fn tensors_print_as_in_pytorch() {
    let cases = include_str!("testdata/print.txt").split("\n== ").skip(1);
    let mut count = 0;
    for case in cases {
        let (line, expected) = case.split_once('\n').unwrap();
        let (dtype, sizes, values, options) = header(line);
        let x = tensor(dtype, &sizes, &values);
        assert_eq!(x.printed(options).to_string(), expected.trim_end_matches('\n'), "{line}");
        count += 1;
    }
    assert!(count > 90, "{count}");
}

/// Strides and offset do not show.
#[test]
fn a_view_prints_as_its_copy() {
    let x = tensor("float32", &[4, 5, 3], &scalars("iota 60 7"));
    let view = x.permute(&[2, 0, 1]).unwrap().select(1, 2).unwrap();
    assert_eq!(view.to_string(), view.deep_clone().unwrap().to_string());
    let wide = tensor("int64", &[1], &scalars("7")).expand(&[3, 2000]).unwrap();
    insta::assert_snapshot!(wide, @r"
    tensor([[7, 7, 7,  ..., 7, 7, 7],
            [7, 7, 7,  ..., 7, 7, 7],
            [7, 7, 7,  ..., 7, 7, 7]])
    ");
}

#[test]
fn a_meta_tensor_prints_its_size() {
    let x = Tensor::from_slice(&[1.0_f32, 2.0], &[2, 1]).unwrap().to(Device::META).unwrap();
    insta::assert_snapshot!(x, @"tensor(..., device='meta', size=(2, 1))");
    insta::assert_snapshot!(x.to(ScalarType::Int64).unwrap(), @"tensor(..., device='meta', size=(2, 1), dtype=torch.int64)");
}

#[test]
fn debug_tells_where_the_elements_are() {
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let text = format!("{:?}", x.t().unwrap().select(0, 1).unwrap());
    assert!(
        text.starts_with("Tensor { dtype: float32, device: cpu, sizes: [2], strides: [2], storage_offset: 1"),
        "{text}"
    );
}
