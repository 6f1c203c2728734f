#![expect(unsafe_code, reason = "exports C functions")]
//! The simulated machine, as far as a program that tries the allocator has to do with it.

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use c10_cuda::driver::Driver;

use crate::failure::value_or;
use crate::world::world;

/// `cudaStream_t tensorplay_cuda_sim_new_stream(int device)`: a stream of the simulated machine; null when it fails.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_sim_new_stream(device: c_int) -> *mut c_void {
    value_or(null_mut(), || {
        let world = world()?;
        let device = world.device(device)?;
        let stream = world.sim()?.stream_create(device, 0).map_err(c10_cuda::Error::from)?;
        Ok(without_provenance_mut(stream.raw as usize))
    })
}

/// `void tensorplay_cuda_sim_complete_all(void)`: all work of all streams is done.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_sim_complete_all() {
    value_or((), || {
        world()?.sim()?.complete_all();
        Ok(())
    });
}
