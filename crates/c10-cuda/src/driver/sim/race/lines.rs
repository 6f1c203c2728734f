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
    /// Lines of the nodes of launchable graphs, beside those of the streams that launch them.
    by_graph: BTreeMap<Id, Vec<Line>>,
    /// Lines of streams and graphs that are gone.
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
            by_graph: BTreeMap::new(),
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

    /// A stream's line, and its clock now.
    pub(super) fn now(&mut self, stream: Id, device: DeviceIndex) -> (Line, VectorClock) {
        let line = self.line(stream, device);
        (line, self.hear(line).clone())
    }

    /// The next moment of a line, behind what `clock` covers and nothing else but the line's own past.
    pub(super) fn advance_line(&mut self, line: Line, mut clock: VectorClock) -> (Epoch, VectorClock) {
        let Some(stream) = &mut self.streams[line] else { return (clock.advance(line), clock) };
        clock.reach(line, stream.clock.tick_of(line));
        let epoch = clock.advance(line);
        stream.clock = clock.clone();
        (epoch, clock)
    }

    /// An event stands for what a clock covers.
    pub(super) fn record_clock(&mut self, event: u64, clock: VectorClock) {
        self.events.insert(event, clock);
    }

    /// The device of a line.
    pub(super) fn device_of(&self, line: Line) -> Option<DeviceIndex> {
        self.streams.get(line)?.as_ref().map(|stream| stream.device)
    }

    /// The first line of a graph on a device that `serves`, or a new one.
    pub(super) fn line_of_graph(
        &mut self,
        graph: Id,
        device: DeviceIndex,
        serves: impl Fn(Line) -> bool,
    ) -> Line {
        let known = self.by_graph.get(&graph).into_iter().flatten().copied();
        let mut known = known.filter(|line| self.device_of(*line) == Some(device));
        if let Some(line) = known.find(|line| serves(*line)) {
            return line;
        }
        let line = self.new_line(device);
        self.by_graph.entry(graph).or_default().push(line);
        line
    }

    /// A launchable graph is gone.
    pub(super) fn graph_ended(&mut self, graph: Id) {
        self.left.extend(self.by_graph.remove(&graph).into_iter().flatten());
    }

    /// A stream waits for all that another holds.
    pub(super) fn follow(&mut self, stream: Id, other: Id, device: DeviceIndex) {
        let (_, clock) = self.now(other, device);
        self.join(stream, device, &clock);
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
        let line = self.new_line(device);
        self.by_id.insert(id, line);
        line
    }

    fn new_line(&mut self, device: DeviceIndex) -> Line {
        let over = |line: &Line| self.host.tick_of(*line) >= self.clock(*line).tick_of(*line);
        let line = match self.left.iter().position(over) {
            Some(at) => self.left.swap_remove(at),
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        self.streams[line] = Some(Stream { device, clock: self.host.clone(), heard: self.news });
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
