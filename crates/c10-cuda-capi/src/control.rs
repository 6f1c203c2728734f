#![expect(unsafe_code, reason = "exports C functions, which read and write their callers' memory")]
//! Making the allocator, its settings, what it counts, and the text of errors.

use std::ffi::{CStr, c_char, c_int};

use crate::environment;
use crate::failure::{Failure, code, value_or, with_last};
use crate::world::{make, world, world_of};

/// `int tensorplay_cuda_init(const char *settings, int devices, uint64_t device_bytes)`: makes the allocator, over the
/// driver that `TENSORPLAY_CUDA_DRIVER` names. `settings` has the form of `PYTORCH_CUDA_ALLOC_CONF`; null takes that
/// variable's value, and 0 for a number the environment's or the default. `device_bytes` is for simulated devices
/// alone. Refused once the allocator is there.
///
/// # Safety
/// `settings` is null or a text that ends in 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_init(
    settings: *const c_char,
    devices: c_int,
    device_bytes: u64,
) -> c_int {
    code(|| {
        let config = if settings.is_null() {
            environment::config()?
        } else {
            // SAFETY: the caller gives a text that ends in 0.
            let text = unsafe { CStr::from_ptr(settings) };
            let text = text.to_str().map_err(|_| Failure::config("the settings are no UTF-8"))?;
            c10_cuda::Config::parse(text)?
        };
        let devices = match devices {
            0 => None,
            given => {
                let count = usize::try_from(given);
                Some(count.map_err(|_| Failure::config(format!("there cannot be {given} devices")))?)
            }
        };
        make(environment::machine(devices, (device_bytes != 0).then_some(device_bytes))?, config)
    })
}

/// `void tensorplay_cuda_init_devices(int device_count)`: what PyTorch's `set_init_fn` takes. Makes the allocator if
/// there is none, with as many devices at least.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_init_devices(device_count: c_int) {
    value_or((), || {
        let asked = usize::try_from(device_count).unwrap_or(0);
        let there = world_of(asked)?.cuda.runtime().device_count();
        if device_count > c_int::from(there) {
            return Err(Failure::invalid(format!("{device_count} devices are asked for: there are {there}")));
        }
        Ok(())
    });
}

/// `int tensorplay_cuda_empty_cache(void)`: gives back what is cached. PyTorch's `set_reset_fn` takes it.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_empty_cache() -> c_int {
    code(|| Ok(world()?.cuda.empty_cache()?))
}

/// `void tensorplay_cuda_memory_fraction(double fraction, int device)`: what PyTorch's `set_memory_fraction_fn` takes.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_memory_fraction(fraction: f64, device: c_int) {
    value_or((), || {
        let world = world()?;
        Ok(world.cuda.set_memory_fraction(fraction, world.device(device)?)?)
    });
}

/// `tensorplay_cuda_stats_t`: sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorplayCudaStats {
    /// Blocks that the program holds.
    pub allocated: u64,
    /// The most that they were.
    pub allocated_peak: u64,
    /// What is held of the driver.
    pub reserved: u64,
    /// The most that it was.
    pub reserved_peak: u64,
    /// Blocks that the program holds or streams may still use.
    pub active: u64,
    /// What the program asked for, of those.
    pub requested: u64,
    /// How often the driver gave memory.
    pub num_device_alloc: u64,
    /// How often it took some back.
    pub num_device_free: u64,
    /// How often there was none.
    pub num_ooms: u64,
    /// How often it was asked again after the cache had been emptied.
    pub num_alloc_retries: u64,
}

/// `int tensorplay_cuda_stats(int device, tensorplay_cuda_stats_t *stats)`.
///
/// # Safety
/// `stats` is null, which is refused, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_stats(device: c_int, stats: *mut TensorplayCudaStats) -> c_int {
    code(|| {
        let world = world()?;
        let counted = world.cuda.device_stats(world.device(device)?)?;
        if stats.is_null() {
            return Err(Failure::invalid("the statistics have no place to go"));
        }
        let found = TensorplayCudaStats {
            allocated: counted.allocated_bytes.all.current as u64,
            allocated_peak: counted.allocated_bytes.all.peak as u64,
            reserved: counted.reserved_bytes.all.current as u64,
            reserved_peak: counted.reserved_bytes.all.peak as u64,
            active: counted.active_bytes.all.current as u64,
            requested: counted.requested_bytes.all.current as u64,
            num_device_alloc: counted.num_device_alloc as u64,
            num_device_free: counted.num_device_free as u64,
            num_ooms: counted.num_ooms as u64,
            num_alloc_retries: counted.num_alloc_retries as u64,
        };
        // SAFETY: the caller lets it be written.
        unsafe { stats.write(found) };
        Ok(())
    })
}

/// `size_t tensorplay_cuda_last_error(char *text, size_t size)`: the text of this thread's last failure, cut to
/// `size - 1` bytes and ended by 0. Gives the length of the whole text, without the 0.
///
/// # Safety
/// `text` is null or can be written for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_last_error(text: *mut c_char, size: usize) -> usize {
    with_last(|last| {
        if !text.is_null() && size > 0 {
            let length = last.len().min(size - 1);
            // SAFETY: the caller lets `size` bytes be written, of which these and one more are.
            unsafe { std::ptr::copy_nonoverlapping(last.as_ptr().cast(), text, length) };
            // SAFETY: as above.
            unsafe { text.wrapping_add(length).write(0) };
        }
        last.len()
    })
}
