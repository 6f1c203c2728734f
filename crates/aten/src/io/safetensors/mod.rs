//! Files in the safetensors format: named tensors, and nothing that is executed.
//!
//! A file is a length, a JSON text of that length, and the bytes of all tensors without gaps. [`SafeTensors`]
//! is such a file, read: from bytes, which are copied, or from a storage, which the tensors then share. A
//! file on disk is read as a whole (`SafeTensors::open`) or mapped (`SafeTensors::map`); either way its
//! tensors share its memory, and only those that are not aligned in it have their own.
//!
//! ```
//! use std::collections::BTreeMap;
//! use aten::io::safetensors::{self, SafeTensors};
//!
//! let weight = aten::Tensor::from_elements(&[1.0_f32, 2.0])?;
//!
//! let mut file = Vec::new();
//! safetensors::write(&mut file, [("weight", &weight)], &BTreeMap::new())?;
//!
//! let read = SafeTensors::from_bytes(&file)?;
//! assert_eq!(read.tensor("weight").expect("it was written").sizes(), weight.sizes());
//! # Ok::<(), aten::Error>(())
//! ```

mod json;
mod header;
#[cfg(feature = "mapped")]
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use c10_core::Storage;

use super::io_error;
use super::packed::{check_host, new_tensor, packed, swap_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::shape;
use crate::tensor::{Dims, Geometry, Tensor};
use header::{Entry, Header, LENGTH_BYTES, METADATA, dtype_name, dtype_rank};

/// The tensors of a file, in the order of their bytes, and what the file says about itself.
#[derive(Debug)]
pub struct SafeTensors {
    tensors: Vec<(String, Tensor)>,
    metadata: BTreeMap<String, String>,
}

impl SafeTensors {
    /// The tensors of a file of these bytes. Each has memory of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when it is no such file, [`ErrorKind::Dtype`] when a tensor is of a type that
    /// none here has, [`ErrorKind::Overflow`] when one has more bytes than can be counted,
    /// [`ErrorKind::OutOfMemory`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (header, buffer_at) = read_header(bytes)?;
        let buffer = &bytes[buffer_at..];
        Self::new(header, |entry| copied(entry, &buffer[entry.begin..entry.end]))
    }

    /// The tensors of a file whose bytes are a storage, as [`Storage::from_mapped`](c10_core::Storage) makes
    /// one of a mapped file. They share it, and so its access lock and version; those that are not aligned in
    /// it have memory of their own.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes); [`ErrorKind::NotImplemented`] when the host cannot reach the
    /// storage.
    pub fn from_storage(storage: &Storage) -> Result<Self> {
        let guard = storage.read()?;
        let bytes = guard.bytes()?;
        let (header, buffer_at) = read_header(bytes)?;
        let address = bytes.as_ptr() as usize;
        let place = |entry: &Entry| {
            let (begin, element) = (buffer_at + entry.begin, entry.dtype.element_size());
            let is_aligned = begin.is_multiple_of(element) && (address + begin).is_multiple_of(element);
            // No allocator is asked for memory while the storage is locked: what is misaligned is set aside.
            if is_aligned && cfg!(target_endian = "little") {
                Place::Shared(begin / element)
            } else {
                Place::Copied(bytes[begin..buffer_at + entry.end].to_vec())
            }
        };
        let places: Vec<Place> = header.entries.iter().map(place).collect();
        drop(guard);
        let mut places = places.into_iter();
        Self::new(header, |entry| match places.next().expect("one for each entry") {
            Place::Copied(bytes) => copied(entry, &bytes),
            Place::Shared(offset) => {
                let (sizes, strides) = (Dims::from(&*entry.sizes), shape::contiguous_strides(&entry.sizes)?);
                let geometry = Geometry::new(storage.clone(), sizes, strides, offset as i64, entry.dtype)?;
                let device = storage.device();
                Ok(Tensor::from_geometry(geometry, entry.dtype, device, Tensor::keys_of(device)))
            }
        })
    }

    fn new(header: Header, mut tensor: impl FnMut(&Entry) -> Result<Tensor>) -> Result<Self> {
        let tensors = header.entries.into_iter().map(|entry| Ok((tensor(&entry)?, entry.name)));
        let tensors = tensors.map(|pair| pair.map(|(tensor, name)| (name, tensor)));
        Ok(Self { tensors: tensors.collect::<Result<_>>()?, metadata: header.metadata })
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.iter().find(|(other, _)| *other == name).map(|(_, tensor)| tensor)
    }

    /// Names and tensors, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
}

/// Where the elements of a tensor are.
enum Place {
    /// In the storage of the file, from this element.
    Shared(usize),
    Copied(Vec<u8>),
}

/// Writes a file: the tensors by falling alignment of their types, then by name. Tensors that share memory
/// are written each in full.
///
/// # Errors
/// Before anything is written: [`ErrorKind::InvalidArgument`] when a name is there twice or is the format's
/// own, [`ErrorKind::Dtype`] for a type that the format lacks (`complex32`, `complex128`),
/// [`ErrorKind::NotImplemented`] for a tensor that the host cannot reach. Later [`ErrorKind::Io`] when the
/// writer refuses.
pub fn write<'a>(
    out: &mut impl Write,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let mut tensors: Vec<(&str, &Tensor)> = tensors.into_iter().collect();
    check_names(&tensors)?;
    tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(dtype_rank(tensor.dtype())), *name));
    let mut header = Header { entries: Vec::with_capacity(tensors.len()), metadata: metadata.clone() };
    let mut begin = 0;
    for (name, tensor) in &tensors {
        let entry = entry(name, tensor, begin)?;
        begin = entry.end;
        header.entries.push(entry);
    }
    let failed = |error| io_error("the safetensors file cannot be written", error);
    out.write_all(&header.to_bytes()).map_err(failed)?;
    for ((_, tensor), entry) in tensors.iter().zip(&header.entries) {
        let mut bytes = packed(tensor)?;
        if cfg!(target_endian = "big") {
            swap_bytes(entry.dtype, &mut bytes);
        }
        if bytes.len() != entry.end - entry.begin {
            // Somebody resizes it meanwhile.
            return Err(Error::shape(format!(
                "tensor {:?} has changed its sizes while it is written",
                entry.name
            )));
        }
        out.write_all(&bytes).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

fn check_names(tensors: &[(&str, &Tensor)]) -> Result<()> {
    let mut names = BTreeSet::new();
    for (name, _) in tensors {
        if *name == METADATA {
            return Err(Error::invalid_argument(format!(
                "`{METADATA}` is the format's own name, and no tensor's"
            )));
        }
        if !names.insert(name) {
            return Err(Error::invalid_argument(format!("two tensors are named {name:?}")));
        }
    }
    Ok(())
}

fn entry(name: &str, tensor: &Tensor, begin: usize) -> Result<Entry> {
    check_host(tensor)?;
    let dtype = tensor.dtype();
    if dtype_name(dtype).is_none() {
        return Err(Error::new(
            ErrorKind::Dtype,
            format!("tensor {name:?} is of type {dtype}, which the safetensors format lacks"),
        ));
    }
    let sizes = tensor.sizes().to_vec();
    let bytes = c10_core::bytes::contiguous_bytes(&sizes, dtype.element_size(), 0)?;
    let end = begin
        .checked_add(bytes)
        .ok_or_else(|| Error::new(ErrorKind::Overflow, "the tensors have more bytes than can be counted"))?;
    Ok(Entry { name: name.to_owned(), dtype, sizes, begin, end })
}

fn read_header(bytes: &[u8]) -> Result<(Header, usize)> {
    let buffer_at = Header::buffer_at(bytes, bytes.len())?;
    let header = Header::parse(&bytes[LENGTH_BYTES..buffer_at], bytes.len() - buffer_at)?;
    Ok((header, buffer_at))
}

fn copied(entry: &Entry, bytes: &[u8]) -> Result<Tensor> {
    new_tensor(entry.sizes.as_slice().into(), None, entry.dtype, |memory| {
        let memory = &mut memory[..bytes.len()];
        memory.copy_from_slice(bytes);
        if cfg!(target_endian = "big") {
            swap_bytes(entry.dtype, memory);
        }
    })
}
