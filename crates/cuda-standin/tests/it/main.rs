#![expect(unsafe_code, reason = "loads the library and calls its C functions, as every program of it does")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]
//! The stand-in as programs see it: the shared object, loaded, and its C functions.

mod captures;
mod contexts;
mod copies;
mod events;
mod faults;
mod library;
mod memory;
mod rig;
mod streams;
mod virtual_memory;
