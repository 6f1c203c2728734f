//! A toy accelerator under `PrivateUse1`, made from outside of `aten`: memory, hooks, kernels, and the host for
//! every operator that has no kernel here. See the README beside this for what is where.
//!
//! ```
//! use aten::Tensor;
//!
//! custom_device::register()?;
//! let x = Tensor::from_elements(&[1.0_f32, 2.0])?.to(custom_device::device(0))?;
//! let y = x.add(&x)?; // a kernel of the device
//! let z = y.cumsum(0)?; // through the host
//! assert_eq!(z.to(c10_core::Device::CPU)?.to_vec::<f32>()?, [2.0, 6.0]);
//! # Ok::<(), aten::Error>(())
//! ```

mod fallback;
mod hooks;
mod kernels;
mod memory;

use std::sync::{Arc, OnceLock};

use aten::Result;
use aten::dispatch::{DispatchKey, Dispatcher, Library};
use c10_core::{Device, DeviceIndex, DeviceType};

pub use fallback::calls_on_the_host;

/// The type that the toy takes.
const TYPE: DeviceType = DeviceType::PrivateUse1;
/// The key of its kernels.
const KEY: DispatchKey = DispatchKey::PrivateUse1;

/// One of its two devices.
pub const fn device(index: DeviceIndex) -> Device {
    Device::new(TYPE, index)
}

/// Makes the toy known to the process. More calls do nothing.
///
/// # Errors
/// When another backend has taken the device type, or its key; nothing is registered then.
pub fn register() -> Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| register_all().map_err(|error| error.to_string()));
    done.clone().map_err(|text| aten::Error::new(aten::ErrorKind::Registration, text))
}

fn register_all() -> Result<()> {
    let dispatcher = Dispatcher::global();
    // A library takes back what it registered when it is dropped: if one step fails, none stays.
    let mut kernels = Library::implementing(dispatcher, "aten", KEY);
    kernels::register(&mut kernels)?;
    let mut fallback = Library::fallbacks(dispatcher);
    fallback::register(&mut fallback)?;
    c10_core::hooks::register_hooks(Arc::new(hooks::Toy))?;
    c10_core::allocator::set_allocator(TYPE, Arc::new(memory::ToyMemory), 0);
    kernels.keep();
    fallback.keep();
    Ok(())
}

/// Compiles the examples of the guide to tensors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tensors.md")]
struct Guide;
