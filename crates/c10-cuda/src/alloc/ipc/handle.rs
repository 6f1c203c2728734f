//! [`ShareableHandle`] and its bytes: a version, a kind, and what the kind needs.
//!
//! Kind `c` is one allocation of the driver, with the driver's 64 bytes. Kind `e` is a row of pages of an expandable
//! segment: the sharing process (4 bytes), the kind of its handles (4), a page's size (8), the number of pages (8),
//! and 64 bytes for each; numbers are little-endian. 64 bytes alone are a `c` of the first version.

use crate::driver::IpcHandle;
use crate::error::{Error, ErrorKind, Result};

/// The version that is written (`SHAREABLE_HANDLE_VERSION`).
const VERSION: u8 = 3;
/// Handles of 64 bytes that mean the same in every process.
const FABRIC: u32 = 2;
const HEAD: usize = 2;
const PAGES_HEAD: usize = HEAD + 4 + 4 + 8 + 8;

/// What another process needs to reach a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShareableHandle {
    /// Where the block begins in what the handle stands for, in bytes.
    pub offset: u64,
    /// What is opened there.
    pub handle: Vec<u8>,
}

/// What the bytes of a handle say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// An allocation of the driver.
    Allocation(IpcHandle),
    /// Pages of an expandable segment, in order, and the size of each.
    Pages { page: u64, handles: Vec<IpcHandle> },
}

impl Shared {
    /// The bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            Self::Allocation(handle) => [&[VERSION, b'c'][..], &handle.0].concat(),
            Self::Pages { page, handles } => {
                let mut bytes = vec![VERSION, b'e'];
                bytes.extend(std::process::id().to_le_bytes());
                bytes.extend(FABRIC.to_le_bytes());
                bytes.extend(page.to_le_bytes());
                bytes.extend((handles.len() as u64).to_le_bytes());
                handles.iter().for_each(|handle| bytes.extend(handle.0));
                bytes
            }
        }
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a version or a kind that is not known here, and for bytes that are too few or
    /// too many.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        if let Ok(legacy) = <[u8; 64]>::try_from(bytes) {
            return Ok(Self::Allocation(IpcHandle(legacy)));
        }
        match bytes {
            [version, ..] if *version > VERSION => Err(wrong(&format!(
                "is of version {version}, and this library reads up to version {VERSION}"
            ))),
            [_, b'c', handle @ ..] => {
                let handle = <[u8; 64]>::try_from(handle).map_err(|_| wrong("is not of 64 bytes"))?;
                Ok(Self::Allocation(IpcHandle(handle)))
            }
            [_, b'e', ..] => Self::read_pages(bytes),
            [_, kind, ..] => Err(wrong(&format!("is of a kind {:?} that is not known", char::from(*kind)))),
            _ => Err(wrong("is empty")),
        }
    }

    fn read_pages(bytes: &[u8]) -> Result<Self> {
        let head = bytes.get(..PAGES_HEAD).ok_or_else(|| wrong("ends in its head"))?;
        let number = |from: usize, to: usize| {
            head[from..to].iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
        };
        let (kind, page, count) = (number(6, 10), number(10, 18), number(18, 26));
        if kind != u64::from(FABRIC) {
            return Err(wrong(&format!("has page handles of a kind {kind} that is not known")));
        }
        let (handles, rest) = bytes[PAGES_HEAD..].as_chunks::<64>();
        if handles.len() as u64 != count || !rest.is_empty() || count == 0 || page == 0 {
            return Err(wrong(&format!("says {count} pages of {page} bytes, and has other bytes for them")));
        }
        if page.checked_mul(count).is_none() {
            return Err(wrong("stands for more bytes than there are addresses"));
        }
        Ok(Self::Pages { page, handles: handles.iter().map(|bytes| IpcHandle(*bytes)).collect() })
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("open_ipc_handle: the handle {what}"))
}
