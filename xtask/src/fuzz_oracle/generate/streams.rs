//! Devices, streams that are current, kernels and waits.

use super::super::trace::Stream;
use super::program::Program;

impl Program {
    pub(super) fn set_device(&mut self) -> bool {
        let device = self.random.index(self.devices.len());
        if self.devices.len() == 1 || device == self.here() {
            return false;
        }
        self.threads[self.thread as usize].device = device;
        self.said(&format!("d {device}"))
    }

    pub(super) fn make_current(&mut self) -> bool {
        let number = self.any_stream();
        let other = self.random.percent(20).then(|| self.random.index(self.devices.len()));
        let device = other.unwrap_or(self.here());
        let stream = Stream { device: other.map(|device| device as u32), number };
        let op = self.say(format!("c {stream}"), &[]);
        self.is_current(device, number, op);
        true
    }

    pub(super) fn kernel(&mut self) -> bool {
        let device = self.here();
        let state = &self.devices[device];
        let members: Vec<u32> =
            state.captures.iter().flat_map(|c| c.members.iter().map(|(stream, _)| *stream)).collect();
        let stream = if !members.is_empty() && self.random.percent(80) {
            members[self.random.index(members.len())]
        } else {
            self.any_stream()
        };
        let mut needs = Vec::new();
        if let Some(place) = self.devices[device].capture_of(stream) {
            let capture = &mut self.devices[device].captures[place];
            needs.extend(capture.members.iter().find(|(member, _)| *member == stream).map(|(_, op)| *op));
            if capture.members[0].0 != stream && !capture.unjoined.contains(&stream) {
                capture.unjoined.push(stream);
            }
        }
        self.say(format!("k {stream}"), &needs);
        true
    }

    /// A wait outside every capture: it does nothing, but the event is work on the second stream.
    pub(super) fn wait(&mut self) -> bool {
        let (a, b) = (self.any_stream(), self.any_stream());
        if self.captures(a) || self.captures(b) {
            return false;
        }
        self.said(&format!("w {a} {b}"))
    }
}
