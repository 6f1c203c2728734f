//! The real driver, on whatever CUDA driver the process finds: hardware, or the stand-in of this workspace.
//!
//! All of these tests take one lock: the library is the process's. Over the stand-in each has a machine of its own, and
//! gives everything back.

mod rig;
mod standin;

mod adopted;
mod allocator;
mod allocator_faults;
mod contexts;
mod ends;
mod faults;
mod faults_of_sharing;
mod images;
mod kernels;
mod library;
mod memory_of_others;
mod peers;
mod rules;
mod threads;

pub(crate) use rig::RealRig;
