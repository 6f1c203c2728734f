//! What the environment says of the world: the only place that reads it.

use c10_cuda::Config;

use crate::failure::Failure;

/// The memory of each simulated device, in bytes.
const SIM_BYTES: &str = "TENSORPLAY_CUDA_SIM_BYTES";
/// How many simulated devices there are.
const SIM_DEVICES: &str = "TENSORPLAY_CUDA_SIM_DEVICES";

/// A machine's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) devices: usize,
    pub(crate) bytes: u64,
}

/// The size that the variables give, where a part of it is not given otherwise.
pub(crate) fn size(devices: Option<usize>, bytes: Option<u64>) -> Result<Size, Failure> {
    Ok(Size {
        devices: devices.map_or_else(|| number(SIM_DEVICES, 1), Ok)?,
        bytes: bytes.map_or_else(|| number(SIM_BYTES, 80 << 30), Ok)?,
    })
}

/// The allocator's settings, as PyTorch's variables give them.
pub(crate) fn config() -> Result<Config, Failure> {
    Ok(Config::from_env()?)
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> Result<T, Failure> {
    match std::env::var(name) {
        Err(_) => Ok(otherwise),
        Ok(text) => text.parse().map_err(|_| Failure::config(format!("{name} is no number: {text}"))),
    }
}
