//! [`Recording`]: what a program asked for, and when it gave it back.

use std::collections::HashMap;

use super::fingerprint::Fingerprint;
use crate::alloc::size::{REQUEST_CAP, round_size};
use crate::alloc::{TraceAction, TraceEntry};
use crate::config::RoundupPower2Divisions;
use crate::error::{Error, ErrorKind, Result};

/// Times are numbers of events, and there is room for twice as many.
const MOST_EVENTS: usize = 1 << 30;

/// A request of a [`Recording`], by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u32);

/// One request: the size of its block, and its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recorded {
    pub(super) size: u64,
    pub(super) stream: u64,
}

/// One event; its place in the list is its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Allocate(u32),
    Free(u32),
    /// Of a block from before the recording.
    FreeEarlier(Recorded),
}

/// A stretch of a program's requests, from which a [`Plan`](super::Plan) can be made.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(super) requests: Vec<Recorded>,
    pub(super) events: Vec<Event>,
    /// Which requests are held.
    held: Vec<bool>,
    rounding: RoundupPower2Divisions,
}

impl Recording {
    /// An empty one, of blocks in multiples of 512 bytes.
    pub fn new() -> Self {
        Self::with_rounding(RoundupPower2Divisions::OFF)
    }

    /// An empty one for an allocator with that setting.
    pub fn with_rounding(rounding: RoundupPower2Divisions) -> Self {
        Self { requests: Vec::new(), events: Vec::new(), held: Vec::new(), rounding }
    }

    /// What the trace of one device says, from the oldest entry that is kept
    /// ([`record_history`](crate::CachingAllocator::record_history)): between two marks it is one iteration.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when an address is allocated twice, or a request has an impossible size.
    pub fn from_trace(entries: &[TraceEntry], rounding: RoundupPower2Divisions) -> Result<Self> {
        let mut recording = Self::with_rounding(rounding);
        let mut live = HashMap::new();
        for entry in entries {
            match entry.action {
                TraceAction::Alloc => {
                    let request = recording.allocate(entry.size, entry.stream.raw)?;
                    if live.insert(entry.address, request).is_some() {
                        return Err(refused(format!("the address {:#x} is handed out twice", entry.address)));
                    }
                }
                TraceAction::FreeCompleted => match live.remove(&entry.address) {
                    Some(request) => recording.free(request)?,
                    None => recording.free_earlier(entry.size, entry.stream.raw)?,
                },
                _ => {}
            }
        }
        Ok(recording)
    }

    /// Notes a request of `bytes` bytes on a stream (the driver's value).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for 0 bytes, or 2^60 and more; when a recording is full.
    pub fn allocate(&mut self, bytes: u64, stream: u64) -> Result<RequestId> {
        let recorded = self.recorded(bytes, stream)?;
        let request = self.requests.len() as u32;
        self.push(Event::Allocate(request))?;
        self.requests.push(recorded);
        self.held.push(true);
        Ok(RequestId(request))
    }

    /// Notes that the block of a request may be used anew: it was given back, and no stream uses it any more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the request is none of this recording, or was given back; when a
    /// recording is full.
    pub fn free(&mut self, request: RequestId) -> Result<()> {
        let index = request.0 as usize;
        if !self.held.get(index).is_some_and(|held| *held) {
            return Err(refused(format!("request {index} is not held: there are {}", self.held.len())));
        }
        self.push(Event::Free(request.0))?;
        self.held[index] = false;
        Ok(())
    }

    /// Notes that a block of `bytes` bytes from before the recording may be used anew. In a recording of one
    /// iteration that is what an earlier iteration left for this one.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn free_earlier(&mut self, bytes: u64, stream: u64) -> Result<()> {
        let recorded = self.recorded(bytes, stream)?;
        self.push(Event::FreeEarlier(recorded))
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Tells recordings apart: the sizes, the streams in order of appearance, and the order of everything.
    pub fn fingerprint(&self) -> u64 {
        let mut streams = Vec::new();
        let mut print = Fingerprint::default();
        for event in &self.events {
            let (kind, number) = match event {
                Event::Allocate(request) => (0, u64::from(*request)),
                Event::Free(request) => (1, u64::from(*request)),
                Event::FreeEarlier(earlier) => (2, earlier.size),
            };
            print.add(&[kind]);
            print.add(&number.to_le_bytes());
            if let Event::Allocate(request) = event {
                let Recorded { size, stream } = self.requests[*request as usize];
                print.add(&size.to_le_bytes());
                print.add(&lane_of(&mut streams, stream).to_le_bytes());
            }
        }
        print.value()
    }

    fn recorded(&self, bytes: u64, stream: u64) -> Result<Recorded> {
        if bytes == 0 || bytes >= REQUEST_CAP {
            return Err(refused(format!(
                "a request of {bytes} bytes: there are none of 0, or of 2^60 and more"
            )));
        }
        Ok(Recorded { size: round_size(bytes, &self.rounding), stream })
    }

    fn push(&mut self, event: Event) -> Result<()> {
        if self.events.len() >= MOST_EVENTS {
            return Err(refused("a recording holds 2^30 events".into()));
        }
        self.events.push(event);
        Ok(())
    }
}

impl Default for Recording {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of a stream among those that have appeared.
pub(super) fn lane_of(streams: &mut Vec<u64>, stream: u64) -> u32 {
    let known = streams.iter().position(|known| *known == stream);
    known.unwrap_or_else(|| {
        streams.push(stream);
        streams.len() - 1
    }) as u32
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("recording: {why}"))
}
