//! A small network on the toy, compared with the host.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use aten::dispatch::{DispatchKey, Dispatcher, KernelSource};
use aten::tensor::ArgmaxOptions;
use aten::{ErrorKind, Result, Tensor};
use c10_core::guard::DeviceGuard;
use c10_core::{Device, DeviceType};

/// Numbers that are no round ones, the same at each run.
fn numbers(sizes: &[i64], seed: u32) -> Tensor {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let elements: Vec<f32> = (0..sizes.iter().product()).map(|_| next()).collect();
    Tensor::from_slice(&elements, sizes).unwrap()
}

struct Mlp {
    weights: [Tensor; 2],
    biases: [Tensor; 2],
}

impl Mlp {
    fn new() -> Self {
        Self {
            weights: [numbers(&[8, 16], 1), numbers(&[16, 3], 2)],
            biases: [numbers(&[16], 3), numbers(&[3], 4)],
        }
    }

    fn to(&self, device: Device) -> Self {
        Self {
            weights: self.weights.each_ref().map(|weight| weight.to(device).unwrap()),
            biases: self.biases.each_ref().map(|bias| bias.to(device).unwrap()),
        }
    }

    /// The probabilities of each class, and the likeliest.
    fn forward(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let hidden = x.mm(&self.weights[0])?.add(&self.biases[0])?.relu()?;
        let logits = hidden.mm(&self.weights[1])?.add(&self.biases[1])?;
        let probabilities = logits.softmax(1)?;
        let likeliest =
            probabilities.argmax_with(ArgmaxOptions { dim: Some(1), ..ArgmaxOptions::default() })?;
        Ok((probabilities, likeliest))
    }
}

#[test]
fn a_model_runs_on_it() {
    custom_device::register().unwrap();
    custom_device::register().unwrap();
    let (model, x) = (Mlp::new(), numbers(&[5, 8], 5));
    let (probabilities, likeliest) = model.forward(&x).unwrap();

    let there = custom_device::device(1);
    let (model, x) = (model.to(there), x.to(there).unwrap());
    custom_device::calls_on_the_host();
    let (found, found_likeliest) = model.forward(&x).unwrap();
    assert_eq!((found.device(), found_likeliest.device()), (there, there));
    let close = |a: &Tensor, b: &Tensor| {
        let pairs = a.to_vec::<f32>().unwrap().into_iter().zip(b.to_vec::<f32>().unwrap());
        pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-6)
    };
    assert!(close(&found.to(Device::CPU).unwrap(), &probabilities));
    assert_eq!(
        found_likeliest.to(Device::CPU).unwrap().to_vec::<i64>().unwrap(),
        likeliest.to_vec::<i64>().unwrap()
    );
    // The products ran on the device; what it has no kernel for, and sums that broadcast, on the host.
    let on_host = custom_device::calls_on_the_host();
    assert_eq!(on_host, ["aten::add.Tensor", "aten::add.Tensor", "aten::_softmax", "aten::argmax"]);
    let mm = Dispatcher::global().find("aten::mm").unwrap();
    assert_eq!(mm.kernel_source(DispatchKey::PrivateUse1), KernelSource::Kernel);
    let argmax = Dispatcher::global().find("aten::argmax").unwrap();
    assert_eq!(argmax.kernel_source(DispatchKey::PrivateUse1), KernelSource::BackendFallback);

    in_place_and_views(there);
    errors_name_the_operator(there);
    guards_choose_the_device();
    let memory = Tensor::empty(&[1 << 40], (c10_core::ScalarType::UInt8, there)).unwrap_err();
    assert_eq!(memory.kind(), ErrorKind::OutOfMemory);
}

fn in_place_and_views(there: Device) {
    let x = numbers(&[2, 3], 6).to(there).unwrap();
    let before = x.to(Device::CPU).unwrap();
    let version = x.version();
    x.add_(&x.deep_clone().unwrap()).unwrap();
    assert_eq!(x.version(), version + 1);
    assert_eq!(
        x.to(Device::CPU).unwrap().to_vec::<f32>().unwrap(),
        before.add(&before).unwrap().to_vec::<f32>().unwrap()
    );
    // A transposed view is read by the device's kernels, and written through the host.
    let view = x.t().unwrap();
    assert!(view.is_alias_of(&x));
    assert_eq!(
        view.neg().unwrap().to(Device::CPU).unwrap().to_vec::<f32>().unwrap(),
        before.add(&before).unwrap().t().unwrap().neg().unwrap().to_vec::<f32>().unwrap()
    );
    custom_device::calls_on_the_host();
    view.exp_().unwrap();
    assert_eq!(custom_device::calls_on_the_host(), ["aten::exp_"]);
    let expected = before.add(&before).unwrap().exp().unwrap();
    assert_eq!(x.to(Device::CPU).unwrap().to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
}

fn errors_name_the_operator(there: Device) {
    let (x, y) = (numbers(&[2, 3], 7).to(there).unwrap(), numbers(&[2, 3], 8).to(there).unwrap());
    let error = x.mm(&y).unwrap_err();
    assert_eq!(error.operator(), Some("aten::mm"));
    assert_eq!(x.to_vec::<f32>().unwrap(), numbers(&[2, 3], 7).to_vec::<f32>().unwrap());
}

fn guards_choose_the_device() {
    let current = Device::current(DeviceType::PrivateUse1);
    let on = |index| {
        let _guard = DeviceGuard::new(custom_device::device(index)).unwrap();
        Tensor::empty(&[1], current).unwrap().device()
    };
    assert_eq!([on(1), on(0)], [custom_device::device(1), custom_device::device(0)]);
    assert!(DeviceGuard::new(custom_device::device(2)).is_err());
}
