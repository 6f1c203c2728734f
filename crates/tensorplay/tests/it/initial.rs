//! Initialisations under a seed, as PyTorch's.

use tensorplay::nn::init::{
    FanMode, Nonlinearity, constant_, eye_, fans, kaiming_normal_, kaiming_uniform_, normal_, ones_,
    trunc_normal_, uniform_, xavier_normal_, xavier_uniform_, zeros_,
};
use tensorplay::prelude::*;

use crate::modules::SEEDED;
use crate::recorded::{assert_close, read, tensor};

#[test]
fn initialisations_draw_what_pytorch_draws() {
    let file = read("modules.json.gz");
    for case in file["initialisations"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let filled = Tensor::empty(&[4, 5, 3], ScalarType::Float32).unwrap();
        let _seeded = SEEDED.lock().unwrap();
        tensorplay::manual_seed(1234);
        match name {
            "uniform" => uniform_(&filled, -2.0, 3.0),
            "normal" => normal_(&filled, 1.0, 2.0),
            "trunc_normal" => trunc_normal_(&filled, 0.5, 2.0, -1.0, 2.0),
            "trunc_normal_tail" => trunc_normal_(&filled, 0.5, 2.0, 3.0, 3.5),
            "xavier_uniform" => xavier_uniform_(&filled, Nonlinearity::Tanh.gain()),
            "xavier_normal" => xavier_normal_(&filled, 1.0),
            "kaiming_uniform" => kaiming_uniform_(&filled, FanMode::Out, Nonlinearity::Relu),
            "kaiming_normal" => kaiming_normal_(&filled, FanMode::In, Nonlinearity::LeakyRelu(0.2)),
            "selu" => kaiming_normal_(&filled, FanMode::In, Nonlinearity::Selu),
            other => panic!("unknown initialisation {other}"),
        }
        .unwrap();
        assert_close(name, &filled, &tensor(&case["value"]), 2e-6);
    }
}

/// A loop that goes on until all is within bounds would not end.
#[test]
fn bounds_far_from_the_mean_are_refused() {
    let _seeded = SEEDED.lock().unwrap();
    let weight = Tensor::full(&[3], 7.0, ScalarType::Float32).unwrap();
    let error = trunc_normal_(&weight, 0.0, 1.0, 1e6, 1e12).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("between 1000000 and 1000000000000"), "{error}");
    assert_eq!(weight.to_vec::<f32>().unwrap(), [7.0; 3]);
    trunc_normal_(&weight, 0.0, 1.0, 5.0, 5.5).unwrap();
    assert!(weight.to_vec::<f32>().unwrap().iter().all(|x| (5.0..=5.5).contains(x)));
}

#[test]
fn a_parameter_is_filled_and_nothing_is_recorded() {
    let weight = Tensor::empty(&[2, 2], ScalarType::Float64).unwrap().requires_grad_(true).unwrap();
    eye_(&weight).unwrap();
    assert_eq!(weight.to_vec::<f64>().unwrap(), [1.0, 0.0, 0.0, 1.0]);
    ones_(&weight).unwrap();
    assert_eq!(weight.to_vec::<f64>().unwrap(), [1.0; 4]);
    constant_(&weight, -3.5).unwrap();
    assert_eq!(weight.to_vec::<f64>().unwrap(), [-3.5; 4]);
    zeros_(&weight).unwrap();
    assert_eq!(weight.to_vec::<f64>().unwrap(), [0.0; 4]);
    assert!(weight.is_leaf() && weight.requires_grad());
}

#[test]
fn connections_are_counted_through_the_kernel() {
    let weight = Tensor::empty(&[6, 4, 3, 2], ScalarType::Float32).unwrap();
    assert_eq!(fans(&weight).unwrap(), (24, 36));
    let bias = Tensor::empty(&[6], ScalarType::Float32).unwrap();
    assert_eq!(fans(&bias).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(xavier_normal_(&bias, 1.0).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(trunc_normal_(&bias, 0.0, 0.0, -1.0, 1.0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(eye_(&bias).unwrap_err().kind(), ErrorKind::Shape);
}
