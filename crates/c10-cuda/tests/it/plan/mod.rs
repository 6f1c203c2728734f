//! Planned placement: the packing, plans and their files, an allocator that serves one.

mod chance;
mod file;
mod programs;
mod serving;
mod solve;
