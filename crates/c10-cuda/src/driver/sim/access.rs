//! Whether an item of work may touch a range, and what lies behind it.

use c10_core::DeviceIndex;

use super::memory::Memory;
use super::process::ProcessId;
use super::report::AccessFault;
use super::slab::Id;
use crate::driver::DevicePtr;

/// Where bytes are kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// In the range that begins there.
    Allocation(u64),
    /// In physical memory.
    Physical(Id),
}

/// A part of a range that lies in one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) owner: Owner,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Who touches memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Toucher {
    /// The device whose stream runs the work.
    pub(super) device: DeviceIndex,
    /// The process whose work it is; `None` for the simulator itself.
    pub(super) process: Option<ProcessId>,
    /// The devices whose memory it may reach, by bit, itself included.
    pub(super) reach: u32,
    /// Whether it goes through the host where devices do not reach each other, as copies do.
    pub(super) by_copy: bool,
    /// How many ranges had come to life when the work was issued.
    pub(super) issued_at: u64,
}

impl Memory {
    /// What lies behind `[ptr, ptr + bytes)`, in order.
    pub(super) fn resolve(
        &self,
        ptr: DevicePtr,
        bytes: u64,
        who: &Toucher,
    ) -> Result<Vec<Piece>, AccessFault> {
        let mut pieces = Vec::new();
        let (mut at, end) = (ptr.0, ptr.0.checked_add(bytes).ok_or(AccessFault::NotLive)?);
        while at < end {
            let piece = self.piece_at(at, end, who)?;
            at += piece.bytes;
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn piece_at(&self, at: u64, end: u64, who: &Toucher) -> Result<Piece, AccessFault> {
        if let Some((&base, a)) = self.allocations.range(..=at).next_back()
            && at - base < a.extent
        {
            let life = a.life_at(who.issued_at);
            if !who.is_of(a.process) {
                return Err(AccessFault::NotLive);
            }
            // What the request rounded up to is nobody's, and one request ends where the next begins.
            if end - base > life.bytes || life.is_over(who.issued_at) {
                return Err(AccessFault::NotLive);
            }
            let reach = match a.pooled {
                // Its own device, and those that the pool lets in.
                Some(_) => 1 << a.device | self.pool_access[usize::from(a.device)],
                None => who.reach,
            };
            let reached = if a.pooled.is_some() { who.device } else { a.device };
            who.may_touch(life.birth, who.by_copy || reach & (1 << reached) != 0)?;
            let owner = Owner::Allocation(base);
            return Ok(Piece { owner, offset: at - base, bytes: end - at });
        }
        if let Some(piece) = self.opened_at(at, end, who)? {
            return Ok(piece);
        }
        if let Some((&base, m)) = self.mappings.range(..=at).next_back()
            && at - base < m.bytes
            && who.is_of(m.process)
        {
            let own = self.physical.get(m.physical).map_or(0, |p| 1u32 << p.device);
            let needed = 1 << who.device | if who.by_copy { own } else { 0 };
            if m.access & needed == 0 {
                return Err(AccessFault::NoAccess);
            }
            who.may_touch(m.birth, true)?;
            let bytes = (end - at).min(m.bytes - (at - base));
            return Ok(Piece { owner: Owner::Physical(m.physical), offset: at - base, bytes });
        }
        let reserved =
            self.reservations.range(..=at).next_back().is_some_and(|(&base, r)| at - base < r.bytes);
        Err(if reserved { AccessFault::NotMapped } else { AccessFault::NotLive })
    }

    /// Copies out of resolved pieces, from `offset` on. They hold that much.
    pub(super) fn read(&self, pieces: &[Piece], offset: u64, out: &mut [u8]) {
        let mut done = 0;
        for part in clipped(pieces, offset, out.len() as u64) {
            let out = &mut out[done..done + part.bytes as usize];
            match part.owner {
                Owner::Allocation(base) => {
                    self.allocations.get(&base).map(|a| a.contents.read(part.offset, out))
                }
                Owner::Physical(id) => self.physical.get(id).map(|p| p.contents.read(part.offset, out)),
            };
            done += part.bytes as usize;
        }
    }

    /// Copies into resolved pieces, from `offset` on. They hold that much.
    pub(super) fn write(&mut self, pieces: &[Piece], offset: u64, bytes: &[u8]) {
        let mut done = 0;
        for part in clipped(pieces, offset, bytes.len() as u64) {
            let bytes = &bytes[done..done + part.bytes as usize];
            if let Some(contents) = self.contents_mut(part.owner) {
                contents.write(part.offset, bytes);
            }
            done += bytes.len();
        }
    }

    /// Sets resolved pieces to one value.
    pub(super) fn fill(&mut self, pieces: &[Piece], value: u8) {
        for part in pieces {
            if let Some(contents) = self.contents_mut(part.owner) {
                contents.fill(part.offset, part.bytes, value);
            }
        }
    }

    fn contents_mut(&mut self, owner: Owner) -> Option<&mut super::bytes::Bytes> {
        match owner {
            Owner::Allocation(base) => self.allocations.get_mut(&base).map(|a| &mut a.contents),
            Owner::Physical(id) => self.physical.get_mut(id).map(|p| &mut p.contents),
        }
    }
}

impl Toucher {
    /// Whether it may use what is a process's.
    pub(super) fn is_of(&self, process: ProcessId) -> bool {
        self.process.is_none_or(|own| own == process)
    }

    pub(super) fn may_touch(&self, birth: u64, reaches: bool) -> Result<(), AccessFault> {
        if birth > self.issued_at {
            return Err(AccessFault::Replaced);
        }
        if reaches { Ok(()) } else { Err(AccessFault::NoPeerAccess) }
    }
}

/// `[offset, offset + len)` of the pieces' bytes, piece by piece.
fn clipped(pieces: &[Piece], offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut start = 0;
    pieces.iter().filter_map(move |piece| {
        let (from, to) = (offset.max(start), (offset + len).min(start + piece.bytes));
        let skipped = from.wrapping_sub(start);
        start += piece.bytes;
        (from < to).then(|| Piece { owner: piece.owner, offset: piece.offset + skipped, bytes: to - from })
    })
}
