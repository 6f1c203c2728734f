//! Captures: begun on a stream, forked to others, joined, ended.

use super::program::Program;
use super::state::{Capture, Filter, Mode, Scope};

impl Program {
    pub(super) fn capture_command(&mut self) -> bool {
        let own: Vec<usize> = {
            let captures = self.devices[self.here()].captures.iter().enumerate();
            captures.filter(|(_, capture)| capture.thread == self.thread).map(|(place, _)| place).collect()
        };
        if own.is_empty() {
            return if self.random.percent(15) { self.end_of_graph() } else { self.capture_begin() };
        }
        let place = own[self.random.index(own.len())];
        match self.random.below(20) {
            0 => self.capture_begin(),
            1..9 => self.fork(place),
            9..15 => self.join(place),
            15..17 => self.go_on_inside(place),
            _ => self.capture_end(place),
        }
    }

    fn capture_begin(&mut self) -> bool {
        let here = self.here();
        let stream = self.any_stream();
        // Where reuse asks the graph, a second one fails an assertion (a defect of PyTorch's).
        let at_once = if self.switches.reuse { 1 } else { 2 };
        if stream == 0 || self.captures(stream) || self.devices[here].captures.len() >= at_once {
            return false;
        }
        let (pool, needs) = self.closed_pool(80, true);
        let (mode, word) = [
            (Mode::Global, ""),
            (Mode::Global, " global"),
            (Mode::ThreadLocal, " thread_local"),
            (Mode::Relaxed, " relaxed"),
        ][self.random.index(4)];
        let op = self.say(format!("capture_begin {stream} {pool}{word}"), &needs);
        self.add_use(&pool, op);
        self.is_current(here, stream, op);
        let thread = self.thread;
        let device = self.device();
        device.scopes.push(Scope { pool, filter: Filter::Capture(op), op, is_use: false });
        device.captures.push(Capture { op, thread, mode, members: vec![(stream, op)], unjoined: Vec::new() });
        true
    }

    /// The graph of a capture that is over goes.
    fn end_of_graph(&mut self) -> bool {
        let here = self.here();
        let graph = self.any_pool().filter(|pool| pool.name.ends_with(".0"));
        let Some(pool) = graph.filter(|pool| !self.devices[here].is_open(&pool.name)) else { return false };
        if self.switches.expandable && self.random.percent(90) {
            return false;
        }
        self.release(&pool)
    }

    /// A stream outside waits for one inside, or one inside for another.
    fn fork(&mut self, place: usize) -> bool {
        let stream = self.any_stream();
        let capture = &self.devices[self.here()].captures[place];
        let (from, brought) = capture.members[self.random.index(capture.members.len())];
        let elsewhere = self.devices[self.here()].capture_of(stream).is_some_and(|other| other != place);
        if stream == 0 || stream == from || elsewhere {
            return false;
        }
        let op = self.say(format!("w {stream} {from}"), &[brought]);
        let capture = &mut self.device().captures[place];
        if !capture.members.iter().any(|(member, _)| *member == stream) {
            capture.members.push((stream, op));
        }
        true
    }

    /// The first stream waits for another.
    fn join(&mut self, place: usize) -> bool {
        let capture = &mut self.device().captures[place];
        let Some(stream) = capture.unjoined.pop() else { return false };
        let origin = capture.members[0].0;
        let brought = capture.members.iter().find(|(member, _)| *member == stream).map(|(_, op)| *op);
        self.say(format!("w {origin} {stream}"), &brought.into_iter().collect::<Vec<_>>());
        true
    }

    fn go_on_inside(&mut self, place: usize) -> bool {
        let here = self.here();
        let members = &self.devices[here].captures[place].members;
        let (stream, op) = members[self.random.index(members.len())];
        let op = self.say(format!("c {stream}"), &[op]);
        self.is_current(here, stream, op);
        true
    }

    fn capture_end(&mut self, place: usize) -> bool {
        let whole = self.random.percent(93);
        while whole && self.join(place) {}
        let capture = self.device().captures.remove(place);
        self.device().scopes.retain(|scope| scope.filter != Filter::Capture(capture.op));
        self.say(format!("capture_end {}", capture.members[0].0), &[capture.op]);
        // The use of the graph stays until it is released.
        true
    }
}
