//! Hooks: functions that see gradients as they are computed.

mod tensor;
mod multi_grad;

pub use multi_grad::{MultiGradHandle, register_multi_grad_hook, register_multi_grad_hook_any};
pub use tensor::HookHandle;

pub(crate) use multi_grad::are_awaited;
pub(crate) use tensor::{
    PostAccumulateHook, TensorHook, check_replaced, next_id, register, register_post_accumulate, run,
};
