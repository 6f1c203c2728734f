//! [`Slab`]: values by index and generation, so that a handle of a dead value is known as such.

/// Where a value stands, and which of the values that stood there it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    index: u32,
    generation: u32,
}

impl Id {
    /// The handle's number; never 0, and even, as the pointers are that a real driver's handles are.
    pub(super) fn raw(self) -> u64 {
        (u64::from(self.generation) << 32) | ((u64::from(self.index) + 1) << 1)
    }

    /// What a handle's number stands for, if any number could.
    #[inline]
    pub(super) fn from_raw(raw: u64) -> Option<Self> {
        if raw & 1 == 1 {
            return None;
        }
        let index = u32::try_from(((raw & 0xffff_ffff) >> 1).checked_sub(1)?).ok()?;
        let generation = u32::try_from(raw >> 32).ok()?;
        Some(Self { index, generation })
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by [`Id`]. Of two free slots the one that was left last is taken first.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Puts a value in; `None` when there are no numbers left.
    pub(super) fn insert(&mut self, value: T) -> Option<Id> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Some(Id { index, generation: slot.generation });
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|&i| i < u32::MAX)?;
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Some(Id { index, generation: 0 })
    }

    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.value.as_mut() } else { None }
    }

    /// The live values, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Takes a value out. Its slot is used again under the next generation, and never once those run out.
    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let value = slot.value.take()?;
        if slot.generation < u32::MAX {
            slot.generation += 1;
            self.free.push(id.index);
        }
        Some(value)
    }

    /// The live values, in the order of their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, index)| {
            let id = Id { index, generation: slot.generation };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}
