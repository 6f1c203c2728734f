//! [`StreamPool`]: a device's streams, made when the first is asked for and handed out in turn.

use c10_core::DeviceIndex;

use super::id::{MAX_PRIORITY_CLASSES, STREAMS_PER_POOL, StreamKind};
use crate::driver::{Driver, DriverError, StreamHandle};
use crate::drop_errors::DropErrors;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, OnceLock, lock};

/// The streams of one device, by priority class and index.
#[derive(Debug, Default)]
pub(crate) struct StreamPool {
    /// Never changed once they are made.
    streams: OnceLock<Vec<Vec<StreamHandle>>>,
    /// Held while they are made.
    making: Mutex<()>,
    next: [AtomicUsize; MAX_PRIORITY_CLASSES],
}

impl StreamPool {
    /// The next stream of a class; the highest class there is, where there are fewer.
    pub(crate) fn next(
        &self,
        driver: &dyn Driver,
        device: DeviceIndex,
        class: usize,
        errors: &DropErrors,
    ) -> Result<StreamKind, DriverError> {
        let classes = match self.streams.get() {
            Some(streams) => streams.len(),
            None => self.make(driver, device, errors)?,
        };
        let class = class.min(classes - 1);
        let index = self.next[class].fetch_add(1, Ordering::Relaxed) % STREAMS_PER_POOL;
        Ok(StreamKind::Pool { class, index })
    }

    /// The driver's stream at a place of the pool, if it has been made.
    #[inline]
    pub(crate) fn handle(&self, class: usize, index: usize) -> Option<StreamHandle> {
        self.streams.get()?.get(class)?.get(index).copied()
    }

    /// Makes all streams, once, and says how many classes there are. When the driver refuses one, those made
    /// are ended again.
    fn make(
        &self,
        driver: &dyn Driver,
        device: DeviceIndex,
        errors: &DropErrors,
    ) -> Result<usize, DriverError> {
        let _making = lock(&self.making);
        if let Some(streams) = self.streams.get() {
            return Ok(streams.len());
        }
        let (least, greatest) = driver.stream_priority_range(device)?;
        let classes = usize::try_from(i64::from(least) - i64::from(greatest) + 1).unwrap_or(1);
        let classes = classes.clamp(1, MAX_PRIORITY_CLASSES);
        let mut made: Vec<Vec<StreamHandle>> = vec![Vec::new(); classes];
        for _ in 0..STREAMS_PER_POOL {
            for class in 0..classes {
                match driver.stream_create(device, -(class as i32)) {
                    Ok(stream) => made[class].push(stream),
                    Err(error) => {
                        destroy(driver, &made, errors);
                        return Err(error);
                    }
                }
            }
        }
        Ok(self.streams.get_or_init(|| made).len())
    }

    /// All streams that were made.
    pub(crate) fn handles(&self) -> Vec<StreamHandle> {
        self.streams.get().map_or(Vec::new(), |streams| streams.concat())
    }

    /// Ends all streams.
    pub(crate) fn clear(&mut self, driver: &dyn Driver, errors: &DropErrors) {
        destroy(driver, &self.streams.take().unwrap_or_default(), errors);
    }
}

fn destroy(driver: &dyn Driver, streams: &[Vec<StreamHandle>], errors: &DropErrors) {
    for stream in streams.iter().flatten() {
        errors.note(driver.stream_destroy(*stream));
    }
}
