//! Recordings made by hand, as snapshot files in JSON.

use serde_json::{Value, json};

use super::*;

/// 2^20 bytes.
pub(crate) const MIB: u64 = 1 << 20;
/// Where the made-up devices have their memory.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// A snapshot in the making.
pub(crate) struct Recording {
    traces: Vec<Vec<Value>>,
    segments: Vec<Value>,
    settings: Value,
    stream: u64,
    pool: Option<[u64; 2]>,
}

impl Recording {
    /// Of one device, by an allocator with PyTorch's defaults.
    pub(crate) fn new() -> Self {
        let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1});
        Self { traces: vec![Vec::new()], segments: Vec::new(), settings, stream: 0, pool: None }
    }

    /// Goes on with the next device.
    pub(crate) fn next_device(&mut self) {
        self.traces.push(Vec::new());
    }

    /// Goes on on a stream.
    pub(crate) fn stream(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// Goes on in a pool that each event names.
    pub(crate) fn pool(&mut self, pool: [u64; 2]) {
        self.pool = Some(pool);
    }

    /// Sets one of the allocator's settings.
    pub(crate) fn setting(&mut self, key: &str, value: Value) {
        self.settings[key] = value;
    }

    /// Leaves the settings out, as old files do.
    pub(crate) fn no_settings(&mut self) {
        self.settings = Value::Null;
    }

    /// An event as the file has it.
    pub(crate) fn event(&mut self, action: &str, address: u64, size: u64) {
        let mut event = json!({"action": action, "addr": address, "size": size, "stream": self.stream});
        if let Some(pool) = self.pool {
            event["pool_id"] = json!(pool);
        }
        self.traces.last_mut().unwrap().push(event);
    }

    /// A segment from the driver, and the block that it was for.
    pub(crate) fn alloc_segment(&mut self, address: u64, bytes: u64, size: u64) {
        self.event("segment_alloc", address, bytes);
        self.alloc(address, size);
    }

    pub(crate) fn alloc(&mut self, address: u64, size: u64) {
        self.event("alloc", address, size);
    }

    /// A free of a block that no other stream uses.
    pub(crate) fn free(&mut self, address: u64, size: u64) {
        self.event("free_requested", address, size);
        self.event("free_completed", address, size);
    }

    /// A segment at the end. Blocks are sizes, requested and rounded; a free one is requested with 0 bytes.
    pub(crate) fn ends_with(&mut self, address: u64, blocks: &[(u64, u64)]) {
        let total: u64 = blocks.iter().map(|(_, size)| size).sum();
        let blocks: Vec<_> = blocks
            .iter()
            .map(|&(requested, size)| {
                let state = if requested == 0 { "inactive" } else { "active_allocated" };
                json!({"size": size, "requested_size": requested, "state": state})
            })
            .collect();
        self.segments.push(json!({
            "device": self.traces.len() - 1,
            "address": address,
            "total_size": total,
            "stream": self.stream,
            "segment_type": if total <= 2 * MIB { "small" } else { "large" },
            "segment_pool_id": self.pool.unwrap_or([0, 0]),
            "is_expandable": false,
            "blocks": blocks,
        }));
    }

    /// The file's text.
    pub(crate) fn json(&self) -> String {
        let mut snapshot = json!({"segments": self.segments, "device_traces": self.traces});
        if !self.settings.is_null() {
            snapshot["allocator_settings"] = self.settings.clone();
        }
        snapshot.to_string()
    }

    /// What `tensorplay replay` with these options says of it.
    pub(crate) fn replay(&self, options: &[&str]) -> Replayed {
        replay_json(&self.json(), options)
    }
}

/// A replay of a snapshot in JSON form.
pub(crate) fn replay_json(json: &str, options: &[&str]) -> Replayed {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    std::fs::write(&file, json).unwrap();
    Replayed::of(&file, options)
}

/// What a replay gave: the exit code, and the report as data.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) code: i32,
    pub(crate) report: Value,
}

impl Replayed {
    /// The replay of a file.
    pub(crate) fn of(file: &std::path::Path, options: &[&str]) -> Self {
        let output =
            tensorplay().args(["replay", "--format", "json"]).args(options).arg(file).output().unwrap();
        let code = output.status.code().unwrap();
        assert!(code < 2 && output.stderr.is_empty(), "{output:?}");
        Self { code, report: serde_json::from_slice(&output.stdout).unwrap() }
    }

    /// The part about a device's replay.
    pub(crate) fn replay(&self, device: usize) -> &Value {
        &self.report["devices"][device]["replay"]
    }

    /// `placements as recorded of compared + open, segment events the same`, and the first difference.
    pub(crate) fn compared(&self) -> String {
        let mut text = String::new();
        for device in self.report["devices"].as_array().unwrap() {
            let comparison = &device["replay"]["comparison"];
            let counts = |name: &str| {
                let counts = &comparison[name];
                format!("{} of {} + {}", counts["as_recorded"], counts["compared"], counts["not_determined"])
            };
            text += &format!("{}, segments {}", counts("placements"), counts("segments"));
            if let Some(difference) = comparison["first_difference"].as_object() {
                text += &format!("\nevent {}: {}", difference["event"], difference["what"].as_str().unwrap());
            }
            text.push('\n');
        }
        assert_eq!(self.code, i32::from(text.contains("event ")), "{text}");
        text
    }
}
