//! Copies and conversions.

use aten::Tensor;
use aten::tensor::DeepCloneOptions;
use c10_core::{Complex, Element, MemoryFormat, ScalarType, bf16};

/// The elements converted, alone and as many as vector paths take at once.
fn converted<A: Element, B: Element + PartialEq + std::fmt::Debug>(values: &[A]) -> Vec<B> {
    let alone: Vec<B> = values
        .iter()
        .map(|&value| {
            Tensor::from_slice(&[value], &[]).unwrap().to(B::SCALAR_TYPE).unwrap().to_vec::<B>().unwrap()[0]
        })
        .collect();
    let repeated = values.repeat(65);
    let together = Tensor::from_elements(&repeated).unwrap().to(B::SCALAR_TYPE).unwrap();
    assert_eq!(together.to_vec::<B>().unwrap(), alone.repeat(65));
    // Every second one, too: strides other than 1.
    let spread = Tensor::from_slice(&repeated, &[repeated.len() as i64]).unwrap();
    let spread = spread.i(aten::indexing::step(.., 2)).unwrap().to(B::SCALAR_TYPE).unwrap();
    let expected: Vec<B> = alone.repeat(65).into_iter().step_by(2).collect();
    assert_eq!(spread.to_vec::<B>().unwrap(), expected);
    alone
}

/// Row 110: a NaN is 0, and what is beyond the range of `i32` and `i64` its nearest end, on every path. The narrower
/// integers take the low bits, as PyTorch's do.
#[test]
fn floats_become_integers_in_one_way() {
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e9, -1.9, 2.9];
    assert_eq!(converted::<f32, i32>(&values), [0, i32::MAX, i32::MIN, i32::MAX, -1, 2]);
    assert_eq!(converted::<f64, i64>(&[f64::NAN, 1e30, -1e30]), [0, i64::MAX, i64::MIN]);
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e9, -1.9, -200.7, 300.9, 70_000.0];
    let halves = values[..7].iter().copied().map(bf16::from_f32).collect::<Vec<_>>();
    assert_eq!(converted::<f32, u8>(&values), [0, 0, 0, 0, 255, 56, 44, 112]);
    assert_eq!(converted::<bf16, u8>(&halves), [0, 0, 0, 0, 255, 55, 44]);
    assert_eq!(converted::<f32, i8>(&values), [0, 0, 0, 0, -1, 56, 44, 112]);
    assert_eq!(converted::<f32, i16>(&values), [0, 0, 0, 0, -1, -200, 300, 4464]);
    assert_eq!(converted::<f32, u16>(&values), [0, 0, 0, 0, 65_535, 65_336, 300, 4464]);
    let wide = [f64::NAN, f64::INFINITY, -1.5, 3e9, -3e9, 1e19];
    assert_eq!(converted::<f64, u32>(&wide), [0, 0, 4_294_967_295, 3_000_000_000, 1_294_967_296, 0]);
    assert_eq!(converted::<f64, u64>(&wide)[..3], [0, u64::MAX, u64::MAX]);
    assert_eq!(
        converted::<f64, u64>(&wide)[3..],
        [3_000_000_000, 18_446_744_070_709_551_616, 10_000_000_000_000_000_000]
    );
    assert_eq!(converted::<f32, bool>(&values), [true; 8]);
    assert_eq!(converted::<f32, bool>(&[0.0, -0.0, f32::MIN_POSITIVE]), [false, false, true]);
}

#[test]
fn integers_wrap_and_round() {
    assert_eq!(converted::<i64, i8>(&[300, -129, 127]), [44, 127, 127]);
    assert_eq!(converted::<i64, u8>(&[-1, 256]), [255, 0]);
    assert_eq!(converted::<i64, f32>(&[16_777_217, -3]), [16_777_216.0, -3.0]);
    assert_eq!(converted::<u64, f64>(&[u64::MAX]), [18_446_744_073_709_551_615.0]);
    assert_eq!(converted::<bool, i32>(&[true, false]), [1, 0]);
    let complex = [Complex::new(1.5_f32, 2.0), Complex::new(0.0, -1.0)];
    assert_eq!(converted::<Complex<f32>, f32>(&complex), [1.5, 0.0]);
    assert_eq!(converted::<Complex<f32>, bool>(&complex), [true, true]);
}

/// A copy without conversion keeps every bit, that of a NaN too.
#[test]
fn copies_keep_bits() {
    let bits = [0x7fa0_0001_u32, 0xffc0_1234, 0x8000_0000];
    let x = Tensor::from_elements(&bits.map(f32::from_bits)).unwrap();
    let copy = x.deep_clone().unwrap().i(..).unwrap();
    let spread = x.unsqueeze(1).unwrap().expand(&[3, 2]).unwrap().deep_clone().unwrap().select(1, 1).unwrap();
    for copy in [copy, spread] {
        let found: Vec<u32> = copy.to_vec::<f32>().unwrap().iter().map(|value| value.to_bits()).collect();
        assert_eq!(found, bits);
    }
}

#[test]
fn a_clone_keeps_the_order_of_strides() {
    let x = Tensor::from_elements(&(0..24).collect::<Vec<i32>>()).unwrap();
    let strides = |x: &Tensor| x.deep_clone().unwrap().strides().to_vec();
    let cube = x.view(&[2, 3, 4]).unwrap();
    assert_eq!(strides(&cube.permute(&[2, 0, 1]).unwrap()), [1, 12, 4]);
    assert_eq!(strides(&cube.i((.., aten::indexing::step(.., 2))).unwrap()), [6, 2, 1]);
    assert_eq!(strides(&x.i(..3).unwrap().view(&[3, 1]).unwrap().expand(&[3, 4]).unwrap()), [4, 1]);
    let images = x.view(&[1, 2, 3, 4]).unwrap();
    let options = DeepCloneOptions { memory_format: Some(MemoryFormat::ChannelsLast) };
    let images = images.deep_clone_with(options).unwrap();
    assert_eq!(
        (images.strides(), images.to_vec::<i32>().unwrap()),
        (vec![24, 1, 8, 2].into(), (0..24).collect())
    );
    assert!(cube.deep_clone_with(options).is_err());
}

#[test]
fn meta_tensors_have_no_elements_to_copy() {
    let x = Tensor::from_elements(&[1.0_f32, 2.0]).unwrap();
    let meta = x.to(c10_core::Device::META).unwrap();
    assert_eq!((meta.sizes(), meta.dtype()), (vec![2].into(), ScalarType::Float32));
    assert!(x.copy_(&meta).unwrap_err().to_string().contains("Cannot copy out of meta tensor"));
    assert!(meta.copy_(&Tensor::from_elements(&[1_i8, 2, 3]).unwrap()).is_err());
    meta.copy_(&x).unwrap();
}

/// There is a way from every dtype to every other, alone or by a third one.
#[test]
fn every_dtype_becomes_every_other() {
    let small = Tensor::from_elements(&[0.0_f64, 1.0, 1.0, 0.0]).unwrap().view(&[2, 2]).unwrap();
    for from in ScalarType::ALL {
        let x = small.to(from).unwrap().t().unwrap();
        for to in ScalarType::ALL {
            let y = x.to(to).unwrap();
            assert_eq!((y.dtype(), y.strides()), (to, x.strides()), "{from:?} {to:?}");
            let back = y.to(ScalarType::Float64).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(back, [0.0, 1.0, 1.0, 0.0], "{from:?} {to:?}");
        }
        for value in [1.into(), 1.0.into(), true.into(), c10_core::Scalar::Complex(Complex::new(1.0, 0.0))] {
            // `to` the dtype that it has is the tensor itself.
            let filled = small.to(from).unwrap().deep_clone().unwrap();
            filled.i_fill_(.., value).unwrap();
            assert_eq!(
                filled.to(ScalarType::Float64).unwrap().to_vec::<f64>().unwrap(),
                [1.0; 4],
                "{from:?}"
            );
        }
    }
}
