//! [`GraphClocks`]: how the nodes of a launch are ordered, among each other and with everything else.
//!
//! A launch begins behind what its stream holds, and behind the last launch of the same graph. A node is behind the
//! nodes that it depends on and no others. Nodes that follow each other share a line; those beside them have lines of
//! their own, which the launchable graph keeps for its next launch.

use std::collections::BTreeMap;

use c10_core::DeviceIndex;

use super::super::slab::Id;
use super::clock::{Epoch, Line, VectorClock};
use super::detector::Detector;
use super::lines::Lines;

/// The clocks of one launch.
#[derive(Debug)]
pub(in crate::driver::sim) struct GraphClocks {
    exec: Id,
    begin: VectorClock,
    /// The stream's line, and its device.
    own: (Line, DeviceIndex),
    /// The line and the clock of each node so far.
    nodes: Vec<(Line, VectorClock)>,
    /// The last node of each line that has one.
    last: BTreeMap<Line, usize>,
}

/// What stands for the end of the last launch among the events, whose numbers are even.
fn key(exec: Id) -> u64 {
    exec.raw() | 1
}

impl Detector {
    /// A launch of a graph begins on a stream.
    pub(in crate::driver::sim) fn graph_begins(
        &mut self,
        exec: Id,
        stream: Id,
        device: DeviceIndex,
    ) -> GraphClocks {
        self.lines.wait(key(exec), stream, device);
        let (line, begin) = self.lines.now(stream, device);
        GraphClocks { exec, begin, own: (line, device), nodes: Vec::new(), last: BTreeMap::new() }
    }

    /// The moment of its next node, which runs behind those of `before`.
    pub(super) fn graph_node(
        &mut self,
        clocks: &mut GraphClocks,
        before: &[usize],
        device: DeviceIndex,
    ) -> Epoch {
        let mut clock = clocks.begin.clone();
        for (_, earlier) in before.iter().filter_map(|at| clocks.nodes.get(*at)) {
            clock.join(earlier);
        }
        let line = clocks.line_behind(&mut self.lines, before, device);
        let (epoch, clock) = self.lines.advance_line(line, clock);
        clocks.last.insert(line, clocks.nodes.len());
        clocks.nodes.push((line, clock));
        epoch
    }

    /// The node that was just looked at records an event.
    pub(super) fn graph_records(&mut self, clocks: &GraphClocks, event: u64) {
        if let Some((_, clock)) = clocks.nodes.last() {
            self.lines.record_clock(event, clock.clone());
        }
    }

    /// All nodes have been looked at: what the stream holds next is behind them.
    pub(in crate::driver::sim) fn graph_ends(
        &mut self,
        clocks: GraphClocks,
        stream: Id,
        device: DeviceIndex,
    ) {
        for (_, clock) in &clocks.nodes {
            self.lines.join(stream, device, clock);
        }
        self.lines.record(key(clocks.exec), stream, device);
    }

    /// A launchable graph is gone.
    pub(in crate::driver::sim) fn graph_ended(&mut self, exec: Id) {
        self.lines.forget_event(key(exec));
        self.lines.graph_ended(exec);
    }
}

impl GraphClocks {
    /// The line of one of these nodes, if none follows it there; else the stream's, or one of the graph's, that this
    /// launch has not used.
    fn line_behind(&self, lines: &mut Lines, before: &[usize], device: DeviceIndex) -> Line {
        let goes_on = before.iter().find_map(|at| {
            let line = self.nodes.get(*at)?.0;
            (self.last.get(&line) == Some(at) && lines.device_of(line) == Some(device)).then_some(line)
        });
        let own = Some(self.own.0).filter(|line| self.own.1 == device && !self.last.contains_key(line));
        goes_on
            .or(own)
            .unwrap_or_else(|| lines.line_of_graph(self.exec, device, |line| !self.last.contains_key(&line)))
    }
}
