//! Snapshots, the history, queries, and commands that are wrong.

use super::program::Program;

const ACTIONS: &[&str] = &[
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
];

impl Program {
    pub(super) fn snapshot(&mut self) -> bool {
        match self.any_pool() {
            Some(pool) if self.random.percent(40) => {
                self.say(format!("snapshot {}", pool.name), &[pool.op]);
            }
            _ => {
                self.say("snapshot", &[]);
            }
        }
        true
    }

    pub(super) fn history(&mut self) -> bool {
        // The order of a restore's entries is open, and so which of them a ring keeps.
        if self.devices.iter().any(|device| device.has_checkpoints) {
            return false;
        }
        self.has_history = true;
        let entries = self.random.one_of(&[0, 1, 2, 5, 20, 1000]);
        let mut text = format!("history {entries}");
        for action in ACTIONS {
            if self.random.percent(10) {
                text += " ";
                text += action;
            }
        }
        self.said(&text)
    }

    pub(super) fn query(&mut self) -> bool {
        match self.random.below(4) {
            0 => self.said("cache_info"),
            1 => self.said("fraction"),
            _ if self.live.is_empty() => false,
            _ => {
                let block = &self.live[self.random.index(self.live.len())];
                let (id, op) = (block.id, block.op);
                self.say(format!("base {id}"), &[op]);
                true
            }
        }
    }

    pub(super) fn reset(&mut self) -> bool {
        let peak = self.random.percent(60);
        self.said(if peak { "reset_peak" } else { "reset_accumulated" })
    }

    pub(super) fn enable(&mut self) -> bool {
        let on = self.random.percent(60);
        self.said(if on { "enable 1" } else { "enable 0" })
    }

    /// A command that names what is not there, or that the allocator refuses.
    pub(super) fn wrong(&mut self) -> bool {
        let number = 900 + self.random.below(3);
        if self.any_capture() {
            // Some let deferred blocks through before they are refused.
            return false;
        }
        let text = match self.random.below(17) {
            0 => format!("f {number}00"),
            1 => format!("r {number}00 0"),
            2 => format!("base {number}00"),
            3 => "m 1.5".to_owned(),
            4 => "m -0.25".to_owned(),
            5 => format!("pool_end {number}"),
            6 => format!("pool_live {number}"),
            7 => format!("unuse {number}"),
            8 => "capture_end 31".to_owned(),
            9 => format!("restore nothing {number}00"),
            10 => format!("checkpoint never {number}"),
            11 => format!("pool_empty {number}"),
            12 => format!("snapshot {number}"),
            13 => format!("pool_live {number} {number}00"),
            14 => format!("pool_count {number}"),
            15 => format!("pool_release {number}"),
            _ => format!("mempool_del {number}"),
        };
        self.said(&text)
    }
}
