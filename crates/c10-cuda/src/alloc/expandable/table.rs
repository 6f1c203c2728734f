//! [`ExpandableTable`]: the expandable segments of a device, by id.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use c10_core::DeviceIndex;

use super::segment::{ExpandableSegment, release};
use crate::alloc::ids::ExpandableId;
use crate::driver::{Driver, PhysHandle};

/// Segments in slots that are used again, and what the driver has yet to take back.
#[derive(Debug, Default)]
pub(crate) struct ExpandableTable {
    slots: Vec<Option<ExpandableSegment>>,
    /// Devices that reach the memory of all segments.
    pub(crate) peers: Vec<DeviceIndex>,
    /// Classes of streams, by the driver's value, that have a reserve of their own.
    reserve_classes: BTreeMap<u64, String>,
    /// Physical memory whose release the driver refused.
    pub(crate) unreleased: Vec<PhysHandle>,
}

impl ExpandableTable {
    pub(crate) fn insert(&mut self, segment: ExpandableSegment) -> ExpandableId {
        let vacant = self.slots.iter().position(Option::is_none);
        let index = vacant.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(segment);
        ExpandableId(u32::try_from(index).expect("each segment takes addresses, and 2^32 do not fit"))
    }

    pub(crate) fn remove(&mut self, id: ExpandableId) {
        self.slots[id.0 as usize] = None;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExpandableId, &ExpandableSegment)> {
        self.slots
            .iter()
            .zip(0..)
            .filter_map(|(slot, index)| slot.as_ref().map(|segment| (ExpandableId(index), segment)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ExpandableSegment> {
        self.slots.iter_mut().flatten()
    }

    /// A segment, and the list for what it cannot release.
    pub(crate) fn with_unreleased(
        &mut self,
        id: ExpandableId,
    ) -> (&mut ExpandableSegment, &mut Vec<PhysHandle>) {
        let segment = self.slots[id.0 as usize].as_mut().expect("an id in use leads to a segment");
        (segment, &mut self.unreleased)
    }

    /// The class of a stream, for how many addresses its segments take.
    pub(crate) fn reserve_class(&self, stream: u64) -> Option<&str> {
        self.reserve_classes.get(&stream).map(String::as_str)
    }

    /// Puts a stream in a class; in none where that is empty.
    pub(crate) fn set_reserve_class(&mut self, stream: u64, class: &str) {
        if class.is_empty() {
            self.reserve_classes.remove(&stream);
        } else {
            self.reserve_classes.insert(stream, class.to_owned());
        }
    }

    /// Offers the driver again what it did not take back. What it refuses again is kept.
    pub(crate) fn settle(&mut self, driver: &dyn Driver) {
        for segment in self.slots.iter_mut().flatten() {
            let _ = segment.settle(driver, &mut self.unreleased);
        }
        for handle in std::mem::take(&mut self.unreleased) {
            release(driver, handle, &mut self.unreleased);
        }
    }
}

impl Index<ExpandableId> for ExpandableTable {
    type Output = ExpandableSegment;

    fn index(&self, id: ExpandableId) -> &ExpandableSegment {
        self.slots[id.0 as usize].as_ref().expect("an id in use leads to a segment")
    }
}

impl IndexMut<ExpandableId> for ExpandableTable {
    fn index_mut(&mut self, id: ExpandableId) -> &mut ExpandableSegment {
        self.slots[id.0 as usize].as_mut().expect("an id in use leads to a segment")
    }
}
