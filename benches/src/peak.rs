//! The memory that a piece of work takes at most, as the system counts it.

use std::process::Command;

/// How many KiB the process grew by at most while `work` ran; `NaN` where the system does not say.
pub fn of(mut work: impl FnMut()) -> f64 {
    // A first run: what is made once does not count.
    work();
    // From here on the system counts anew.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS:");
    work();
    match (before, status("VmHWM:")) {
        (Some(before), Some(peak)) => peak - before,
        _ => f64::NAN,
    }
}

/// The figure that this program gives in a process of its own, called with `--peak`.
pub fn of_child(side: &str, case: &str) -> Option<f64> {
    let run = Command::new(std::env::current_exe().ok()?).args(["--peak", side, case]).output().ok()?;
    String::from_utf8_lossy(&run.stdout).trim().parse().ok().filter(|kib: &f64| kib.is_finite())
}

/// A line of `/proc/self/status`, in KiB.
fn status(name: &str) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}
