//! What each module begins with under a seed, and what it gives, as PyTorch's.

use std::sync::Mutex;

use serde_json::Value;
use tensorplay::aten::tensor::TriuOptions;
use tensorplay::nn::*;
use tensorplay::prelude::*;

use crate::recorded::{assert_close, read, tensor};

/// The seed of the recording.
const SEED: u64 = 1234;

/// The default generator is one a process: who seeds it or draws, as layers do that are made, holds this meanwhile.
pub(crate) static SEEDED: Mutex<()> = Mutex::new(());

/// What a module gives for inputs.
type Outputs = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

/// The state that a module begins with, its parameters, and what it gives.
struct Made {
    state: Vec<(String, Tensor)>,
    parameters: Vec<(String, Tensor)>,
    outputs: Outputs,
}

fn forward(module: impl Forward + 'static) -> Made {
    of(module, |module, inputs| Ok(vec![module.forward(&inputs[0])?]))
}

/// A module's state, and what it gives when it is not trained.
fn of<M: Module + 'static>(
    mut module: M,
    call: impl Fn(&M, &[Tensor]) -> Result<Vec<Tensor>> + 'static,
) -> Made {
    let (state, parameters) = (module.state_dict().unwrap(), module.named_parameters());
    module.eval();
    Made { state, parameters, outputs: Box::new(move |inputs| call(&module, inputs)) }
}

fn make(name: &str) -> Result<Made> {
    if let Some(made) = layer(name)? {
        return Ok(made);
    }
    if let Some(made) = pool(name) {
        return Ok(made);
    }
    if let Some(made) = sequence(name)? {
        return Ok(made);
    }
    Ok(activation(name)?.unwrap_or_else(|| panic!("unknown module {name}")))
}

fn layer(name: &str) -> Result<Option<Made>> {
    Ok(Some(match name {
        "linear" => forward(Linear::new(5, 3)?),
        "linear_no_bias" => forward(Linear::with(5, 3, LinearConfig { bias: false, ..Default::default() })?),
        "bilinear" => of(Bilinear::new(3, 4, 2)?, |m, x| Ok(vec![m.forward(&x[0], &x[1])?])),
        "conv1d" => {
            let config = ConvConfig { padding: Padding::Each([1]), ..Default::default() };
            forward(Conv1d::with(2, 4, [3], config)?)
        }
        "conv2d" => {
            let config = ConvConfig {
                stride: [2, 1],
                padding: Padding::Each([1, 0]),
                groups: 2,
                ..Default::default()
            };
            forward(Conv2d::with(4, 6, [3, 2], config)?)
        }
        "conv2d_same" => {
            let config = ConvConfig { padding: Padding::Same, dilation: [2, 2], ..Default::default() };
            forward(Conv2d::with(2, 3, [3, 3], config)?)
        }
        "conv3d" => forward(Conv3d::new(1, 2, [2, 2, 2])?),
        "conv_transpose1d" => {
            let config = ConvTransposeConfig { stride: [2], ..Default::default() };
            forward(ConvTranspose1d::with(2, 3, [3], config)?)
        }
        "conv_transpose2d" => {
            let config = ConvTransposeConfig {
                stride: [2, 2],
                padding: [1, 1],
                output_padding: [1, 1],
                groups: 2,
                ..Default::default()
            };
            forward(ConvTranspose2d::with(4, 6, [3, 3], config)?)
        }
        "conv_transpose3d" => forward(ConvTranspose3d::new(1, 2, [2, 2, 2])?),
        "batch_norm1d" => forward(BatchNorm1d::new(3)?),
        "batch_norm2d" => {
            forward(BatchNorm2d::with(3, BatchNormConfig { momentum: None, ..Default::default() })?)
        }
        "batch_norm3d" => {
            let config = BatchNormConfig { affine: false, track_running_stats: false, ..Default::default() };
            forward(BatchNorm3d::with(2, config)?)
        }
        "layer_norm" => forward(LayerNorm::new(&[4, 5])?),
        "group_norm" => forward(GroupNorm::new(2, 6)?),
        "rms_norm" => forward(RmsNorm::new(&[5])?),
        "embedding" => forward(Embedding::new(7, 4)?),
        "embedding_padding" => {
            forward(Embedding::with(7, 4, EmbeddingConfig { padding_idx: Some(-1), ..Default::default() })?)
        }
        _ => return Ok(None),
    }))
}

fn pool(name: &str) -> Option<Made> {
    Some(match name {
        "max_pool1d" => forward(MaxPool1d::new([2])),
        "max_pool2d" => {
            let config = MaxPoolConfig {
                stride: Some([2, 2]),
                padding: [1, 1],
                ceil_mode: true,
                ..Default::default()
            };
            forward(MaxPool2d::with([3, 3], config))
        }
        "max_pool3d" => forward(MaxPool3d::new([2, 2, 2])),
        "avg_pool1d" => forward(AvgPool1d::new([2])),
        "avg_pool2d" => {
            let config = AvgPoolConfig {
                stride: Some([2, 2]),
                padding: [1, 1],
                count_include_pad: false,
                ..Default::default()
            };
            forward(AvgPool2d::with([3, 3], config))
        }
        "avg_pool3d" => forward(AvgPool3d::new([2, 2, 2])),
        "adaptive_avg_pool1d" => forward(AdaptiveAvgPool1d::new([3])),
        "adaptive_avg_pool2d" => forward(AdaptiveAvgPool2d::new([3, 2])),
        "adaptive_max_pool2d" => forward(AdaptiveMaxPool2d::new([3, 2])),
        _ => return None,
    })
}

fn attention(name: &str) -> Result<Option<Made>> {
    let batch_first = AttentionConfig { batch_first: true, ..Default::default() };
    let both = |(output, weights): (Tensor, Tensor)| vec![output, weights];
    Ok(Some(match name {
        "attention" => of(MultiheadAttention::new(6, 2)?, move |m, x| {
            m.attend(&x[0], &x[1], &x[2], AttentionMask::default()).map(both)
        }),
        "attention_batch_first" => {
            let config = AttentionConfig { bias: false, ..batch_first };
            of(MultiheadAttention::with(6, 3, config)?, move |m, x| {
                m.attend(&x[0], &x[0], &x[0], AttentionMask::default()).map(both)
            })
        }
        "attention_padding" => of(MultiheadAttention::with(6, 2, batch_first)?, move |m, x| {
            let hidden = tensor![[false, false, true, true], [false, false, false, false]]?;
            let mask = AttentionMask { key_padding: Some(&hidden), ..Default::default() };
            m.attend(&x[0], &x[0], &x[0], mask).map(both)
        }),
        "attention_causal" => of(MultiheadAttention::with(6, 2, batch_first)?, move |m, x| {
            let ones = Tensor::ones(&[4, 4], ScalarType::Bool)?;
            let causal = ones.triu_with(TriuOptions { diagonal: 1 })?;
            let mask = AttentionMask { attention: Some(&causal), ..Default::default() };
            m.attend(&x[0], &x[0], &x[0], mask).map(both)
        }),
        _ => return Ok(None),
    }))
}

fn sequence(name: &str) -> Result<Option<Made>> {
    let lstm_outputs = |(output, state): (Tensor, LstmState)| vec![output, state.hidden, state.cell];
    let gru_outputs = |(output, hidden): (Tensor, Tensor)| vec![output, hidden];
    let encoder = TransformerEncoderConfig { dim_feedforward: 8, ..Default::default() };
    Ok(Some(match name {
        "encoder" => forward(TransformerEncoderLayer::with(6, 2, encoder)?),
        "encoder_norm_first" => {
            let config =
                TransformerEncoderConfig { gelu: true, batch_first: true, norm_first: true, ..encoder };
            forward(TransformerEncoderLayer::with(6, 2, config)?)
        }
        "lstm" => of(Lstm::new(3, 4)?, move |m, x| m.forward_with(&x[0], None).map(lstm_outputs)),
        "lstm_deep" => {
            let config = RecurrentConfig {
                num_layers: 2,
                batch_first: true,
                bidirectional: true,
                dropout: 0.5,
                ..Default::default()
            };
            of(Lstm::with(3, 4, config)?, move |m, x| {
                let state = LstmState { hidden: x[1].clone(), cell: x[2].clone() };
                m.forward_with(&x[0], Some(&state)).map(lstm_outputs)
            })
        }
        "gru" => of(Gru::new(3, 4)?, move |m, x| m.forward_with(&x[0], None).map(gru_outputs)),
        "gru_deep" => {
            let config =
                RecurrentConfig { num_layers: 3, bias: false, bidirectional: true, ..Default::default() };
            of(Gru::with(3, 4, config)?, move |m, x| m.forward_with(&x[0], Some(&x[1])).map(gru_outputs))
        }
        other => return attention(other),
    }))
}

fn activation(name: &str) -> Result<Option<Made>> {
    Ok(Some(match name {
        "relu" => forward(Relu),
        "relu6" => forward(Relu6),
        "sigmoid" => forward(Sigmoid),
        "tanh" => forward(Tanh),
        "silu" => forward(Silu),
        "mish" => forward(Mish),
        "log_sigmoid" => forward(LogSigmoid),
        "selu" => forward(Selu),
        "hardsigmoid" => forward(Hardsigmoid),
        "hardswish" => forward(Hardswish),
        "softsign" => forward(Softsign),
        "tanhshrink" => forward(Tanhshrink),
        "gelu" => forward(Gelu::default()),
        "gelu_tanh" => forward(Gelu { tanh: true }),
        "leaky_relu" => forward(LeakyRelu::default()),
        "elu" => forward(Elu::default()),
        "celu" => forward(Celu::default()),
        "softplus" => forward(Softplus::default()),
        "hardtanh" => forward(Hardtanh::default()),
        "hardshrink" => forward(Hardshrink::default()),
        "softshrink" => forward(Softshrink::default()),
        "softmax" => forward(Softmax::default()),
        "log_softmax" => forward(LogSoftmax::default()),
        "prelu" => forward(Prelu::new(4)?),
        _ => return Ok(None),
    }))
}

fn check(case: &Value) -> Result<()> {
    let name = case["name"].as_str().unwrap();
    let made = {
        let _seeded = SEEDED.lock().unwrap();
        tensorplay::manual_seed(SEED);
        make(name)?
    };
    assert_named(name, &made.state, &case["state"], 1e-6);
    let inputs: Vec<Tensor> = case["inputs"].as_array().unwrap().iter().map(tensor).collect();
    let wanted = case["input_gradients"].as_array().unwrap();
    for (input, _) in inputs.iter().zip(wanted).filter(|(_, wanted)| wanted.is_object()) {
        input.requires_grad_(true)?;
    }
    let (outputs, wanted_outputs) = ((made.outputs)(&inputs)?, case["outputs"].as_array().unwrap());
    assert_eq!(outputs.len(), wanted_outputs.len(), "{name}: outputs");
    let mut loss = Tensor::zeros(&[], ScalarType::Float32)?;
    for (output, wanted) in outputs.iter().zip(wanted_outputs) {
        assert_close(&format!("{name}: output"), output, &tensor(wanted), 2e-6);
        let counts = Tensor::arange(output.numel(), ScalarType::Float32)?.cos()?.reshape(&output.sizes())?;
        loss = (&loss + (output * &counts)?.sum())?;
    }
    loss.backward()?;
    let gradients: Vec<(String, Tensor)> = made
        .parameters
        .iter()
        .map(|(key, parameter)| {
            (key.clone(), parameter.grad().unwrap_or_else(|| panic!("{name}: {key} has no gradient")))
        })
        .collect();
    assert_named(&format!("{name}, gradient"), &gradients, &case["gradients"], 1e-5);
    for (input, wanted) in inputs.iter().zip(wanted).filter(|(_, wanted)| wanted.is_object()) {
        assert_close(&format!("{name}: gradient of input"), &input.grad().unwrap(), &tensor(wanted), 1e-5);
    }
    Ok(())
}

/// Asserts that the names are PyTorch's, and the tensors.
fn assert_named(name: &str, got: &[(String, Tensor)], wanted: &Value, tolerance: f64) {
    let wanted = wanted.as_object().unwrap();
    assert_eq!(got.len(), wanted.len(), "{name}");
    for (key, got) in got {
        let wanted = wanted.get(key).unwrap_or_else(|| panic!("{name}: PyTorch has no {key}"));
        assert_close(&format!("{name}: {key}"), got, &tensor(wanted), tolerance);
    }
}

#[test]
fn modules_begin_compute_and_have_gradients_as_in_pytorch() {
    let file = read("modules.json.gz");
    let cases = file["modules"].as_array().unwrap();
    assert_eq!(cases.len(), 61);
    for case in cases {
        if let Err(error) = check(case) {
            panic!("{}: {error}", case["name"]);
        }
    }
}

#[test]
fn groups_of_no_channels_and_masks_of_whole_numbers_are_refused() {
    let _seeded = SEEDED.lock().unwrap();
    assert_eq!(GroupNorm::new(1, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let attention = MultiheadAttention::new(4, 2).unwrap();
    let x = Tensor::ones(&[3, 1, 4], ScalarType::Float32).unwrap();
    let hidden = Tensor::ones(&[3, 3], ScalarType::Int64).unwrap();
    let masks = [
        ("attn_mask", AttentionMask { attention: Some(&hidden), key_padding: None }),
        ("key_padding_mask", AttentionMask { attention: None, key_padding: Some(&hidden) }),
    ];
    for (name, mask) in masks {
        let error = attention.attend(&x, &x, &x, mask).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dtype);
        assert!(error.to_string().contains(&format!("only bool and floating types of {name} ")), "{error}");
    }
}
