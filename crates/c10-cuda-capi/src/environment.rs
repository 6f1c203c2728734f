//! What the environment says of the world: the only place that reads it.

use c10_cuda::Config;

use crate::failure::Failure;

/// Which driver the allocator is over: `sim` unless set, or `cuda`.
const DRIVER: &str = "TENSORPLAY_CUDA_DRIVER";
/// The memory of each simulated device, in bytes.
const SIM_BYTES: &str = "TENSORPLAY_CUDA_SIM_BYTES";
/// How many simulated devices there are.
const SIM_DEVICES: &str = "TENSORPLAY_CUDA_SIM_DEVICES";

/// What the allocator runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Machine {
    /// A simulated one.
    Sim {
        /// How many devices it has.
        devices: usize,
        /// The memory of each.
        bytes: u64,
    },
    /// This one, through its CUDA driver.
    Cuda {
        /// How many devices the program counts on.
        devices: usize,
    },
}

/// The machine that the variables name, where a part of it is not given otherwise.
pub(crate) fn machine(devices: Option<usize>, bytes: Option<u64>) -> Result<Machine, Failure> {
    let name = std::env::var_os(DRIVER).unwrap_or_else(|| "sim".into());
    match name.to_str() {
        Some("sim") => Ok(Machine::Sim {
            devices: devices.map_or_else(|| number(SIM_DEVICES, 1), Ok)?,
            bytes: bytes.map_or_else(|| number(SIM_BYTES, 80 << 30), Ok)?,
        }),
        Some("cuda") => match bytes {
            None => Ok(Machine::Cuda { devices: devices.unwrap_or(0) }),
            Some(bytes) => Err(Failure::config(format!(
                "{bytes} bytes a device are asked for: those of the CUDA driver have what they have"
            ))),
        },
        _ => Err(Failure::config(format!("{DRIVER} is neither sim nor cuda: {}", name.display()))),
    }
}

impl Machine {
    /// With as many devices at least.
    pub(crate) fn counting_on(self, least: usize) -> Self {
        match self {
            Self::Sim { devices, bytes } => Self::Sim { devices: devices.max(least), bytes },
            Self::Cuda { devices } => Self::Cuda { devices: devices.max(least) },
        }
    }
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
