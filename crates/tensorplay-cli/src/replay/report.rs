//! [`ReplayReport`]: what a replay found out, as data. Its JSON form is described in `docs/replay.md`.

use serde::Serialize;

use super::chart::Timeline;
use super::recording::Recording;

/// The result of `tensorplay replay`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ReplayReport {
    /// The file, as it was named.
    pub(crate) file: String,
    /// Whether the recording's decisions were compared, or its requests tried under other terms.
    pub(crate) mode: Mode,
    /// Whether all that was compared agrees, or everything fits.
    pub(crate) as_wanted: bool,
    /// The devices that the file has something about.
    pub(crate) devices: Vec<DeviceReport>,
}

/// What a replay was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Each decision is compared with the recording's.
    Comparison,
    /// The requests alone are run, under another configuration or with other memory.
    WhatIf,
}

/// The part about one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeviceReport {
    /// What the file says.
    pub(crate) recording: Recording,
    /// What running it again gave.
    pub(crate) replay: Replay,
}

/// What running a history again gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Replay {
    /// The configuration that was replayed, as in `PYTORCH_CUDA_ALLOC_CONF`; empty for the defaults.
    pub(crate) configuration: String,
    /// Memory of the device, in bytes; `None` is unlimited.
    pub(crate) device_memory_bytes: Option<u64>,
    /// Which of several free blocks of one size was taken.
    pub(crate) order_of_equals: OrderOfEquals,
    /// Largest values over the whole history.
    pub(crate) peaks: Peaks,
    /// In a what-if: calls of the driver that obtain, map or give back memory.
    pub(crate) driver_calls: Option<u64>,
    /// How it compares with the recording; `None` in a what-if.
    pub(crate) comparison: Option<Comparison>,
    /// The first request that was refused, in a what-if: the history does not fit.
    pub(crate) out_of_memory: Option<OutOfMemory>,
    /// How the plan did, where one was served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<PlanUse>,
    /// Memory over the history, for the page.
    #[serde(skip)]
    pub(crate) timeline: Timeline,
    /// What is to be known about the replay.
    pub(crate) notes: Vec<String>,
    /// The table of `torch.cuda.memory_summary` at the end.
    pub(crate) memory_summary: String,
}

/// How a replay compares with its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Comparison {
    /// Where allocations went.
    pub(crate) placements: Placements,
    /// Segments obtained and given back.
    pub(crate) segments: SegmentAgreement,
    /// The first event that went another way than recorded.
    pub(crate) first_difference: Option<Difference>,
}

/// Which of several free blocks of one size an allocator takes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderOfEquals {
    /// The one in the memory that was obtained first, as PyTorch 2.15 does.
    Registration,
    /// The one at the lowest address, as older versions do.
    Address,
    /// The recording does not tell: both orders agree with it.
    Either,
}

/// How many allocations went where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Placements {
    /// Allocations whose place the recording determines.
    pub(crate) compared: u64,
    /// Those that went to the recorded place.
    pub(crate) as_recorded: u64,
    /// Allocations whose place the recording leaves open.
    pub(crate) not_determined: u64,
}

/// How many segment events agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SegmentAgreement {
    /// Segment events that the recording determines.
    pub(crate) compared: u64,
    /// Those that the replay had at the same moment, at the same address and with the same size.
    pub(crate) as_recorded: u64,
    /// Segment events that the recording leaves open.
    pub(crate) not_determined: u64,
    /// Segments that the replay itself obtained and gave back.
    pub(crate) replayed: u64,
}

/// Where a replay first went another way than its recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// The event's place in the device's history, from 0.
    pub(crate) event: usize,
    /// What was otherwise.
    pub(crate) what: String,
}

/// Peaks in bytes; see `torch.cuda.memory_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Peaks {
    /// What the program had asked for.
    pub(crate) requested_bytes: u64,
    /// Blocks that the program held.
    pub(crate) allocated_bytes: u64,
    /// Those, and blocks that waited for other streams.
    pub(crate) active_bytes: u64,
    /// What was held from the driver.
    pub(crate) reserved_bytes: u64,
}

impl Peaks {
    /// What was reserved at its peak beyond the peak of allocated memory.
    pub(crate) fn waste_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.allocated_bytes)
    }

    /// The same as a part of the peak of reserved memory, from 0 to 1.
    pub(crate) fn waste(&self) -> f64 {
        match self.reserved_bytes {
            0 => 0.0,
            reserved => self.waste_bytes() as f64 / reserved as f64,
        }
    }
}

/// How a plan did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PlanUse {
    /// The most that was live at once, in multiples of 512 bytes for each request.
    pub(crate) peak_live_bytes: u64,
    /// What was held from the driver, in whole pages of 2 MiB.
    pub(crate) peak_reserved_bytes: u64,
    /// The part of it beyond what was live, from 0 to 1.
    pub(crate) waste: f64,
    /// Bytes of the plan's arena.
    pub(crate) height_bytes: u64,
    /// Whether the plan was made from just these requests.
    pub(crate) is_of_this_history: bool,
    /// Requests that got their place in the plan.
    pub(crate) planned: u64,
    /// Requests that got another place in the arena.
    pub(crate) elsewhere: u64,
    /// Requests that were served outside it.
    pub(crate) outside: u64,
    /// How often the place in the plan was lost and found again.
    pub(crate) resynchronised: u64,
    /// How often the plan began again.
    pub(crate) laps: u64,
}

/// A request that was refused in a what-if.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OutOfMemory {
    /// The event's place in the device's history, from 0; `None` for what was live when the recording began.
    pub(crate) event: Option<usize>,
    /// What the program asked for, in bytes.
    pub(crate) requested_bytes: u64,
    /// PyTorch's text.
    pub(crate) message: String,
}

impl ReplayReport {
    /// The report on these devices.
    pub(crate) fn new(file: String, mode: Mode, devices: Vec<DeviceReport>) -> Self {
        let as_wanted = devices.iter().all(|device| device.replay.is_as_wanted());
        Self { file, mode, as_wanted, devices }
    }

    /// The report as one JSON object.
    pub(crate) fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("numbers and strings have a JSON form");
        json.push('\n');
        json
    }
}

impl Replay {
    fn is_as_wanted(&self) -> bool {
        let differs = self.comparison.as_ref().is_some_and(|c| c.first_difference.is_some());
        !differs && self.out_of_memory.is_none()
    }
}
