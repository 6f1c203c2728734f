//! Streams that end before the memory that they used: the unifying stream waits for what they hold, and takes their
//! place.

use super::state::{AsyncPool, Locked};
use crate::driver::{DriverError, StreamHandle};
use crate::stream::StreamUser;

impl StreamUser for AsyncPool {
    fn before_end(&self, stream: StreamHandle) -> Result<(), DriverError> {
        self.lock().before_end(stream)
    }
}

impl Locked<'_> {
    fn before_end(&mut self, stream: StreamHandle) -> Result<(), DriverError> {
        let uses = |usage: &super::state::Usage| usage.stream == stream || usage.uses.contains(&stream);
        let used: Vec<u64> = self.live.iter().filter(|(_, usage)| uses(usage)).map(|(at, _)| *at).collect();
        if used.is_empty() || (self.is_beside_capture() && self.captures(stream)?) {
            return Ok(());
        }
        for at in used {
            // The block goes back on its device's unifying stream, whichever device the other is of.
            let unifying = self.ready(self.live[&at].stream.device)?.unifying;
            self.wait(unifying, stream)?;
            let Some(usage) = self.live.get_mut(&at) else { continue };
            if usage.stream == stream {
                usage.stream = unifying;
            }
            usage.uses.retain(|used| *used != stream && *used != unifying);
            if usage.stream != unifying {
                let place = usage.uses.partition_point(|used| *used < unifying);
                usage.uses.insert(place, unifying);
            }
        }
        Ok(())
    }
}
