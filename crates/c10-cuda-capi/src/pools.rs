#![expect(unsafe_code, reason = "exports C functions")]
//! Private pools, for the calls that PyTorch's pluggable allocators pass on.

use std::ffi::c_int;

use c10_cuda::alloc::{MempoolId, PoolFilter};

use crate::failure::code;
use crate::world::world;

/// `tensorplay_cuda_mempool_id_t`: a pool's name, as PyTorch's `MempoolId_t` lies in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolIdArgument {
    /// The number that graphs make.
    pub first: u64,
    /// The number that programs make.
    pub second: u64,
}

impl From<MempoolIdArgument> for MempoolId {
    fn from(id: MempoolIdArgument) -> Self {
        Self::new(id.first, id.second)
    }
}

/// `int tensorplay_cuda_begin_allocate_to_pool(int device, tensorplay_cuda_mempool_id_t id)`: what this thread
/// allocates from here on comes from the pool, which is made or has one more use.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_begin_allocate_to_pool(device: c_int, id: MempoolIdArgument) -> c_int {
    code(|| {
        let world = world()?;
        Ok(world.cuda.begin_allocate_to_pool(world.device(device)?, id.into(), PoolFilter::this_thread())?)
    })
}

/// `int tensorplay_cuda_end_allocate_to_pool(int device, tensorplay_cuda_mempool_id_t id)`: ends that.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_end_allocate_to_pool(device: c_int, id: MempoolIdArgument) -> c_int {
    code(|| {
        let world = world()?;
        Ok(world.cuda.end_allocate_to_pool(world.device(device)?, id.into())?)
    })
}

/// `int tensorplay_cuda_release_pool(int device, tensorplay_cuda_mempool_id_t id)`: takes one use of the pool back.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_release_pool(device: c_int, id: MempoolIdArgument) -> c_int {
    code(|| {
        let world = world()?;
        Ok(world.cuda.release_pool(world.device(device)?, id.into())?)
    })
}
