//! What the command line or the environment gives: a configuration, a device's memory.

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, Error};

use crate::size::ByteSize;

/// The most memory that a device is simulated with, in bytes: 64 TiB, more than any history asks for.
pub(super) const LARGEST_DEVICE: u64 = 1 << 46;

/// The configuration of `--conf`, if the allocator can work with it.
pub(super) fn configuration(text: &str) -> Result<Config, String> {
    let config = Config::parse(text).and_then(supported);
    config.map_err(|error| format!("--conf: {error}"))
}

/// The configuration of the environment, if the allocator can work with it.
pub(super) fn configuration_from_env() -> Result<Config, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    supported(config).map_err(|error| match Config::text_from_env() {
        Some((variable, _)) => format!("{variable}: {error}"),
        None => error.to_string(),
    })
}

/// Refuses what the allocator would refuse later.
fn supported(config: Config) -> Result<Config, Error> {
    CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(0)), config.clone())?;
    Ok(config)
}

/// The memory of `--device-memory` in bytes, if it can be simulated.
pub(super) fn device_memory(size: ByteSize) -> Result<u64, String> {
    checked("--device-memory", size.0)
}

/// The memory of the oracle's variable in bytes, if it is set; written as C reads numbers.
pub(super) fn device_memory_from_env() -> Result<Option<u64>, String> {
    const VARIABLE: &str = "FAKE_CUDA_TOTAL_BYTES";
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(None) };
    let text = value.to_string_lossy();
    let bytes =
        c_number(&text).ok_or_else(|| format!("{VARIABLE} is {text:?}, and not a number of bytes"))?;
    checked(VARIABLE, bytes).map(Some)
}

/// How many devices the oracle's variable says; 1 unless it is set, and at most 8.
pub(super) fn devices_from_env() -> Result<usize, String> {
    const VARIABLE: &str = "FAKE_CUDA_DEVICES";
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(1) };
    let text = value.to_string_lossy();
    let count = c_number(&text).filter(|count| *count > 0);
    let count = count.ok_or_else(|| format!("{VARIABLE} is {text:?}, and not a number of devices"))?;
    Ok(count.min(8) as usize)
}

fn checked(name: &str, bytes: u64) -> Result<u64, String> {
    if bytes <= LARGEST_DEVICE {
        return Ok(bytes);
    }
    let (size, largest) = (ByteSize(bytes), ByteSize(LARGEST_DEVICE));
    Err(format!("{name}: {size} is more than {largest}, the most that is simulated"))
}

/// A number as `strtoull` with base 0 takes it: decimal, `0x…` hexadecimal, `0…` octal.
fn c_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` takes a sign.
    if digits.starts_with(['+', '-']) { None } else { u64::from_str_radix(digits, radix).ok() }
}
