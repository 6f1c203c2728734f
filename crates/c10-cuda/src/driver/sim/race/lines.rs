//! [`Lines`]: the clocks of the streams and of the host.

use std::collections::BTreeMap;

use c10_core::DeviceIndex;

use super::super::slab::Id;
use super::clock::{Epoch, HOST, Line, VectorClock};

/// The clock of one stream.
#[derive(Debug)]
struct Stream {
    device: DeviceIndex,
    clock: VectorClock,
    /// How much of the host's news it has.
    heard: u64,
}

/// All clocks. A line is given to a stream when it is first used, and anew once its stream is gone and the host
/// knows all of it to be over: its count goes on, so that what is remembered of the old stream stays over.
#[derive(Debug)]
pub(super) struct Lines {
    /// By line; the host's place is empty.
    streams: Vec<Option<Stream>>,
    by_id: BTreeMap<Id, Line>,
    /// Lines of streams that are gone.
    left: Vec<Line>,
    host: VectorClock,
    /// How often the host has learnt something.
    news: u64,
    /// By handle.
    events: BTreeMap<u64, VectorClock>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            streams: vec![None],
            by_id: BTreeMap::new(),
            left: Vec::new(),
            host: VectorClock::default(),
            news: 0,
            events: BTreeMap::new(),
        }
    }

    /// What the host knows to be over.
    pub(super) const fn host(&self) -> &VectorClock {
        &self.host
    }

    /// The next moment of the host.
    pub(super) fn advance_host(&mut self) -> Epoch {
        self.news += 1;
        self.host.advance(HOST)
    }

    /// The next moment of a stream, behind all that the host knows.
    pub(super) fn advance(&mut self, stream: Id, device: DeviceIndex) -> Epoch {
        let line = self.line(stream, device);
        self.hear(line).advance(line)
    }

    /// What is over before the stream's latest moment, itself included.
    pub(super) fn clock(&self, line: Line) -> &VectorClock {
        self.streams[line].as_ref().map_or(&self.host, |stream| &stream.clock)
    }

    /// An event stands for what the stream holds.
    pub(super) fn record(&mut self, event: u64, stream: Id, device: DeviceIndex) {
        let line = self.line(stream, device);
        let clock = self.hear(line).clone();
        self.events.insert(event, clock);
    }

    /// A stream waits for an event.
    pub(super) fn wait(&mut self, event: u64, stream: Id, device: DeviceIndex) {
        let line = self.line(stream, device);
        self.hear(line);
        if let (Some(event), Some(stream)) = (self.events.get(&event), &mut self.streams[line]) {
            stream.clock.join(event);
        }
    }

    /// What a stream does next is behind all that a clock covers.
    pub(super) fn join(&mut self, stream: Id, device: DeviceIndex, clock: &VectorClock) {
        let line = self.line(stream, device);
        self.hear(line).join(clock);
    }

    /// An event is gone; who waits for it has its clock.
    pub(super) fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// The host knows an event's work to be over.
    pub(super) fn host_saw_event(&mut self, event: u64) {
        if let Some(clock) = self.events.get(&event) {
            self.news += u64::from(self.host.join(clock));
        }
    }

    /// The host knows a stream's work to be over.
    pub(super) fn host_saw_stream(&mut self, stream: Id) {
        let line = self.by_id.get(&stream);
        if let Some(stream) = line.and_then(|line| self.streams[*line].as_ref()) {
            self.news += u64::from(self.host.join(&stream.clock));
        }
    }

    /// The host knows all work of a device to be over.
    pub(super) fn host_saw_device(&mut self, device: DeviceIndex) {
        self.host = self.after_device(device);
        self.news += 1;
    }

    /// What is over once all work of a device is.
    pub(super) fn after_device(&self, device: DeviceIndex) -> VectorClock {
        let mut clock = self.host.clone();
        for stream in self.streams.iter().flatten().filter(|stream| stream.device == device) {
            clock.join(&stream.clock);
        }
        clock
    }

    /// A stream is gone, and its work is done.
    pub(super) fn stream_ended(&mut self, stream: Id) {
        self.left.extend(self.by_id.remove(&stream));
    }

    fn line(&mut self, id: Id, device: DeviceIndex) -> Line {
        if let Some(line) = self.by_id.get(&id) {
            return *line;
        }
        let over = |line: &Line| self.host.tick_of(*line) >= self.clock(*line).tick_of(*line);
        let line = match self.left.iter().position(over) {
            Some(at) => self.left.swap_remove(at),
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        self.streams[line] = Some(Stream { device, clock: self.host.clone(), heard: self.news });
        self.by_id.insert(id, line);
        line
    }

    /// Tells a stream what the host knows; its clock.
    fn hear(&mut self, line: Line) -> &mut VectorClock {
        let stream = self.streams[line].as_mut().expect("a line that is asked for is a stream's");
        if stream.heard != self.news {
            stream.clock.join(&self.host);
            stream.heard = self.news;
        }
        &mut stream.clock
    }
}
