//! Threads of devices.
