//! [`Settings`]: what the machine is like, as the environment or a reset says.

use c10_cuda::driver::sim::{Completion, MAX_DEVICES, SimConfig};

/// What each device has unless said otherwise: 4 GiB.
const DEFAULT_BYTES: u64 = 4 << 30;

/// What a machine is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) bytes: u64,
    pub(crate) completion: Completion,
}

impl Settings {
    /// As `CUDA_STANDIN_DEVICES`, `CUDA_STANDIN_BYTES` and `CUDA_STANDIN_COMPLETION` say; what is not there, or no
    /// value, is as by default.
    pub(crate) fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let devices = number("CUDA_STANDIN_DEVICES").unwrap_or(1).min(MAX_DEVICES as u64) as usize;
        let completion = std::env::var("CUDA_STANDIN_COMPLETION").unwrap_or_default();
        Self {
            devices,
            bytes: number("CUDA_STANDIN_BYTES").unwrap_or(DEFAULT_BYTES),
            completion: completion_of(&completion).unwrap_or(Completion::Eager),
        }
    }

    /// As `cuda_standin_reset` is told; `None` for what is no machine.
    pub(crate) fn of_reset(devices: u32, bytes: u64, completion: u32) -> Option<Self> {
        let completion = match completion {
            0 => Completion::Eager,
            1 => Completion::Manual,
            _ => return None,
        };
        let devices = usize::try_from(devices).ok().filter(|&n| n <= MAX_DEVICES)?;
        Some(Self { devices, bytes, completion })
    }

    pub(crate) fn config(self) -> SimConfig {
        SimConfig::with_devices(self.devices, self.bytes).completion(self.completion).frugal_pools()
    }
}

fn completion_of(text: &str) -> Option<Completion> {
    match text.trim() {
        "eager" => Some(Completion::Eager),
        "manual" => Some(Completion::Manual),
        other => other.strip_prefix("seeded:")?.parse().ok().map(Completion::Seeded),
    }
}
