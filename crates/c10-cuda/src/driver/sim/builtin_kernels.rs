//! The kernels that every simulated device has, whatever a program has registered.

use super::host_kernels::{Accesses, HostKernel, KernelParams};
use crate::driver::{Access, KernelMemory, LaunchConfig};

/// By name. `fill_u32(ptr, value, count)`, `copy_u32(dst, src, count)`, `add_f32(out, a, b, count)`,
/// `scale_f32(out, a, factor, count)`, `spin(cycles)`.
pub(super) const BUILT_IN: [(&str, HostKernel); 5] = [
    ("fill_u32", HostKernel::new(|_, p| (vec![], vec![words(p, 0, 2)]), fill_u32)),
    ("copy_u32", HostKernel::new(|_, p| (vec![words(p, 1, 2)], vec![words(p, 0, 2)]), copy_u32)),
    ("add_f32", HostKernel::new(add_accesses, add_f32)),
    ("scale_f32", HostKernel::new(|_, p| (vec![words(p, 1, 3)], vec![words(p, 0, 3)]), scale_f32)),
    ("spin", HostKernel { accesses: |_, _| (vec![], vec![]), body: |_, _, _| (), cost_ns: |_, p| p.u64(0) }),
];

/// How many words a kernel handles at a time.
const CHUNK: usize = 4096;

/// `count` words of four bytes, both by the numbers of their parameters. More than there can be are more than there
/// are.
fn words(params: &KernelParams, ptr: usize, count: usize) -> Access {
    Access { ptr: params.ptr(ptr), bytes: params.u64(count).saturating_mul(4) }
}

fn add_accesses(_: &LaunchConfig, params: &KernelParams) -> Accesses {
    (vec![words(params, 1, 3), words(params, 2, 3)], vec![words(params, 0, 3)])
}

/// Makes each word of the first write out of the words of the reads at the same place.
fn map<const READS: usize>(
    count: u64,
    memory: &mut dyn KernelMemory,
    word: impl Fn([[u8; 4]; READS]) -> [u8; 4],
) {
    let (mut read, mut out) = ([[[0; 4]; CHUNK]; READS], [[0; 4]; CHUNK]);
    let mut done = 0;
    while done < count {
        let part = usize::try_from(count - done).unwrap_or(CHUNK).min(CHUNK);
        for (index, read) in read.iter_mut().enumerate() {
            memory.read(index, done * 4, read[..part].as_flattened_mut());
        }
        for (at, out) in out[..part].iter_mut().enumerate() {
            *out = word(std::array::from_fn(|index| read[index][at]));
        }
        memory.write(0, done * 4, out[..part].as_flattened());
        done += part as u64;
    }
}

fn fill_u32(_: &LaunchConfig, params: &KernelParams, memory: &mut dyn KernelMemory) {
    let value = params.u32(1).to_le_bytes();
    map(params.u64(2), memory, |[]: [[u8; 4]; 0]| value);
}

fn copy_u32(_: &LaunchConfig, params: &KernelParams, memory: &mut dyn KernelMemory) {
    map(params.u64(2), memory, |[word]: [[u8; 4]; 1]| word);
}

fn add_f32(_: &LaunchConfig, params: &KernelParams, memory: &mut dyn KernelMemory) {
    map(params.u64(3), memory, |[a, b]: [[u8; 4]; 2]| {
        (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes()
    });
}

fn scale_f32(_: &LaunchConfig, params: &KernelParams, memory: &mut dyn KernelMemory) {
    let factor = params.f32(2);
    map(params.u64(3), memory, |[a]: [[u8; 4]; 1]| (f32::from_le_bytes(a) * factor).to_le_bytes());
}
