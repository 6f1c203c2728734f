#![cfg(unix)]
#![expect(unsafe_code, reason = "loads the library and calls its C functions, as every program of it does")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect fails")]
#![expect(clippy::print_stdout, reason = "a skipped test says so, and a process of a test answers")]
//! The stand-in as programs see it: the shared object, loaded, and its C functions.

mod c_program;
mod captures;
mod contexts;
mod copies;
mod events;
mod faults;
mod graphs;
mod kernels;
mod library;
mod memory;
mod processes;
mod rig;
mod safe_api;
mod streams;
mod virtual_memory;
