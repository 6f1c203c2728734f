//! Schedules of learning rates and momenta, as PyTorch's.

use tensorplay::optim::schedule::*;
use tensorplay::optim::{Adagrad, AdagradOptions, Sgd, SgdOptions};
use tensorplay::prelude::*;

use crate::recorded::{numbers, read};

fn optimizer() -> Sgd {
    let weight = Tensor::zeros(&[1], ScalarType::Float32).unwrap().requires_grad_(true).unwrap();
    Sgd::new(vec![weight], SgdOptions { lr: 0.1, momentum: 0.9, ..Default::default() }).unwrap()
}

fn scheduler(name: &str, optimizer: &mut Sgd) -> Result<Box<dyn Scheduler>> {
    Ok(match name {
        "multi_step" => Box::new(MultiStepLr::new(&[2, 5, 5], 0.5)),
        "constant" => Box::new(ConstantLr::new(optimizer, 0.25, 4)?),
        "polynomial" => Box::new(PolynomialLr::new(6, 2.0)),
        "lambda" => Box::new(LambdaLr::new(optimizer, |step| 1.0 / (1.0 + step as f64))?),
        "cosine" => Box::new(CosineAnnealingLr::new(optimizer, 3, 0.01)?),
        "linear" => Box::new(LinearLr::new(optimizer, 0.5, 0.9, 4)?),
        "one_cycle" => {
            let config = OneCycleConfig { pct_start: 0.4, ..Default::default() };
            Box::new(OneCycleLr::new(optimizer, 0.5, 10, config)?)
        }
        "one_cycle_three" => {
            let config = OneCycleConfig {
                three_phase: true,
                anneal: Anneal::Linear,
                div_factor: 5.0,
                ..Default::default()
            };
            Box::new(OneCycleLr::new(optimizer, 0.5, 10, config)?)
        }
        other => panic!("unknown schedule {other}"),
    })
}

#[test]
fn schedules_are_pytorchs() {
    let file = read("modules.json.gz");
    let cases = file["schedules"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let mut optimizer = optimizer();
        let mut scheduler = scheduler(name, &mut optimizer).unwrap();
        for (step, wanted) in case["values"].as_array().unwrap().iter().enumerate() {
            let got = [optimizer.lr(0).unwrap(), optimizer.setting(0, "momentum").unwrap()];
            for (got, wanted) in got.into_iter().zip(numbers(wanted)) {
                assert!((got - wanted).abs() < 1e-14, "{name}, step {step}: {got} and not {wanted}");
            }
            assert_eq!(scheduler.steps(), step as u64);
            scheduler.step(&mut optimizer).unwrap();
        }
    }
}

#[test]
fn a_schedule_ends_where_it_said() {
    let mut optimizer = optimizer();
    let mut cycle = OneCycleLr::new(&mut optimizer, 0.5, 2, OneCycleConfig::default()).unwrap();
    cycle.step(&mut optimizer).unwrap();
    cycle.step(&mut optimizer).unwrap();
    let before = optimizer.lr(0);
    assert_eq!(cycle.step(&mut optimizer).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(optimizer.lr(0), before);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mut optimizer = optimizer();
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(StepLr::new(0, 0.5).map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(kind(CosineAnnealingLr::new(&optimizer, 0, 0.0).map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(kind(LinearLr::new(&mut optimizer, 0.0, 1.0, 5).map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(kind(ConstantLr::new(&mut optimizer, 2.0, 5).map(drop)), ErrorKind::InvalidArgument);
    let weight = Tensor::zeros(&[1], ScalarType::Float32).unwrap();
    let mut without_momentum = Adagrad::new(vec![weight], AdagradOptions::default()).unwrap();
    let cycle = OneCycleLr::new(&mut without_momentum, 0.5, 10, OneCycleConfig::default());
    assert_eq!(kind(cycle.map(drop)), ErrorKind::InvalidArgument);
    assert_eq!(optimizer.lr(0), Some(0.1));
}
