//! Derivatives of softmax, losses and normalisations.

use aten::ops::handles;
use aten::{Result, Tensor, tensor};
use tensorplay_autograd::{TensorAutograd, grad};

use crate::numeric::{check, check_first, check_one, numbers};

/// Numbers between zero and one.
fn shares(sizes: &[i64], seed: u32) -> Tensor {
    numbers(sizes, seed).mul_scalar(0.45).unwrap().add_scalar(0.5).unwrap()
}

#[test]
fn softmax_has_second_derivatives() {
    for dim in [0, -1] {
        check_one("softmax", &[numbers(&[2, 3], 1)], |x| handles::_SOFTMAX.call(&x[0], dim, false));
        check_one("log_softmax", &[numbers(&[2, 3], 2)], |x| handles::_LOG_SOFTMAX.call(&x[0], dim, false));
    }
    let none = Tensor::full(&[2], f64::NEG_INFINITY, aten::TensorOptions::default()).unwrap();
    let x = none.requires_grad_(true).unwrap().clone();
    let y = handles::_SAFE_SOFTMAX.call(&x, 0, None).unwrap().sum().unwrap();
    assert_eq!(grad(&[y], std::slice::from_ref(&x)).unwrap()[0].to_vec::<f32>().unwrap(), [0.0, 0.0]);
}

#[test]
fn losses_have_second_derivatives() {
    let (x, y) = (numbers(&[2, 3], 3), numbers(&[2, 3], 4));
    let two = [x.clone(), y.clone()];
    let weight = shares(&[3], 5);
    for reduction in [0, 1, 2] {
        check_one("mse_loss", &two, |x| handles::MSE_LOSS.call(&x[0], &x[1], reduction));
        check_one("mse_loss of a row", &[x.clone(), numbers(&[3], 6)], |x| {
            handles::MSE_LOSS.call(&x[0], &x[1], reduction)
        });
        check_one("smooth_l1_loss", &two, |x| handles::SMOOTH_L1_LOSS.call(&x[0], &x[1], reduction, 0.7));
        check_one("huber_loss", &two, |x| handles::HUBER_LOSS.call(&x[0], &x[1], reduction, 0.7));
        let sign = y.sgn().unwrap();
        check_one("soft_margin_loss", std::slice::from_ref(&x), |x| {
            handles::SOFT_MARGIN_LOSS.call(&x[0], &sign, reduction)
        });
        let pair = [shares(&[2, 3], 7), shares(&[2, 3], 8)];
        check_one("binary_cross_entropy", &pair, |x| {
            handles::BINARY_CROSS_ENTROPY.call(&x[0], &x[1], Some(&weight), reduction)
        });
        let four = [x.clone(), shares(&[2, 3], 9), shares(&[3], 10), shares(&[3], 11)];
        check_one("binary_cross_entropy_with_logits", &four, |x| {
            handles::BINARY_CROSS_ENTROPY_WITH_LOGITS.call(&x[0], &x[1], Some(&x[2]), Some(&x[3]), reduction)
        });
        let target = tensor![2_i64, 0].unwrap();
        check_one("nll_loss", std::slice::from_ref(&x), |x| {
            handles::NLL_LOSS.call(&x[0], &target, Some(&weight), reduction, 0)
        });
    }
}

#[test]
fn normalisations_have_second_derivatives() {
    let (x, weight, bias) = (numbers(&[3, 4, 2], 12), shares(&[4], 13), numbers(&[4], 14));
    let three = [x.clone(), weight, bias];
    let first = |made: (Tensor, Tensor, Tensor)| -> Result<Tensor> { Ok(made.0) };
    check_one("native_layer_norm", &[x, shares(&[4, 2], 15), numbers(&[4, 2], 16)], |x| {
        first(handles::NATIVE_LAYER_NORM.call(&x[0], &[4, 2], Some(&x[1]), Some(&x[2]), 1e-5)?)
    });
    check("native_group_norm", &three, |x| {
        let made = handles::NATIVE_GROUP_NORM.call(&x[0], Some(&x[1]), Some(&x[2]), 3, 4, 2, 2, 1e-5)?;
        Ok(vec![made.0, made.1, made.2])
    });
    check_one("native_batch_norm, training", &three, |x| {
        first(handles::NATIVE_BATCH_NORM.call(
            &x[0],
            Some(&x[1]),
            Some(&x[2]),
            None,
            None,
            true,
            0.1,
            1e-5,
        )?)
    });
    let (mean, var) = (numbers(&[4], 17), shares(&[4], 18));
    check_one("native_batch_norm, evaluation", &three, |x| {
        let (mean, var) = (Some(&mean), Some(&var));
        first(handles::NATIVE_BATCH_NORM.call(
            &x[0],
            Some(&x[1]),
            Some(&x[2]),
            mean,
            var,
            false,
            0.1,
            1e-5,
        )?)
    });
    check("_fused_rms_norm", &[numbers(&[3, 4], 19), shares(&[4], 20)], |x| {
        let made = handles::_FUSED_RMS_NORM.call(&x[0], &[4], Some(&x[1]), Some(1e-3))?;
        Ok(vec![made.0, made.1])
    });
}

/// The operators that are the gradients of normalisations, called directly: with `check` their own second derivatives
/// are looked at, which are the third ones of the normalisations.
#[test]
fn gradients_of_normalisations_have_derivatives() {
    let x = numbers(&[3, 4, 2], 31);
    let (mean, inverse) = {
        let made = handles::NATIVE_LAYER_NORM.call(&x, &[4, 2], None, None, 1e-2).unwrap();
        (made.1, made.2)
    };
    // Steps of the input move the statistics with it.
    let of_layers = |x: &Tensor| -> Result<[Tensor; 2]> {
        let made = handles::NATIVE_LAYER_NORM.call(&x.detach()?, &[4, 2], None, None, 1e-2)?;
        Ok([made.1, made.2])
    };
    let three = [numbers(&[3, 4, 2], 32), x.clone(), shares(&[4, 2], 33)];
    for mask in [[true, true, true], [true, false, false], [false, true, true]] {
        check(&format!("native_layer_norm_backward {mask:?}"), &three, |x| {
            let [mean, inverse] = of_layers(&x[1])?;
            let (shape, weight) = ([4, 2], Some(&x[2]));
            let made = handles::NATIVE_LAYER_NORM_BACKWARD
                .call(&x[0], &x[1], &shape, &mean, &inverse, weight, None, &mask)?;
            Ok([made.0, made.1, made.2].into_iter().flatten().collect())
        });
    }
    let mean = mean.requires_grad_(true).unwrap();
    let made = handles::NATIVE_LAYER_NORM_BACKWARD
        .call(&three[0], &x, &[4, 2], &mean, &inverse, None, None, &[true, false, false])
        .unwrap();
    let error = made.0.unwrap().sum().unwrap().backward().unwrap_err();
    assert_eq!(error.kind(), aten::ErrorKind::NotImplemented);

    let (running_mean, running_var) = (numbers(&[4], 34), shares(&[4], 35));
    let three = [numbers(&[3, 4, 2], 36), x, shares(&[4], 37)];
    for training in [true, false] {
        let statistics = |x: &Tensor| -> Result<[Option<Tensor>; 2]> {
            let made =
                handles::NATIVE_BATCH_NORM.call(&x.detach()?, None, None, None, None, true, 0.1, 1e-2)?;
            Ok([Some(made.1), Some(made.2)])
        };
        let running = (!training).then_some((&running_mean, &running_var)).unzip();
        check(&format!("native_batch_norm_backward {training}"), &three, |x| {
            let [mean, inverse] = if training { statistics(&x[1])? } else { [None, None] };
            let (own, mask) = ((mean.as_ref(), inverse.as_ref()), [true, true, true]);
            let made = handles::NATIVE_BATCH_NORM_BACKWARD.call(
                &x[0],
                &x[1],
                Some(&x[2]),
                running.0,
                running.1,
                own.0,
                own.1,
                training,
                1e-2,
                &mask,
            )?;
            Ok([made.0, made.1, made.2].into_iter().flatten().collect())
        });
        let reserve = Tensor::zeros(&[0], c10_core::ScalarType::UInt8).unwrap();
        check(&format!("batch_norm_backward {training}"), &three, |x| {
            let [mean, inverse] = if training { statistics(&x[1])? } else { [None, None] };
            let (own, mask) = ((mean.as_ref(), inverse.as_ref()), [true, true, true]);
            let made = handles::BATCH_NORM_BACKWARD.call(
                &x[0], &x[1], &x[2], running.0, running.1, own.0, own.1, training, 1e-2, &mask, &reserve,
            )?;
            Ok([made.0, made.1, made.2].into_iter().flatten().collect())
        });
    }
}

/// Training moves the running statistics after they were kept, and does not need them.
#[test]
fn running_statistics_may_move_before_the_backward_call() {
    let (mean, var) = (numbers(&[4], 21), shares(&[4], 22));
    let before = mean.to_vec::<f64>().unwrap();
    check_first("native_batch_norm", &[numbers(&[3, 4], 23), shares(&[4], 24)], |x| {
        let made = handles::NATIVE_BATCH_NORM.call(
            &x[0],
            Some(&x[1]),
            None,
            Some(&mean),
            Some(&var),
            true,
            0.1,
            1e-5,
        )?;
        Ok(vec![made.0])
    });
    assert_ne!(mean.to_vec::<f64>().unwrap(), before);
}

#[test]
fn dropout_scales_what_it_leaves() {
    let x = numbers(&[50], 25).requires_grad_(true).unwrap().clone();
    let (y, mask) = handles::NATIVE_DROPOUT.call(&x, 0.25, Some(true)).unwrap();
    assert!(!mask.requires_grad());
    let made = grad(&[y.sum().unwrap()], std::slice::from_ref(&x)).unwrap()[0].to_vec::<f64>().unwrap();
    let expected: Vec<f64> =
        mask.to_vec::<bool>().unwrap().iter().map(|kept| if *kept { 4.0 / 3.0 } else { 0.0 }).collect();
    assert_eq!(made, expected);
}
