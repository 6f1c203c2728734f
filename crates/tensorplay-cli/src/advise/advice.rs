//! [`Advice`]: what the trials come to. Its JSON form is described in `docs/replay.md`.

use serde::Serialize;

use super::grid::Whose;
use super::trial::Trial;

/// The result of `tensorplay advise`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Advice {
    /// The file, as it was named.
    pub(super) file: String,
    /// Memory of the device, in bytes; `None` is unlimited.
    pub(super) device_memory_bytes: Option<u64>,
    /// Whether every device's history fits under some configuration.
    pub(super) as_wanted: bool,
    pub(super) devices: Vec<DeviceAdvice>,
}

/// The part about one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DeviceAdvice {
    pub(super) device: usize,
    pub(super) events: usize,
    /// The largest sum of what the program held, each request rounded up to 512 bytes.
    pub(super) peak_live_bytes: u64,
    /// What to set for PyTorch; `None` where nothing is better than the defaults.
    pub(super) environment: Option<String>,
    /// The best first.
    pub(super) trials: Vec<Trial>,
    /// What is to be known about the history.
    pub(super) notes: Vec<String>,
}

impl DeviceAdvice {
    pub(super) fn new(
        device: usize,
        events: usize,
        peak_live_bytes: u64,
        mut trials: Vec<Trial>,
        notes: Vec<String>,
    ) -> Self {
        // Stable, so that of equals the simpler one, which stands first in the grid, comes first.
        trials.sort_by_cached_key(Trial::rank);
        let mut advice = Self { device, events, peak_live_bytes, environment: None, trials, notes };
        advice.environment = advice.better().map(|trial| environment(&trial.configuration));
        advice
    }

    /// The best of PyTorch's configurations that fits.
    pub(super) fn best(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.whose == Whose::Pytorch && trial.fits())
    }

    /// PyTorch's defaults.
    pub(super) fn defaults(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.configuration.is_empty())
    }

    /// The best of ours that fits.
    pub(super) fn ours(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.whose == Whose::Ours && trial.fits())
    }

    /// The best of PyTorch's configurations if it is better than the defaults.
    pub(super) fn better(&self) -> Option<&Trial> {
        let best = self.best()?;
        let defaults = self.defaults()?;
        let is_better = !defaults.fits() || best.peaks.reserved_bytes < defaults.peaks.reserved_bytes;
        is_better.then_some(best)
    }
}

/// The line for a shell.
fn environment(configuration: &str) -> String {
    format!("export PYTORCH_CUDA_ALLOC_CONF={configuration}")
}
