//! Files of what PyTorch did, and comparison with it.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use tensorplay::{ScalarType, Tensor};

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

pub(crate) fn read(name: &str) -> Value {
    let mut text = String::new();
    let file = std::fs::File::open(path(name)).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A tensor as it is recorded: dtype, sizes, elements in order.
pub(crate) fn tensor(value: &Value) -> Tensor {
    let sizes: Vec<i64> =
        value["size"].as_array().unwrap().iter().map(|size| size.as_i64().unwrap()).collect();
    let data = value["data"].as_array().unwrap();
    match value["dtype"].as_str().unwrap() {
        "int64" => {
            let data: Vec<i64> = data.iter().map(|number| number.as_i64().unwrap()).collect();
            Tensor::from_slice(&data, &sizes).unwrap()
        }
        dtype => {
            let data: Vec<f64> = data.iter().map(number).collect();
            let tensor = Tensor::from_slice(&data, &sizes).unwrap();
            tensor.to(dtype.parse::<ScalarType>().unwrap()).unwrap()
        }
    }
}

/// A number; Python writes those that are not finite as words, which are not recorded here.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// Asserts that sizes are the same and elements differ by no more than `tolerance`, relative above one.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &Tensor, wanted: &Tensor, tolerance: f64) {
    assert_eq!(got.sizes(), wanted.sizes(), "{what}: sizes");
    assert_eq!(got.dtype(), wanted.dtype(), "{what}: dtype");
    let elements =
        |tensor: &Tensor| tensor.detach().unwrap().to(ScalarType::Float64).unwrap().to_vec::<f64>().unwrap();
    for (index, (got, wanted)) in elements(got).into_iter().zip(elements(wanted)).enumerate() {
        let far = (got - wanted).abs() / wanted.abs().max(1.0);
        assert!(far <= tolerance, "{what}: element {index} is {got:e}, and PyTorch's is {wanted:e}");
    }
}
