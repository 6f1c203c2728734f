//! [`Recorder`]: writes a [`Recording`] while an allocator is at work.

use super::recording::{Recording, RequestId};
use crate::alloc::address_map::AddressMap;
use crate::alloc::trace::TraceAction;
use crate::config::RoundupPower2Divisions;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Recorder {
    /// What has been recorded, or why it could not go on.
    recording: Result<Recording>,
    /// The requests that are live, by address.
    live: AddressMap<RequestId>,
}

impl Recorder {
    pub(crate) fn new(rounding: RoundupPower2Divisions) -> Self {
        Self { recording: Ok(Recording::with_rounding(rounding)), live: AddressMap::default() }
    }

    /// Notes what the allocator does.
    pub(crate) fn note(&mut self, action: TraceAction, address: u64, bytes: u64, stream: u64) {
        let Ok(recording) = &mut self.recording else { return };
        let noted = match action {
            TraceAction::Alloc => recording.allocate(bytes, stream).map(|request| {
                self.live.insert(address, request);
            }),
            TraceAction::FreeCompleted => match self.live.remove(&address) {
                Some(request) => recording.free(request),
                None => recording.free_earlier(bytes, stream),
            },
            _ => Ok(()),
        };
        if let Err(error) = noted {
            self.recording = Err(error);
        }
    }

    /// The recording, if all of it could be kept.
    pub(crate) fn end(self) -> Result<Recording> {
        self.recording
    }
}
