//! [`Bytes`]: the contents of one piece of device memory, kept by page from the first write on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shared_bytes::SharedBytes;

/// What memory holds that nobody has written: not zero, so that a program that counts on zeros is found out.
pub const POISON: u8 = 0xa5;

const PAGE: usize = 16 << 10;

#[derive(Debug)]
enum Page {
    /// All bytes alike: large fills cost little.
    Filled(u8),
    Written(Box<[u8]>),
}

/// Bytes by page. Its owner knows how long it is.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    pages: BTreeMap<u64, Page>,
    /// Where they are kept instead.
    shared: Option<Arc<dyn SharedBytes>>,
}

impl Bytes {
    /// Moves what is there, of `len` bytes, to where it is kept from here on.
    pub(super) fn share(&mut self, len: u64, to: Arc<dyn SharedBytes>) {
        let pages: Vec<u64> = match self.shared {
            None => self.pages.keys().copied().collect(),
            Some(_) => (0..len.div_ceil(PAGE as u64)).collect(),
        };
        let mut part = vec![0; PAGE];
        for at in pages.into_iter().map(|page| page * PAGE as u64).filter(|at| *at < len) {
            let part = &mut part[..(len - at).min(PAGE as u64) as usize];
            self.read(at, part);
            to.write_at(at, part);
        }
        self.pages.clear();
        self.shared = Some(to);
    }

    /// Copies out, from `offset` on.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        if let Some(shared) = &self.shared {
            return shared.read_at(offset, out);
        }
        for (page, start, part) in Parts::new(offset, out.len()) {
            let out = &mut out[part.clone()];
            match self.pages.get(&page) {
                None => out.fill(POISON),
                Some(Page::Filled(value)) => out.fill(*value),
                Some(Page::Written(bytes)) => out.copy_from_slice(&bytes[start..start + part.len()]),
            }
        }
    }

    /// Copies in, from `offset` on.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(shared) = &self.shared {
            return shared.write_at(offset, bytes);
        }
        for (page, start, part) in Parts::new(offset, bytes.len()) {
            self.page(page)[start..start + part.len()].copy_from_slice(&bytes[part]);
        }
    }

    /// Sets `len` bytes from `offset` on to one value.
    pub(super) fn fill(&mut self, offset: u64, len: u64, value: u8) {
        let (mut at, end) = (offset, offset + len);
        if let Some(shared) = &self.shared {
            let bytes = vec![value; PAGE.min(usize::try_from(len).unwrap_or(PAGE))];
            while at < end {
                let part = (end - at).min(bytes.len() as u64) as usize;
                shared.write_at(at, &bytes[..part]);
                at += part as u64;
            }
            return;
        }
        while at < end {
            let (page, start) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let part = (end - at).min((PAGE - start) as u64);
            if part == PAGE as u64 {
                self.pages.insert(page, Page::Filled(value));
            } else {
                self.page(page)[start..start + part as usize].fill(value);
            }
            at += part;
        }
    }

    fn page(&mut self, page: u64) -> &mut [u8] {
        let page = self.pages.entry(page).or_insert(Page::Filled(POISON));
        if let Page::Filled(value) = *page {
            *page = Page::Written(vec![value; PAGE].into());
        }
        match page {
            Page::Written(bytes) => bytes,
            Page::Filled(_) => unreachable!("it was made a written one above"),
        }
    }
}

/// The parts of a range, page by page: the page, the first byte in it, and the part's place in the range.
struct Parts {
    offset: u64,
    done: usize,
    len: usize,
}

impl Parts {
    const fn new(offset: u64, len: usize) -> Self {
        Self { offset, done: 0, len }
    }
}

impl Iterator for Parts {
    type Item = (u64, usize, std::ops::Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.done == self.len {
            return None;
        }
        let at = self.offset + self.done as u64;
        let start = (at % PAGE as u64) as usize;
        let part = self.done..self.len.min(self.done + PAGE - start);
        self.done = part.end;
        Some((at / PAGE as u64, start, part))
    }
}
