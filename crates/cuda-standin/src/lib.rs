//! A stand-in for CUDA's driver library (`libcuda`), over the simulated device of c10-cuda: programs of the C interface
//! run without a GPU, and are told what a driver would tell them.
//!
//! The shared object exports CUDA's functions under their names. A program that loads `libcuda.so` finds it where a
//! link of that name to it stands on the loader's path. There is one machine in a process, and one lock around it.
//!
//! # The machine
//! The first call makes it, as the environment says: `CUDA_STANDIN_DEVICES` devices (1), `CUDA_STANDIN_BYTES` bytes of
//! memory each (4 GiB), and when work runs, `CUDA_STANDIN_COMPLETION`: `eager`, at once; `manual`, when it is waited
//! for; `seeded:N`, as a seed decides.
//!
//! # What it does
//! - **Handles** are numbers that nobody can follow, and none is given out twice: use after the end, a handle of
//!   another kind, a second destroy come back as the error that CUDA documents. So do calls before `cuInit`, without a
//!   current context, in a process forked after `cuInit`, and after the C library has begun to end the process.
//! - **Contexts** are current by thread, on a stack. Primary ones are counted; the last release ends one with all that
//!   is of it. All contexts of a device share its default streams.
//! - **Work** runs on the host in the order of streams and events. The legacy default stream and the blocking streams
//!   of its context wait for each other. A query answers how things are, and where that is not ready lets its stream
//!   run the next item (or what that waits for): a program that asks in a loop gets to the end, as it does where time
//!   passes.
//! - **Copies** know by the address what is of a device. Pageable memory of the host is free again when the call that
//!   copies out of it returns, and filled when one that copies into it does.
//! - **Faults** of work are sticky: every later call in a context of the device fails with the same, until the context
//!   has ended. What the program gives back then is gone from the books, so that leaks can still be told.
//! - **Kernels** are functions of the host: an image is a text of the simulator's format, which names those that every
//!   device has and those that the program has registered. PTX and binaries are refused as a device refuses what is not
//!   for it.
//! - **Processes** share memory of `cuMemAlloc` and events by handles, and physical memory by file descriptors: the
//!   bytes of what is exported lie in files. Who waits for another process's event sleeps until that process has run
//!   the work; in `manual` completion somebody there has to wait for it, or ask.
//!
//! # What it does not do
//! Kernels and host functions run inside the call that makes their stream go on, on its thread and with the machine
//! locked: one that waits for what the program does after that call waits for itself. Kernels do not reach memory of the
//! host. Mappings are whole, and access to them is for reading and writing.
//!
//! Managed memory, memory pools beside the default ones, arrays, textures, graphs made node by node, launch
//! attributes, per-thread variants of entry points (`CU_STREAM_PER_THREAD` works as a stream). What cudarc asks for
//! of it refuses; the rest is not there.
//!
//! # For tests
//! Beside CUDA's functions there are, to be found by name: `cuda_standin_reset`, `cuda_standin_live_handles`,
//! `cuda_standin_live_contexts`, `cuda_standin_swept_handles`, `cuda_standin_fail`, `cuda_standin_fail_clear`,
//! `cuda_standin_lose`, `cuda_standin_calls`, `cuda_standin_complete_all`, `cuda_standin_register_kernel`.
//! `include/cuda_standin.h` says what each does. With `CUDA_STANDIN_EXIT=strict` a process that has not given everything
//! back when it ends, or calls CUDA after that, ends with an error (`exit.rs`).

// Memory and events pass between processes by what Unix has.
#![cfg(unix)]

mod abi;
mod entry;
mod environment;
mod exit;
mod exports;
mod ipc;
mod kernels;
mod machine;
