//! Requests, frees, and the streams that use a block.

use super::super::trace::{Command, Stream};
use super::program::Program;
use super::state::{Block, Mode};

const FRACTIONS: &[f64] = &[0.0, 0.0001, 0.1, 0.25, 0.333, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

impl Program {
    pub(super) fn allocate(&mut self) {
        let stream = self.stream_to_allocate_on();
        let (id, bytes) = (self.new_id(), self.palette.size(&mut self.random));
        let named = Stream { device: None, number: stream };
        let op = self.push(Command::Allocate { id, bytes, stream: named }, &[]);
        self.is_current(self.here(), stream, op);
        self.add_block(id, bytes, stream, op);
    }

    pub(super) fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Notes a block of the acting thread's on the current device.
    pub(super) fn add_block(&mut self, id: u32, bytes: u64, stream: u32, op: u32) {
        let device = self.here();
        let pool = self.devices[device].pool_for(self.thread, stream).map(str::to_owned);
        self.live.push(Block { id, bytes, device, stream, pool, op, users: Vec::new() });
        // What cannot have been served does not count.
        if bytes <= self.device_memory {
            self.live_bytes += bytes;
        }
        // The first outside lets through what waited for a capture that is over.
        let state = &mut self.devices[device];
        if state.capture_of(stream).is_none() && state.captures.is_empty() {
            state.has_deferred = false;
        }
    }

    /// A stream on which a request may be made now. Half of all are the default stream's where nothing captures.
    fn stream_to_allocate_on(&mut self) -> u32 {
        let members: Vec<u32> = {
            let device = &self.devices[self.here()];
            device.captures.iter().flat_map(|c| c.members.iter().map(|(stream, _)| *stream)).collect()
        };
        // Outside a capture PyTorch lets blocks through that the capture still uses.
        let inside_only = !self.may_act_outside();
        if !members.is_empty() && (inside_only || self.random.percent(75)) {
            return members[self.random.index(members.len())];
        }
        if self.random.percent(50) { 0 } else { self.any_stream() }
    }

    /// Whether the acting thread may ask the driver for memory outside every capture. Outside, PyTorch lets
    /// blocks through that a capture still uses, and makes calls that its mode forbids.
    fn may_act_outside(&self) -> bool {
        let mut captures = self.devices.iter().flat_map(|device| &device.captures);
        let forbids = captures.any(|capture| match capture.mode {
            Mode::Global => true,
            Mode::ThreadLocal => capture.thread == self.thread,
            Mode::Relaxed => false,
        });
        let deferred = self.devices.iter().any(|d| d.has_deferred && !d.captures.is_empty());
        !forbids && !deferred
    }

    pub(super) fn free(&mut self) {
        let newest = self.random.percent(self.free_newest_percent);
        let place = if newest { self.live.len() - 1 } else { self.random.index(self.live.len()) };
        let block = &self.live[place];
        let inside = self.captures(self.current());
        let device = &self.devices[block.device];
        // An event of a stream that captures cannot be queried later.
        let spoils = !inside && block.users.iter().any(|user| device.capture_of(*user).is_some());
        // Work of one device cannot be deferred by a capture on another.
        let is_elsewhere = block.device != self.here() && self.any_capture() && !block.users.is_empty();
        if spoils || is_elsewhere {
            self.say("p", &[]);
            return;
        }
        let block = self.forget(place);
        if inside && !block.users.is_empty() {
            self.devices[block.device].has_deferred = true;
        }
        self.say(format!("f {}", block.id), &[block.op]);
    }

    /// Takes a block off the list of live ones.
    pub(super) fn forget(&mut self, place: usize) -> Block {
        let block = self.live.swap_remove(place);
        if block.bytes <= self.device_memory {
            self.live_bytes = self.live_bytes.saturating_sub(block.bytes);
        }
        block
    }

    pub(super) fn record_stream(&mut self) -> bool {
        if self.live.is_empty() {
            return false;
        }
        let place = self.random.index(self.live.len());
        for _ in 0..self.random.one_of(&[1, 1, 2, 3]) {
            let (id, op, device) = (self.live[place].id, self.live[place].op, self.live[place].device);
            let other = self.random.index(self.devices.len());
            let other = if self.random.percent(80) { device } else { other };
            let number = self.any_stream();
            if other != device && (number == 0 || self.any_capture()) {
                continue;
            }
            let stream = Stream { device: (other != self.here()).then_some(other as u32), number };
            self.say(format!("r {id} {stream}"), &[op]);
            if number != self.live[place].stream || other != device {
                self.live[place].users.push(number);
            }
        }
        true
    }

    pub(super) fn complete(&mut self) -> bool {
        if self.random.percent(15) {
            return self.said("S");
        }
        let stream = self.any_stream();
        self.said(&format!("s {stream}"))
    }

    pub(super) fn empty_cache(&mut self) -> bool {
        let inside = self.captures(self.current());
        // A driver's free inside a capture spoils it, and a wait outside.
        let spoils = if inside { self.device().has_freeable } else { !self.may_act_outside() };
        if spoils {
            return false;
        }
        self.said("e")
    }

    pub(super) fn draw_fraction(&mut self) -> bool {
        let fraction = FRACTIONS[self.random.index(FRACTIONS.len())];
        if self.collects_garbage && self.any_capture() {
            return false;
        }
        self.set_fraction(fraction);
        true
    }

    pub(super) fn set_fraction(&mut self, fraction: f64) {
        self.say(format!("m {fraction}"), &[]);
    }
}
