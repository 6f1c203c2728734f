//! Trees of modules: names, training, conversion, state dicts and their files.

use tensorplay::nn::{BatchNorm2d, Buffer, Dropout, Linear, Parameter, Relu, Sequential, Training};
use tensorplay::prelude::*;

use crate::modules::SEEDED;

/// One of everything.
#[derive(Debug)]
struct Net {
    scale: Parameter,
    offset: Option<Parameter>,
    mean: Buffer,
    training: Training,
    layers: Vec<Linear>,
    body: Sequential,
    head: Option<Linear>,
}

impl Module for Net {
    tensorplay::parts!(scale, offset, mean, training, layers, body, head);
}

fn net() -> Net {
    let ones = Tensor::ones(&[2], ScalarType::Float32).unwrap();
    Net {
        scale: Parameter::new(&ones).unwrap(),
        offset: None,
        mean: Buffer::new(Tensor::zeros(&[2], ScalarType::Float32).unwrap()),
        training: Training::default(),
        layers: vec![Linear::new(2, 2).unwrap(), Linear::new(2, 3).unwrap()],
        body: Sequential::new()
            .push(Relu)
            .push(BatchNorm2d::new(2).unwrap())
            .push(Dropout::new(0.5).unwrap()),
        head: Some(Linear::new(3, 1).unwrap()),
    }
}

fn names(all: Vec<(String, Tensor)>) -> Vec<String> {
    all.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn names_are_those_of_fields_in_order() {
    let _seeded = SEEDED.lock().unwrap();
    let net = net();
    assert_eq!(
        names(net.named_parameters()),
        [
            "scale",
            "layers.0.weight",
            "layers.0.bias",
            "layers.1.weight",
            "layers.1.bias",
            "body.1.weight",
            "body.1.bias",
            "head.weight",
            "head.bias"
        ]
    );
    assert_eq!(
        names(net.named_buffers()),
        ["mean", "body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"]
    );
    let state = names(net.state_dict().unwrap());
    assert_eq!(state[..2], ["scale", "mean"]);
    assert_eq!(
        state[6..11],
        [
            "body.1.weight",
            "body.1.bias",
            "body.1.running_mean",
            "body.1.running_var",
            "body.1.num_batches_tracked"
        ]
    );
    assert!(net.parameters().iter().all(|parameter| parameter.requires_grad() && parameter.is_leaf()));
}

#[test]
fn a_shared_parameter_is_learnt_once_and_saved_twice() {
    let _seeded = SEEDED.lock().unwrap();
    let first = Linear::new(2, 2).unwrap();
    let mut second = Linear::new(2, 2).unwrap();
    second.weight = first.weight.clone();
    let mut tied = vec![first, second];
    assert_eq!(names(tied.named_parameters()), ["0.weight", "0.bias", "1.bias"]);
    assert_eq!(tied.state_dict().unwrap().len(), 4);
    tied.to(ScalarType::Float64.into()).unwrap();
    assert!(tied[0].weight.is_same(&tied[1].weight));
    assert_eq!(tied[1].weight.dtype(), ScalarType::Float64);
}

#[test]
fn training_is_switched_everywhere() {
    let _seeded = SEEDED.lock().unwrap();
    let mut net = net();
    let x = Tensor::ones(&[1, 2, 2, 2], ScalarType::Float32).unwrap();
    net.eval();
    assert_eq!(net.training, Training(false));
    let evaluated = net.body.forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert!(evaluated.iter().all(|x| (x - 1.0).abs() < 1e-4), "{evaluated:?}");
    net.train(true);
    assert_eq!(net.training, Training(true));
    let trained = net.body.forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert!(trained.iter().all(|x| x.abs() < 1e-2), "{trained:?}");
    let (_, count) = net.named_buffers().pop().unwrap();
    assert_eq!(count.item().unwrap(), 1_i64);
}

#[test]
fn conversion_keeps_integers_and_gradients() {
    let _seeded = SEEDED.lock().unwrap();
    let mut net = net();
    net.scale.set_grad(Some(&Tensor::ones(&[2], ScalarType::Float32).unwrap())).unwrap();
    net.layers[0].weight.requires_grad_(false).unwrap();
    net.to(ScalarType::Float64.into()).unwrap();
    for (name, tensor) in net.state_dict().unwrap() {
        let whole = name.ends_with("num_batches_tracked");
        assert_eq!(tensor.dtype(), if whole { ScalarType::Int64 } else { ScalarType::Float64 }, "{name}");
    }
    assert_eq!(net.scale.grad().unwrap().dtype(), ScalarType::Float64);
    assert!(net.scale.requires_grad() && net.scale.is_leaf());
    assert!(!net.layers[0].weight.requires_grad());
    assert_eq!(net.to(ScalarType::Int64.into()).unwrap_err().kind(), ErrorKind::Dtype);
    let before = net.parameters();
    net.to(ScalarType::Float64.into()).unwrap();
    assert!(before.iter().zip(net.parameters()).all(|(before, after)| before.is_same(&after)));
    net.to(Device::META.into()).unwrap();
    assert!(net.parameters().iter().all(Tensor::is_meta));
}

#[test]
fn gradients_are_taken_away_and_no_longer_wanted() {
    let _seeded = SEEDED.lock().unwrap();
    let net = net();
    net.scale.set_grad(Some(&Tensor::ones(&[2], ScalarType::Float32).unwrap())).unwrap();
    net.zero_grad().unwrap();
    assert!(net.scale.grad().is_none());
    net.requires_grad_(false).unwrap();
    assert!(!net.parameters().iter().any(TensorAutograd::requires_grad));
}

#[test]
fn a_state_dict_is_loaded_in_place() {
    let _seeded = SEEDED.lock().unwrap();
    let (from, to) = (net(), net());
    let held = to.parameters();
    to.load_state_dict(&from.state_dict().unwrap()).unwrap();
    for ((name, wanted), got) in from.named_parameters().iter().zip(&held) {
        assert_eq!(got.to_vec::<f32>().unwrap(), wanted.to_vec::<f32>().unwrap(), "{name}");
        assert!(got.is_leaf() && got.requires_grad());
    }
}

#[test]
fn every_name_that_does_not_fit_is_told_and_nothing_is_loaded() {
    let _seeded = SEEDED.lock().unwrap();
    let net = net();
    let before = net.scale.to_vec::<f32>().unwrap();
    let mut state = net.state_dict().unwrap();
    state.retain(|(name, _)| name != "mean" && name != "layers.1.bias");
    let other = Tensor::zeros(&[5], ScalarType::Float32).unwrap();
    state[0].1 = Tensor::zeros(&[2], ScalarType::Float32).unwrap();
    for (name, tensor) in &mut state {
        if name == "head.bias" {
            *tensor = other.clone();
        }
    }
    state.push(("tail.weight".to_owned(), other.clone()));
    state.push(("head.weight".to_owned(), other));
    let error = net.load_state_dict(&state).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.message(),
        "the state dict does not fit the module: missing: \"mean\", \"layers.1.bias\"; \
         not expected: \"tail.weight\"; there twice: \"head.weight\"; of other sizes: \"head.weight\" is [5] in the \
         state dict and [1, 3] in the module, \"head.bias\" is [5] in the state dict and [1] in the module"
    );
    assert_eq!(net.scale.to_vec::<f32>().unwrap(), before);
}

#[test]
fn a_module_goes_through_a_file() {
    let _seeded = SEEDED.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.safetensors");
    let (from, to) = (net(), net());
    from.save(&file).unwrap();
    to.load(&file).unwrap();
    for ((name, wanted), (_, got)) in from.state_dict().unwrap().iter().zip(to.state_dict().unwrap()) {
        let elements = |tensor: &Tensor| tensor.to(ScalarType::Float64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(elements(&got), elements(wanted), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let nowhere = folder.path().join("nowhere").join("net.safetensors");
    assert_eq!(from.save(&nowhere).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(from.load(&nowhere).unwrap_err().kind(), ErrorKind::Io);
    std::fs::write(&file, b"no tensors").unwrap();
    assert_eq!(from.load(&file).unwrap_err().kind(), ErrorKind::Parse);
}

#[test]
fn bad_input_is_refused() {
    let _seeded = SEEDED.lock().unwrap();
    use tensorplay::nn::{
        Bilinear, Conv1d, ConvConfig, Embedding, EmbeddingConfig, GroupNorm, Gru, Lstm, LstmState,
        MultiheadAttention,
    };
    fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
        result.unwrap_err().kind()
    }
    let x = Tensor::ones(&[2, 3], ScalarType::Float32).unwrap();
    assert!(Linear::new(-1, 2).is_err());
    assert!(Linear::new(4, 2).unwrap().forward(&x).is_err());
    assert_eq!(
        kind(Conv1d::with(3, 4, [1], ConvConfig { groups: 2, ..Default::default() })),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(Conv1d::with(3, 4, [1], ConvConfig { groups: 0, ..Default::default() })),
        ErrorKind::InvalidArgument
    );
    assert_eq!(kind(GroupNorm::new(2, 3)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Dropout::new(1.5)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Dropout::new(f64::NAN)), ErrorKind::InvalidArgument);
    let outside = EmbeddingConfig { padding_idx: Some(3), ..Default::default() };
    assert_eq!(kind(Embedding::with(3, 2, outside)), ErrorKind::Index);
    assert_eq!(kind(MultiheadAttention::new(6, 4)), ErrorKind::InvalidArgument);
    assert_eq!(kind(BatchNorm2d::new(3).unwrap().forward(&x)), ErrorKind::Shape);
    let single = Tensor::ones(&[1, 3, 1, 1], ScalarType::Float32).unwrap();
    assert_eq!(kind(BatchNorm2d::new(3).unwrap().forward(&single)), ErrorKind::InvalidArgument);
    assert_eq!(kind(Bilinear::new(3, 3, 1).unwrap().forward(&x, &single)), ErrorKind::Shape);
    assert_eq!(kind(Lstm::new(4, 0)), ErrorKind::InvalidArgument);
    let lstm = Lstm::new(3, 4).unwrap();
    assert_eq!(kind(lstm.forward(&single)), ErrorKind::Shape);
    assert_eq!(kind(lstm.forward(&Tensor::ones(&[0, 3], ScalarType::Float32).unwrap())), ErrorKind::Shape);
    let state = LstmState { hidden: x.clone(), cell: x.clone() };
    assert_eq!(kind(lstm.forward_with(&x, Some(&state))), ErrorKind::Shape);
    assert_eq!(kind(Gru::new(3, 4).unwrap().forward_with(&x, Some(&x))), ErrorKind::Shape);
    assert_eq!(kind(Parameter::new(&tensor![1_i64].unwrap())), ErrorKind::Dtype);
}

#[test]
fn a_state_that_cannot_be_copied_changes_nothing() {
    let _seeded = SEEDED.lock().unwrap();
    let layer = Linear::new(2, 1).unwrap();
    let before = layer.state_dict().unwrap()[0].1.deep_clone().unwrap();
    let state = [
        ("weight".to_owned(), Tensor::ones(&[1, 2], ScalarType::Float32).unwrap()),
        ("bias".to_owned(), Tensor::ones(&[1], (ScalarType::Float32, Device::META)).unwrap()),
    ];
    assert!(layer.load_state_dict(&state).is_err());
    assert_eq!(layer.state_dict().unwrap()[0].1.to_vec::<f32>().unwrap(), before.to_vec::<f32>().unwrap());
}

#[test]
fn sizes_that_no_layer_has_are_refused() {
    let _seeded = SEEDED.lock().unwrap();
    let x = Tensor::ones(&[1, 1, 3], ScalarType::Float32).unwrap();
    for size in [1 << 57, i64::MAX] {
        assert!(nn::AdaptiveMaxPool1d::new([size]).forward(&x).is_err());
        assert!(nn::AdaptiveAvgPool1d::new([size]).forward(&x).is_err());
    }
    let layers = nn::RecurrentConfig { num_layers: usize::MAX, bidirectional: true, ..Default::default() };
    assert!(nn::Lstm::with(1, 1, layers).is_err());
    assert!(nn::Lstm::new(0, 3).is_err());
    assert!(nn::Conv2d::new(1, 1, [0, 0]).is_err());
    assert!(nn::ConvTranspose2d::new(1, 1, [0, 0]).is_err());
    let none = Tensor::ones(&[3, 0, 4], ScalarType::Float32).unwrap();
    let attention = nn::MultiheadAttention::new(4, 2).unwrap();
    assert!(attention.attend(&none, &none, &none, Default::default()).is_ok());
}
