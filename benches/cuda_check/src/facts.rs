//! What machine this is.

use std::process::ExitCode;
use std::sync::Arc;

use c10_cuda::driver::{Driver, real};
use c10_cuda::{Error, ErrorKind};

use crate::all::NO_DRIVER;
use crate::figure::print_fact;

/// Prints the driver and the devices. Ends with a number of its own where there is no driver.
pub(crate) fn run() -> ExitCode {
    match real::load().and_then(print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ending(&error)
        }
    }
}

fn ending(error: &Error) -> ExitCode {
    if error.kind() == ErrorKind::DeviceUnavailable { NO_DRIVER.into() } else { ExitCode::FAILURE }
}

fn print(driver: Arc<dyn Driver>) -> c10_cuda::Result<()> {
    let version = driver.version();
    print_fact("CUDA driver", &format!("{}.{}", version / 1000, version % 1000 / 10));
    if let Ok(text) = std::fs::read_to_string("/proc/driver/nvidia/version") {
        print_fact("kernel module", text.lines().next().unwrap_or_default());
    }
    for device in 0..driver.device_count() {
        let props = driver.device_props(device)?;
        let (major, minor) = props.compute_capability;
        let text = format!(
            "{}, {} MiB, compute capability {major}.{minor}, {} multiprocessors, pages of {} KiB",
            props.name,
            props.total_memory >> 20,
            props.multi_processor_count,
            driver.granularity(device)? >> 10,
        );
        print_fact(&format!("device {device}"), &text);
    }
    let libc = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let libc = libc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    print_fact("libc", libc.as_deref().unwrap_or("unknown"));
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    print_fact("processors", &processors.to_string());
    Ok(())
}
