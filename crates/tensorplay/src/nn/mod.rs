//! Modules: trees of named parameters and buffers, and what is computed with them (`torch.nn`).
//!
//! - [`Module`], [`Forward`], [`Parameter`], [`Buffer`], [`parts!`](crate::parts): how a module is written.
//! - Layers, each with PyTorch's names, defaults and initial values. `new` takes the arguments that PyTorch requires,
//!   `with` the others too, in a `…Config`.
//! - [`loss`]: what is minimised.
//! - [`init`]: PyTorch's initialisations, with its numbers for the same seed.

mod parameter;
mod visit;
mod module;
mod named;
mod convert;
pub(crate) mod state_dict;
pub mod init;
mod sequential;
mod linear;
mod bilinear;
mod conv;
mod conv_transpose;
mod pool;
mod adaptive_pool;
mod batch_norm;
mod layer_norm;
mod group_norm;
mod rms_norm;
mod embedding;
mod attention;
mod transformer;
mod recurrent;
mod activation;
mod dropout;
mod flatten;
pub mod loss;

pub use activation::*;
pub use adaptive_pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool,
    AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
};
pub use attention::{AttentionConfig, AttentionMask, MultiheadAttention};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormConfig};
pub use bilinear::Bilinear;
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvConfig, Padding};
pub use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeConfig,
};
pub use dropout::Dropout;
pub use embedding::{Embedding, EmbeddingConfig};
pub use flatten::Flatten;
pub use group_norm::{GroupNorm, GroupNormConfig};
pub use layer_norm::{LayerNorm, LayerNormConfig};
pub use linear::{Linear, LinearConfig};
pub use module::{Forward, Module};
pub use parameter::{Buffer, Parameter, Training};
pub use pool::{
    AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, AvgPoolConfig, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d,
    MaxPoolConfig,
};
pub use recurrent::{Gru, Lstm, LstmState, RecurrentConfig};
pub use rms_norm::{RmsNorm, RmsNormConfig};
pub use sequential::Sequential;
pub use transformer::{TransformerEncoderConfig, TransformerEncoderLayer};
pub use visit::{Part, Visitor, VisitorMut};
