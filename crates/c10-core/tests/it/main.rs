//! Behaviour of `c10-core` at its edge.

mod access;
mod cow;
mod data_ptr;
mod dump;
mod fake_device;
mod guard;
mod hooks;
mod pending;
mod storage;
