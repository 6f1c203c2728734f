//! Losses, as PyTorch's.

use tensorplay::nn::loss::*;
use tensorplay::prelude::*;

use crate::recorded::{assert_close, read, tensor};

fn loss(name: &str) -> Box<dyn Loss> {
    let weight = || Some(tensor![0.5_f64, 2.0, 1.0].unwrap());
    match name {
        "cross_entropy" => {
            Box::new(CrossEntropyLoss { weight: weight(), label_smoothing: 0.1, ..Default::default() })
        }
        "cross_entropy_sum" => {
            Box::new(CrossEntropyLoss { reduction: Reduction::Sum, ignore_index: 2, ..Default::default() })
        }
        "cross_entropy_share" => Box::new(CrossEntropyLoss::default()),
        "nll" => Box::new(NllLoss { weight: weight(), ..Default::default() }),
        "mse" => Box::new(MseLoss::default()),
        "mse_none" => Box::new(MseLoss { reduction: Reduction::None }),
        "l1" => Box::new(L1Loss::default()),
        "smooth_l1" => Box::new(SmoothL1Loss { beta: 0.5, ..Default::default() }),
        "huber" => Box::new(HuberLoss { delta: 0.7, ..Default::default() }),
        "bce" => Box::new(BceLoss::default()),
        "bce_logits" => Box::new(BceWithLogitsLoss { pos_weight: weight(), ..Default::default() }),
        "kl_div" => Box::new(KlDivLoss::default()),
        "kl_div_batch" => Box::new(KlDivLoss { reduction: KlReduction::BatchMean, log_target: true }),
        other => panic!("unknown loss {other}"),
    }
}

#[test]
fn losses_are_pytorchs() {
    let file = read("modules.json.gz");
    let cases = file["losses"].as_array().unwrap();
    assert_eq!(cases.len(), 13);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let got = loss(name).forward(&tensor(&case["input"]), &tensor(&case["target"])).unwrap();
        assert_close(name, &got, &tensor(&case["output"]), 1e-12);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (scores, classes) = (tensor![[1.0_f32, 2.0]].unwrap(), tensor![2_i64].unwrap());
    assert!(CrossEntropyLoss::default().forward(&scores, &classes).is_err());
    let weight = Some(tensor![0.5_f32].unwrap());
    let shares = tensor![[0.25_f32, 0.75]].unwrap();
    for (target, label_smoothing) in [(&shares, 0.0), (&tensor![1_i64].unwrap(), 0.1)] {
        let weighed = CrossEntropyLoss { weight: weight.clone(), label_smoothing, ..Default::default() };
        let error = weighed.forward(&scores, target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert!(error.to_string().contains("for all 2 classes or no classes"), "{error}");
    }
    let scalar = tensor![1.0_f32].unwrap().squeeze().unwrap();
    let kl = KlDivLoss { reduction: KlReduction::BatchMean, ..Default::default() };
    assert_eq!(kl.forward(&scalar, &scalar).unwrap_err().kind(), ErrorKind::Shape);
}
