//! cudarc's safe interface on the stand-in, as its users write it. Each program runs in a process of its own, whose
//! loader finds the stand-in under the name of CUDA's library, once for each way in which work can run.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaModule, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::rig::path;

/// Set for the processes that run the programs.
const INSIDE: &str = "CUDA_STANDIN_TEST_SAFE_API";

const IMAGE: &str = "tensorplay host kernels 1\nfill_u32 8 4 8\nadd_f32 8 8 8 8\nscale_f32 8 8 4 8\n";

/// A figure that the stand-in keeps, in the process that has it as CUDA's library.
fn figure(name: &str) -> u64 {
    // SAFETY: the library is loaded already, and the function is one of the stand-in's.
    let library = unsafe { libloading::Library::new("libcuda.so") }.unwrap();
    let function: libloading::Symbol<'_, extern "C" fn() -> u64> =
        // SAFETY: the type is that of the stand-in's functions of figures.
        unsafe { library.get(name) }.unwrap();
    function()
}

/// Runs a program of two devices on the stand-in.
fn run(name: &str, program: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        program();
        assert_eq!(figure("cuda_standin_live_handles"), 0, "{name} has left something");
        assert_eq!(figure("cuda_standin_swept_handles"), 0, "{name} left something to its contexts");
        assert_eq!(figure("cuda_standin_live_contexts"), 0, "{name} has left a context");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    symlink(path(), folder.path().join("libcuda.so")).unwrap();
    for completion in ["eager", "manual", "seeded:3"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("safe_api::{name}"), "--nocapture"])
            .env(INSIDE, "1")
            .env("LD_LIBRARY_PATH", folder.path())
            .env("CUDA_STANDIN_DEVICES", "2")
            .env("CUDA_STANDIN_COMPLETION", completion)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{completion}: {told}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{completion}: {told}");
    }
}

fn kernels(context: &Arc<CudaContext>) -> Arc<CudaModule> {
    context.load_module(Ptx::from_src(IMAGE)).unwrap()
}

/// `out = a + b`.
fn add(
    stream: &Arc<CudaStream>,
    module: &Arc<CudaModule>,
    out: &mut cudarc::driver::CudaSlice<f32>,
    (a, b): (&cudarc::driver::CudaSlice<f32>, &cudarc::driver::CudaSlice<f32>),
) {
    let function = module.load_function("add_f32").unwrap();
    let count = a.len() as u64;
    let mut launch = stream.launch_builder(&function);
    launch.arg(out).arg(a).arg(b).arg(&count);
    // SAFETY: the kernel takes three ranges of `count` numbers and their count.
    unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }.unwrap();
}

#[test]
fn slices_go_up_through_a_kernel_and_down() {
    run("slices_go_up_through_a_kernel_and_down", || {
        let context = CudaContext::new(0).unwrap();
        assert_eq!(CudaContext::device_count(), Ok(2));
        assert!(context.has_async_alloc());
        assert_eq!(context.compute_capability(), Ok((9, 0)));
        let module = kernels(&context);
        for stream in [context.default_stream(), context.new_stream().unwrap(), context.per_thread_stream()] {
            let a = stream.clone_htod(&[1.0f32; 1000]).unwrap();
            let b = stream.clone_htod(&vec![2.5f32; 1000]).unwrap();
            let mut out = stream.alloc_zeros::<f32>(1000).unwrap();
            add(&stream, &module, &mut out, (&a, &b));
            assert_eq!(stream.clone_dtoh(&out).unwrap(), [3.5; 1000]);
            let middle = out.slice(10..20);
            let mut copy = stream.alloc_zeros::<f32>(10).unwrap();
            stream.memcpy_dtod(&middle, &mut copy).unwrap();
            assert_eq!(stream.clone_dtoh(&copy).unwrap(), [3.5; 10]);
        }
    });
}

#[test]
fn streams_order_what_they_share() {
    run("streams_order_what_they_share", || {
        let context = CudaContext::new(0).unwrap();
        let module = kernels(&context);
        let (first, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let a = first.clone_htod(&[1.0f32; 64]).unwrap();
        let mut sum = first.alloc_zeros::<f32>(64).unwrap();
        for _ in 0..10 {
            let before = second.clone_dtod(&sum).unwrap();
            add(&first, &module, &mut sum, (&a, &before));
            let forked = first.fork().unwrap();
            forked.memset_zeros(&mut forked.alloc_zeros::<u8>(8).unwrap()).unwrap();
            second.join(&forked).unwrap();
        }
        assert_eq!(second.clone_dtoh(&sum).unwrap(), [10.0; 64]);
    });
}

#[test]
fn events_take_times() {
    run("events_take_times", || {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let start = stream.record_event(timed).unwrap();
        stream.alloc_zeros::<u8>(1 << 20).unwrap();
        let end = stream.record_event(timed).unwrap();
        let mut asked = 0;
        while !end.is_complete() {
            asked += 1;
            assert!(asked < 100, "it is asked until it is complete");
        }
        assert!(start.elapsed_ms(&end).unwrap() > 0.0);
    });
}

#[test]
fn pinned_memory_is_the_hosts_and_the_devices() {
    run("pinned_memory_is_the_hosts_and_the_devices", || {
        let context = CudaContext::new(0).unwrap();
        let stream = context.new_stream().unwrap();
        // SAFETY: all of it is written before it is read.
        let mut pinned = unsafe { context.alloc_pinned::<u32>(256) }.unwrap();
        pinned.as_mut_slice().unwrap().copy_from_slice(&std::array::from_fn::<u32, 256, _>(|i| i as u32));
        let on_device = stream.clone_htod(&pinned).unwrap();
        pinned.as_mut_slice().unwrap().fill(0);
        stream.memcpy_dtoh(&on_device, &mut pinned).unwrap();
        assert_eq!(pinned.as_slice().unwrap()[200..203], [200, 201, 202]);
    });
}

#[test]
fn a_graph_is_captured_and_launched() {
    run("a_graph_is_captured_and_launched", || {
        let context = CudaContext::new(0).unwrap();
        let module = kernels(&context);
        let stream = context.new_stream().unwrap();
        // SAFETY: all that follows is on one stream.
        unsafe { context.disable_event_tracking() };
        let one = stream.clone_htod(&[1.0f32; 16]).unwrap();
        let mut sum = stream.alloc_zeros::<f32>(16).unwrap();
        let function = module.load_function("add_f32").unwrap();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        let count = 16u64;
        let old = sum.as_view();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&old).arg(&one).arg(&old).arg(&count);
        // SAFETY: the kernel adds to the sum in place, word by word.
        unsafe { launch.launch(LaunchConfig::for_num_elems(16)) }.unwrap();
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags).unwrap().unwrap();
        graph.upload().unwrap();
        for _ in 0..5 {
            graph.launch().unwrap();
        }
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), [5.0; 16]);
        stream.memset_zeros(&mut sum).unwrap();
        graph.launch().unwrap();
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), [1.0; 16]);
    });
}

#[test]
fn devices_copy_to_each_other() {
    run("devices_copy_to_each_other", || {
        let (here, there) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
        let (from, to) = (here.new_stream().unwrap(), there.new_stream().unwrap());
        let source = from.clone_htod(&[7u8; 300]).unwrap();
        let mut target = to.alloc_zeros::<u8>(300).unwrap();
        to.memcpy_dtod(&source, &mut target).unwrap();
        assert_eq!(to.clone_dtoh(&target).unwrap(), [7; 300]);
    });
}

#[test]
fn threads_share_a_context() {
    run("threads_share_a_context", || {
        let context = CudaContext::new(0).unwrap();
        std::thread::scope(|scope| {
            for value in 0..4u8 {
                let context = &context;
                scope.spawn(move || {
                    let stream = context.new_stream().unwrap();
                    for _ in 0..50 {
                        let up = stream.clone_htod(&[value; 64]).unwrap();
                        assert_eq!(stream.clone_dtoh(&up).unwrap(), [value; 64]);
                    }
                });
            }
        });
    });
}

#[test]
fn what_is_refused_is_an_error_with_its_text() {
    run("what_is_refused_is_an_error_with_its_text", || {
        let context = CudaContext::new(0).unwrap();
        let stream = context.default_stream();
        let error = stream.alloc_zeros::<u8>(1 << 40).unwrap_err();
        assert_eq!(error, DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        // cudarc asks the library for its words.
        assert!(format!("{error:?}").contains("out of memory"), "{error:?}");
        let error = context.load_module(Ptx::from_src(".version 8.0")).unwrap_err();
        assert_eq!(error, DriverError(CUresult::CUDA_ERROR_INVALID_PTX));
        assert_eq!(CudaContext::new(2).unwrap_err(), DriverError(CUresult::CUDA_ERROR_INVALID_DEVICE));
    });
}
