//! [`ReplayReport`]: what a replay found out, as data.

use serde::Serialize;

use super::recording::Recording;

/// The result of `tensorplay replay`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ReplayReport {
    /// The file, as it was named.
    pub(crate) file: String,
    /// The devices that the file has something about.
    pub(crate) devices: Vec<DeviceReport>,
}

/// The part about one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DeviceReport {
    /// What the file says.
    pub(crate) recording: Recording,
    /// What running it again gave; `None` when it was not run.
    pub(crate) outcome: Option<Outcome>,
}

/// What running a history again gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Outcome {
    /// The allocator's configuration string, empty for the defaults.
    pub(crate) configuration: String,
    /// Memory of the device, in bytes; `None` is unlimited.
    pub(crate) device_memory_bytes: Option<u64>,
    /// Whether the replay's decisions were compared with the recording's.
    pub(crate) compared: bool,
    /// Which of several free blocks of one size was taken.
    pub(crate) order_of_equals: OrderOfEquals,
    /// Where allocations went, against the recording.
    pub(crate) placements: Placements,
    /// Segments obtained and given back, against the recording.
    pub(crate) segments: SegmentAgreement,
    /// The first event that went another way than recorded, in words.
    pub(crate) first_difference: Option<String>,
    /// Largest values over the whole history.
    pub(crate) peaks: Peaks,
    /// The first out of memory, if there was one: the history does not fit.
    pub(crate) out_of_memory: Option<OutOfMemory>,
    /// The table of `torch.cuda.memory_summary` at the end.
    pub(crate) memory_summary: String,
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
    /// Segment events of the recording.
    pub(crate) compared: u64,
    /// Those that the replay had at the same moment with the same size.
    pub(crate) agreed: u64,
    /// Segment events that the recording leaves open.
    pub(crate) not_determined: u64,
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
    /// The part of the peak of reserved memory that the peak of allocated memory leaves, from 0 to 1.
    pub(crate) fn waste(&self) -> f64 {
        match self.reserved_bytes {
            0 => 0.0,
            reserved => reserved.saturating_sub(self.allocated_bytes) as f64 / reserved as f64,
        }
    }
}

/// An out of memory during a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OutOfMemory {
    /// The number of the event in the device's history.
    pub(crate) event: usize,
    /// PyTorch's text.
    pub(crate) message: String,
}

impl ReplayReport {
    /// Whether all that was compared agreed, and everything fitted.
    pub(crate) fn is_as_wanted(&self) -> bool {
        let outcomes = self.devices.iter().filter_map(|device| device.outcome.as_ref());
        outcomes
            .into_iter()
            .all(|outcome| outcome.first_difference.is_none() && outcome.out_of_memory.is_none())
    }

    /// The report as one JSON object.
    pub(crate) fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("numbers and strings have a JSON form");
        json.push('\n');
        json
    }
}
