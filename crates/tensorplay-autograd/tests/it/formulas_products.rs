//! Derivatives of matrix products, convolutions, Fourier transforms and distances.

use aten::Tensor;
use aten::ops::handles;
use c10_core::Scalar;

use crate::numeric::{check_one, complex, numbers};

#[test]
fn matrix_products_have_second_derivatives() {
    let (a, b) = (numbers(&[2, 3], 1), numbers(&[3, 4], 2));
    let (left, right) = (numbers(&[2, 2, 3], 3), numbers(&[2, 3, 4], 4));
    let (beta, alpha) = (Scalar::Double(0.5), Scalar::Double(2.5));
    check_one("mm", &[a.clone(), b.clone()], |x| x[0].mm(&x[1]));
    check_one("mm of columns", &[numbers(&[3, 2], 5), numbers(&[4, 3], 6)], |x| x[0].t()?.mm(&x[1].t()?));
    check_one("bmm", &[left.clone(), right.clone()], |x| x[0].bmm(&x[1]));
    check_one("matmul", &[left.clone(), b.clone()], |x| x[0].matmul(&x[1]));
    check_one("mv", &[a.clone(), numbers(&[3], 7)], |x| x[0].mv(&x[1]));
    check_one("dot", &[numbers(&[3], 8), numbers(&[3], 9)], |x| x[0].dot(&x[1]));
    check_one("addmm", &[numbers(&[4], 10), a.clone(), b.clone()], |x| {
        handles::ADDMM.call(&x[0], &x[1], &x[2], beta, alpha)
    });
    check_one("addmv", &[numbers(&[2], 11), a.clone(), numbers(&[3], 12)], |x| {
        handles::ADDMV.call(&x[0], &x[1], &x[2], beta, alpha)
    });
    check_one("addr", &[a, numbers(&[2], 13), numbers(&[3], 14)], |x| {
        handles::ADDR.call(&x[0], &x[1], &x[2], beta, alpha)
    });
    let sum = [numbers(&[2, 4], 15), left.clone(), right.clone()];
    check_one("addbmm", &sum, |x| handles::ADDBMM.call(&x[0], &x[1], &x[2], beta, alpha));
    check_one("baddbmm_", &[numbers(&[2, 2, 4], 16), left, right], |x| {
        let y = x[0].mul_scalar(1)?;
        handles::BADDBMM_.call(&y, &x[1], &x[2], beta, alpha)?;
        Ok(y)
    });
}

#[test]
fn complex_products_conjugate() {
    let two = [numbers(&[2, 2, 2], 17), numbers(&[2, 2, 2], 18)];
    check_one("mm", &two, |x| complex(&x[0])?.mm(&complex(&x[1])?));
    check_one("addmm", &two, |x| {
        let (a, b) = (complex(&x[0])?, complex(&x[1])?);
        let i = Scalar::Complex(c10_core::Complex { re: 0.5, im: -2.0 });
        handles::ADDMM.call(&a, &a, &b.t()?, i, i)
    });
    check_one("vdot", &two, |x| complex(&x[0])?.reshape(&[-1])?.vdot(&complex(&x[1])?.reshape(&[-1])?));
    check_one("dot", &two, |x| complex(&x[0])?.reshape(&[-1])?.dot(&complex(&x[1])?.reshape(&[-1])?));
}

#[test]
fn convolutions_have_second_derivatives() {
    struct Case {
        name: &'static str,
        input: &'static [i64],
        weight: &'static [i64],
        bias: i64,
        stride: i64,
        padding: i64,
        dilation: i64,
        transposed: bool,
        output_padding: i64,
        groups: i64,
    }
    let plain = Case {
        name: "conv2d",
        input: &[2, 2, 4, 3],
        weight: &[2, 2, 2, 2],
        bias: 2,
        stride: 1,
        padding: 0,
        dilation: 1,
        transposed: false,
        output_padding: 0,
        groups: 1,
    };
    let cases = [
        Case { name: "strides and padding", stride: 2, padding: 1, ..plain },
        Case { name: "dilation", dilation: 2, padding: 1, ..plain },
        Case { name: "groups", weight: &[4, 1, 2, 2], bias: 4, groups: 2, ..plain },
        Case { name: "transposed", weight: &[2, 3, 2, 2], bias: 3, transposed: true, ..plain },
        Case {
            name: "transposed, strides, groups",
            weight: &[2, 2, 2, 2],
            bias: 4,
            transposed: true,
            stride: 2,
            padding: 1,
            output_padding: 1,
            groups: 2,
            ..plain
        },
        plain,
    ];
    for case in &cases {
        let inputs = [numbers(case.input, 19), numbers(case.weight, 20), numbers(&[case.bias], 21)];
        check_one(case.name, &inputs, |x| {
            let both = |value: i64| [value, value];
            handles::CONVOLUTION.call(
                &x[0],
                &x[1],
                Some(&x[2]),
                &both(case.stride),
                &both(case.padding),
                &both(case.dilation),
                case.transposed,
                &both(case.output_padding),
                case.groups,
            )
        });
    }
    check_one("conv1d without bias", &[numbers(&[1, 2, 5], 22), numbers(&[3, 2, 3], 23)], |x| {
        x[0].conv1d(&x[1])
    });
    check_one("conv1d without batch", &[numbers(&[2, 5], 24), numbers(&[3, 2, 3], 25)], |x| {
        x[0].conv1d(&x[1])
    });
}

#[test]
fn fourier_transforms_have_second_derivatives() {
    let x = [numbers(&[3, 4], 26)];
    for normalization in 0..3 {
        for (name, dims) in [("even", [0, 1]), ("odd", [1, 0])] {
            check_one(&format!("r2c {name} {normalization}"), &x, |x| {
                x[0]._fft_r2c(&dims, normalization, true)
            });
            check_one(&format!("full r2c {name} {normalization}"), &x, |x| {
                x[0]._fft_r2c(&dims, normalization, false)
            });
            check_one(&format!("c2c {name} {normalization}"), &[numbers(&[2, 3, 2], 27)], |x| {
                complex(&x[0])?._fft_c2c(&dims, normalization, normalization == 1)
            });
            check_one(&format!("c2r {name} {normalization}"), &[numbers(&[2, 3, 2], 28)], |x| {
                complex(&x[0])?._fft_c2r(&[0, 1], normalization, if name == "odd" { 5 } else { 4 })
            });
        }
    }
}

#[test]
fn complex_numbers_are_made_of_parts() {
    let two = [numbers(&[3], 29), numbers(&[3], 30)];
    check_one("complex", &two, |x| {
        let z = x[0].complex(&x[1])?;
        &z * &z
    });
    check_one("conj_physical", &two, |x| {
        let z = x[0].complex(&x[1])?;
        z.conj_physical()? * &z * &z
    });
    check_one("polar", &two, |x| (&x[0] * &x[0])?.polar(&x[1]));
}

#[test]
fn distances_have_gradients() {
    let two = [numbers(&[2, 3, 2], 31), numbers(&[2, 4, 2], 32)];
    for p in [0.0, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        check_one(&format!("cdist {p}"), &two, |x| handles::_CDIST_FORWARD.call(&x[0], &x[1], p, None));
        check_one(&format!("pdist {p}"), &[numbers(&[4, 3], 33)], |x| handles::_PDIST_FORWARD.call(&x[0], p));
    }
    check_one("the whole cdist", &two, |x| handles::CDIST.call(&x[0], &x[1], 2.0, None));
}

#[test]
fn a_tensor_may_be_both_factors() {
    check_one("x·x", &[numbers(&[3, 3], 34)], |x| x[0].mm(&x[0]));
    let x: Tensor = numbers(&[2, 2], 35);
    check_one("x·xᵀ", &[x], |x| x[0].mm(&x[0].t()?));
}
