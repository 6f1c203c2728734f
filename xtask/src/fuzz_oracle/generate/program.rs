//! [`Program`]: a trace in the making, what it has so far, and the habits that its seed gave it.

use super::super::conf::{Conf, Switches};
use super::super::family::{Action, Habits};
use super::super::random::Random;
use super::super::sizes::Palette;
use super::super::trace::{Command, Op};
use super::state::{Block, Device, Thread};

#[derive(Debug)]
pub(super) struct Program {
    pub(super) random: Random,
    ops: Vec<Op>,
    pub(super) palette: Palette,
    pub(super) switches: Switches,
    pub(super) collects_garbage: bool,
    habits: Habits,
    pub(super) live: Vec<Block>,
    pub(super) live_bytes: u64,
    /// Counts ids, pools, graphs and checkpoints.
    pub(super) next_id: u32,
    pub(super) next_pool: u32,
    pub(super) device_memory: u64,
    pub(super) has_history: bool,
    /// The live bytes that it hovers about.
    pub(super) fill: u64,
    pub(super) free_newest_percent: u64,
    /// The thread that acts.
    pub(super) thread: u32,
    pub(super) threads: Vec<Thread>,
    pub(super) devices: Vec<Device>,
}

impl Program {
    pub(super) fn new(conf: &Conf, device_memory: u64, habits: Habits, mut random: Random) -> Program {
        let devices = habits.devices as usize;
        let palette = Palette::draw(conf, device_memory, &mut random);
        let fill = device_memory / 100 * random.one_of(&[20, 50, 70, 80, 90, 100, 130]);
        let mut program = Program {
            ops: Vec::new(),
            palette,
            switches: conf.switches,
            collects_garbage: conf.garbage_collection_threshold.is_some(),
            live: Vec::new(),
            live_bytes: 0,
            next_id: 1,
            next_pool: 1,
            device_memory,
            has_history: false,
            fill: fill * devices as u64,
            free_newest_percent: random.one_of(&[0, 20, 80]),
            thread: 0,
            threads: vec![Thread::new(devices); habits.threads as usize],
            devices: (0..devices).map(|_| Device::default()).collect(),
            habits,
            random,
        };
        if program.collects_garbage && program.random.percent(90) {
            let fraction = program.random.index(4);
            program.set_fraction([0.5, 0.75, 0.9, 0.99][fraction]);
        }
        program
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn into_ops(self) -> Vec<Op> {
        self.ops
    }

    /// Adds the command of the acting thread, and gives its serial.
    pub(super) fn push(&mut self, command: Command, needs: &[u32]) -> u32 {
        let serial = self.ops.len() as u32;
        let mut needs = needs.to_vec();
        if self.any_capture() {
            // Whether it is in the capture depends on the current stream.
            let thread = &self.threads[self.thread as usize];
            needs.extend(thread.current_since[thread.device]);
        }
        self.ops.push(Op { serial, needs: needs.into(), thread: self.thread, command });
        serial
    }

    /// The same for a command that is written as text.
    pub(super) fn say(&mut self, text: impl AsRef<str>, needs: &[u32]) -> u32 {
        self.push(Command::Text(text.as_ref().into()), needs)
    }

    pub(super) fn step(&mut self) {
        let others = self.threads.len() as u64 - 1;
        self.thread =
            if others > 0 && self.random.percent(30) { 1 + self.random.below(others) as u32 } else { 0 };
        let total = 100 + self.habits.weights.iter().map(|(_, weight)| weight).sum::<u64>();
        let mut draw = self.random.below(total);
        let chosen = self.habits.weights.iter().find(|(_, weight)| match draw.checked_sub(*weight) {
            Some(rest) => {
                draw = rest;
                false
            }
            None => true,
        });
        let chosen = chosen.map(|(action, _)| *action);
        let done = chosen.is_some_and(|action| self.act(action));
        if !done {
            if self.frees_next() { self.free() } else { self.allocate() }
        }
    }

    /// Does it, unless there is nothing to do it with.
    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::RecordStream => self.record_stream(),
            Action::Complete => self.complete(),
            Action::EmptyCache => self.empty_cache(),
            Action::Fraction => self.draw_fraction(),
            Action::Statistics => self.said("p"),
            Action::Current => self.make_current(),
            Action::Kernel => self.kernel(),
            Action::Wait => self.wait(),
            Action::Device => self.set_device(),
            Action::Pool => self.pool_command(),
            Action::Mempool => self.mempool_command(),
            Action::Capture => self.capture_command(),
            Action::Checkpoint => self.checkpoint_command(),
            Action::AllocateAt => self.allocate_at(),
            Action::Snapshot => self.snapshot(),
            Action::History => self.history(),
            Action::Query => self.query(),
            Action::Reset => self.reset(),
            Action::Enable => self.enable(),
            Action::Wrong => self.wrong(),
        }
    }

    /// Adds a command that needs nothing.
    pub(super) fn said(&mut self, text: &str) -> bool {
        self.say(text, &[]);
        true
    }

    fn frees_next(&mut self) -> bool {
        // Far below the fill it mostly allocates, far above it mostly frees.
        let allocate_percent = if self.live_bytes < self.fill / 2 {
            75
        } else if self.live_bytes < self.fill {
            55
        } else {
            30
        };
        !self.live.is_empty() && !self.random.percent(allocate_percent)
    }

    /// The acting thread's current device.
    pub(super) fn here(&self) -> usize {
        self.threads[self.thread as usize].device
    }

    /// The current stream there.
    pub(super) fn current(&self) -> u32 {
        let thread = &self.threads[self.thread as usize];
        thread.current[thread.device]
    }

    /// Notes that a stream of a device is current from the command `since` on.
    pub(super) fn is_current(&mut self, device: usize, stream: u32, since: u32) {
        let thread = &mut self.threads[self.thread as usize];
        thread.current[device] = stream;
        thread.current_since[device] = Some(since);
    }

    pub(super) fn device(&mut self) -> &mut Device {
        let here = self.here();
        &mut self.devices[here]
    }

    /// Whether a stream of the current device takes part in a capture.
    pub(super) fn captures(&self, stream: u32) -> bool {
        self.devices[self.here()].capture_of(stream).is_some()
    }

    /// Whether any capture is under way.
    pub(super) fn any_capture(&self) -> bool {
        self.devices.iter().any(|device| !device.captures.is_empty())
    }

    /// One of the streams.
    pub(super) fn any_stream(&mut self) -> u32 {
        self.random.below(self.habits.streams) as u32
    }
}
