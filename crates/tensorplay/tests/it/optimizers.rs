//! Optimisers: groups, settings, state, clipping.

use tensorplay::optim::{
    Adagrad, AdagradOptions, Adam, AdamOptions, AdamW, AdamWOptions, ClipOptions, Group, OptimizerState,
    RmsProp, RmsPropOptions, Sgd, SgdOptions, clip_grad_norm_, clip_grad_value_,
};
use tensorplay::prelude::*;

fn parameter(elements: &[f64]) -> Tensor {
    Tensor::from_elements(elements).unwrap().requires_grad_(true).unwrap()
}

fn give(parameter: &Tensor, gradient: &[f64]) {
    parameter.set_grad(Some(&Tensor::from_elements(gradient).unwrap())).unwrap();
}

#[test]
fn groups_have_their_own_settings() {
    let (slow, fast) = (parameter(&[1.0]), parameter(&[1.0]));
    let group = |parameter: &Tensor, lr| Group {
        parameters: vec![parameter.clone()],
        options: SgdOptions { lr, ..Default::default() },
    };
    let mut optimizer = Sgd::with_groups(vec![group(&slow, 0.1), group(&fast, 0.5)]).unwrap();
    give(&slow, &[1.0]);
    give(&fast, &[1.0]);
    optimizer.step().unwrap();
    assert_eq!((slow.item().unwrap(), fast.item().unwrap()), (0.9_f64.into(), 0.5_f64.into()));
    optimizer.set_setting(0, "lr", 0.2).unwrap();
    assert_eq!((optimizer.lr(0), optimizer.lr(1), optimizer.lr(2)), (Some(0.2), Some(0.5), None));
    optimizer.zero_grad().unwrap();
    optimizer.step().unwrap();
    assert_eq!(fast.item().unwrap(), 0.5_f64);
    let again = optimizer.add_group(group(&slow, 0.1)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_step_goes_up_when_it_is_to() {
    let x = parameter(&[1.0, 2.0]);
    let mut optimizer =
        Sgd::new(vec![x.clone()], SgdOptions { lr: 0.5, maximize: true, ..Default::default() }).unwrap();
    give(&x, &[1.0, -2.0]);
    optimizer.step().unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.5, 1.0]);
    assert!(x.is_leaf() && x.grad_fn().unwrap().is_none());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let x = parameter(&[1.0]);
    let all = || vec![x.clone()];
    let kinds = [
        Sgd::new(all(), SgdOptions { lr: -1.0, ..Default::default() }).map(drop),
        Sgd::new(all(), SgdOptions { nesterov: true, ..Default::default() }).map(drop),
        Sgd::new(all(), SgdOptions { lr: f64::NAN, ..Default::default() }).map(drop),
        Adam::new(all(), AdamOptions { beta1: 1.0, ..Default::default() }).map(drop),
        AdamW::new(all(), AdamWOptions { eps: -1.0, ..Default::default() }).map(drop),
        RmsProp::new(all(), RmsPropOptions { alpha: -0.5, ..Default::default() }).map(drop),
        Adagrad::new(all(), AdagradOptions { lr_decay: -0.5, ..Default::default() }).map(drop),
        Sgd::new(vec![], SgdOptions::default()).map(drop),
        Sgd::new(vec![x.clone(), x.clone()], SgdOptions::default()).map(drop),
        Sgd::new(vec![x.add(&x).unwrap()], SgdOptions::default()).map(drop),
    ];
    for (index, result) in kinds.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument, "{index}");
    }
    let mut optimizer = Sgd::new(all(), SgdOptions::default()).unwrap();
    for (group, name, value) in [(0, "beta1", 0.5), (1, "lr", 0.5), (0, "lr", -0.5)] {
        assert_eq!(optimizer.set_setting(group, name, value).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(optimizer.lr(0), Some(1e-3));
}

/// Runs steps with gradients that depend on the step.
fn run(optimizer: &mut dyn Optimizer, x: &Tensor, steps: std::ops::Range<u64>) {
    for step in steps {
        give(x, &[(step as f64).sin() + 0.5, (step as f64).cos()]);
        optimizer.step().unwrap();
    }
}

/// Runs an optimiser to the end, and another with a break between, and compares.
fn goes_on(make: impl Fn(Vec<Tensor>) -> Box<dyn Optimizer>, slots: &[&str]) {
    let (x, y) = (parameter(&[1.0, -2.0]), parameter(&[1.0, -2.0]));
    run(&mut *make(vec![x.clone()]), &x, 0..9);
    let mut first = make(vec![y.clone()]);
    run(&mut *first, &y, 0..4);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("optimizer.safetensors");
    first.state().unwrap().save(&file).unwrap();
    drop(first);
    let state = OptimizerState::load(&file).unwrap();
    let names: Vec<&str> = state.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, slots);
    let mut second = make(vec![y.clone()]);
    second.set_setting(0, "lr", 0.0).unwrap();
    second.load_state(&state).unwrap();
    run(&mut *second, &y, 4..9);
    assert_eq!(x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
}

#[test]
fn an_optimizer_goes_on_from_its_file() {
    goes_on(
        |all| {
            let options = SgdOptions { lr: 0.1, momentum: 0.9, nesterov: true, ..Default::default() };
            Box::new(Sgd::new(all, options).unwrap())
        },
        &["state.0.momentum_buffer", "state.0.step"],
    );
    goes_on(
        |all| Box::new(Adam::new(all, AdamOptions { lr: 0.1, amsgrad: true, ..Default::default() }).unwrap()),
        &["state.0.exp_avg", "state.0.exp_avg_sq", "state.0.max_exp_avg_sq", "state.0.step"],
    );
    goes_on(
        |all| {
            let options = RmsPropOptions { momentum: 0.5, centered: true, ..Default::default() };
            Box::new(RmsProp::new(all, options).unwrap())
        },
        &["state.0.grad_avg", "state.0.momentum_buffer", "state.0.square_avg", "state.0.step"],
    );
    goes_on(
        |all| {
            Box::new(
                Adagrad::new(all, AdagradOptions { lr: 0.1, lr_decay: 0.1, ..Default::default() }).unwrap(),
            )
        },
        &["state.0.step", "state.0.sum"],
    );
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let x = parameter(&[1.0, -2.0]);
    let mut optimizer = Adam::new(vec![x.clone()], AdamOptions::default()).unwrap();
    run(&mut optimizer, &x, 0..2);
    let good = optimizer.state().unwrap();
    let mut bad = good.clone();
    bad.settings.insert("param_groups.0.momentum".to_owned(), 0.5);
    bad.settings.insert("param_groups.1.lr".to_owned(), 0.5);
    bad.tensors.insert("state.0.exp_avg".to_owned(), Tensor::zeros(&[3], ScalarType::Float64).unwrap());
    bad.tensors.insert("state.0.sum".to_owned(), x.detach().unwrap());
    bad.tensors.insert("state.7.exp_avg".to_owned(), x.detach().unwrap());
    let error = optimizer.load_state(&bad).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for part in [
        "\"param_groups.0.momentum\"",
        "\"param_groups.1.lr\"",
        "[3]",
        "\"state.0.sum\"",
        "\"state.7.exp_avg\"",
    ] {
        assert!(error.message().contains(part), "{part} in {error}");
    }
    assert_eq!(optimizer.state().unwrap().settings, good.settings);
    assert_eq!(optimizer.parameter_state(0, 0).unwrap().steps, 2);
}

#[test]
fn gradients_are_clipped_together_or_each() {
    let (x, y, z) = (parameter(&[0.0, 0.0]), parameter(&[0.0]), parameter(&[0.0]));
    give(&x, &[3.0, 0.0]);
    give(&y, &[-4.0]);
    let all = [x.clone(), y.clone(), z.clone()];
    let norm = clip_grad_norm_(&all, 1.0, ClipOptions::default()).unwrap();
    assert_eq!(norm.item().unwrap(), 5.0_f64);
    let clipped = y.grad().unwrap().item().unwrap().to::<f64>().unwrap();
    assert!((clipped + 0.8).abs() < 1e-6);
    assert!(z.grad().is_none());
    let largest = ClipOptions { norm_type: f64::INFINITY, ..Default::default() };
    let norm = clip_grad_norm_(&all, 10.0, largest).unwrap().item().unwrap().to::<f64>().unwrap();
    assert!((norm - 0.8).abs() < 1e-6);
    assert_eq!(y.grad().unwrap().item().unwrap().to::<f64>().unwrap(), clipped);
    clip_grad_value_(&all, 0.25).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [0.25, 0.0]);
    assert_eq!(y.grad().unwrap().to_vec::<f64>().unwrap(), [-0.25]);
    give(&y, &[f64::NAN]);
    let strict = ClipOptions { error_if_nonfinite: true, ..Default::default() };
    assert_eq!(clip_grad_norm_(&all, 0.1, strict).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [0.25, 0.0]);
    assert_eq!(clip_grad_norm_(&[], 1.0, ClipOptions::default()).unwrap().item().unwrap(), 0.0_f64);
}

#[test]
fn a_state_that_is_not_whole_is_refused() {
    let parameter = Tensor::ones(&[2], ScalarType::Float32).unwrap().requires_grad_(true).unwrap();
    let mut adam = Adam::new(vec![parameter.clone()], Default::default()).unwrap();
    let error = adam.load_state(&Default::default()).unwrap_err().to_string();
    assert!(error.contains("\"param_groups.0.lr\" is missing"), "{error}");
    parameter.set_grad(Some(&Tensor::ones(&[2], ScalarType::Float32).unwrap())).unwrap();
    adam.step().unwrap();
    let mut state = adam.state().unwrap();
    adam.load_state(&state).unwrap();
    state.tensors.remove("state.0.step").unwrap();
    let error = adam.load_state(&state).unwrap_err().to_string();
    assert!(error.contains("\"state.0.step\" is missing"), "{error}");
}
