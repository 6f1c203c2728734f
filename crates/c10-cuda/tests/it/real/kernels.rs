#![expect(unsafe_code, reason = "launches a kernel in no block, which is refused")]
//! Kernels out of module images, launched by themselves and in graphs.

use c10_cuda::driver::{
    CaptureMode, DevicePtr, EventFlags, FunctionHandle, GraphHandle, LaunchConfig, ModuleHandle, Result,
    Status, StreamHandle,
};

use super::RealRig;
use crate::graph_rules::start;
use crate::module_rules::{call, unload};
use crate::support::{free, read, upload};

const S0: StreamHandle = StreamHandle::default_of(0);
const COUNT: u64 = 1000;
const BYTES: usize = 4000;

fn status<T>(result: Result<T>) -> Option<Status> {
    result.err().map(|error| error.status)
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Memory for the kernels, and the module.
struct Bench<'a> {
    rig: &'a RealRig,
    module: ModuleHandle,
    ptrs: [DevicePtr; 3],
}

impl<'a> Bench<'a> {
    fn new(rig: &'a RealRig) -> Self {
        let ptrs = [(); 3].map(|()| rig.malloc(0, BYTES as u64).unwrap());
        Self { rig, module: rig.kernels(0), ptrs }
    }

    fn function(&self, name: &str) -> FunctionHandle {
        self.rig.module_function(self.module, name).unwrap()
    }

    fn launch(&self, on: StreamHandle, name: &str, ptrs: &[DevicePtr], middle: &[u8]) {
        let ptrs: Vec<_> = ptrs.iter().map(|ptr| ptr.0.to_le_bytes()).collect();
        let count = COUNT.to_le_bytes();
        let mut params: Vec<&[u8]> = ptrs.iter().map(|ptr| &ptr[..]).collect();
        if !middle.is_empty() {
            params.push(middle);
        }
        params.push(&count);
        call(&**self.rig, on, self.function(name), &params).unwrap();
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.rig.device_synchronize(0).unwrap();
            unload(&**self.rig, self.module).unwrap();
            self.ptrs.iter().for_each(|ptr| free(&**self.rig, *ptr).unwrap());
        }
    }
}

#[test]
fn kernels_compute() {
    let Some(rig) = RealRig::new(1) else { return };
    let bench = Bench::new(&rig);
    let [a, b, out] = bench.ptrs;
    let stream = rig.stream_create(0, 0).unwrap();
    upload(&*rig, a, &floats((0..COUNT).map(|i| i as f32)), stream).unwrap();
    bench.launch(stream, "copy_u32", &[b, a], &[]);
    bench.launch(stream, "scale_f32", &[b, b], &0.5_f32.to_le_bytes());
    bench.launch(stream, "add_f32", &[out, a, b], &[]);
    call(&*rig, stream, bench.function("spin"), &[&1000_u64.to_le_bytes()]).unwrap();
    let expected = floats((0..COUNT).map(|i| i as f32 * 1.5));
    assert!(read(&*rig, out, BYTES, stream) == expected);
    bench.launch(stream, "fill_u32", &[out], &7_u32.to_le_bytes());
    assert!(read(&*rig, out, BYTES, stream) == 7_u32.to_le_bytes().repeat(COUNT as usize));
    rig.stream_destroy(stream).unwrap();
}

#[test]
fn a_function_is_as_good_as_its_module() {
    let Some(rig) = RealRig::new(1) else { return };
    let module = rig.kernels(0);
    assert_eq!(status(rig.module_function(module, "no_such_kernel")), Some(Status::NotFound));
    assert_eq!(status(rig.module_function(module, "spin\0")), Some(Status::NotFound));
    let elsewhere = ModuleHandle { device: rig.device_count(), ..module };
    assert_eq!(status(rig.module_function(elsewhere, "spin")), Some(Status::InvalidHandle));
    assert_eq!(status(unload(&*rig, elsewhere)), Some(Status::InvalidHandle));
    let spin = rig.module_function(module, "spin").unwrap();
    assert_eq!(rig.module_function(module, "spin").unwrap(), spin);
    let cycles = 10_u64.to_le_bytes();
    call(&*rig, S0, spin, &[&cycles]).unwrap();
    for bad in [FunctionHandle { raw: 0, ..spin }, FunctionHandle { device: rig.device_count(), ..spin }] {
        assert_eq!(status(call(&*rig, S0, bad, &[&cycles])), Some(Status::InvalidHandle));
    }
    let nowhere = StreamHandle { device: 0, raw: u64::MAX - 1 };
    assert_eq!(status(call(&*rig, nowhere, spin, &[&cycles])), Some(Status::InvalidHandle));
    rig.device_synchronize(0).unwrap();
    unload(&*rig, module).unwrap();
    assert_eq!(status(call(&*rig, S0, spin, &[&cycles])), Some(Status::InvalidHandle));
    assert_eq!(status(rig.module_function(module, "spin")), Some(Status::InvalidHandle));
    assert_eq!(status(unload(&*rig, module)), Some(Status::InvalidHandle));
}

#[test]
fn parameters_are_counted_and_measured() {
    // Drivers before CUDA 12.4 do not tell what a function takes.
    let Some((rig, _)) = RealRig::over_standin(1) else { return };
    let bench = Bench::new(&rig);
    let spin = bench.function("spin");
    for wrong in [&[][..], &[&[0; 4][..]], &[&[0; 8], &[0; 8]]] {
        assert_eq!(status(call(&*rig, S0, spin, wrong)), Some(Status::InvalidValue));
    }
    let config = LaunchConfig { grid: [0, 1, 1], block: [1, 1, 1], shared_bytes: 0 };
    // SAFETY: it takes one number.
    let none = unsafe { rig.launch_function(S0, spin, config, &[&[0; 8]]) };
    assert_eq!(status(none), Some(Status::InvalidValue));
}

#[test]
fn a_function_is_launched_on_its_own_device() {
    let Some(rig) = RealRig::new(2) else { return };
    let bench = Bench::new(&rig);
    let spin = bench.function("spin");
    let other = StreamHandle::default_of(1);
    assert_eq!(status(call(&*rig, other, spin, &[&[0; 8]])), Some(Status::InvalidHandle));
}

/// A capture of one fill and one more kernel.
fn capture(bench: &Bench<'_>, value: u32, twice: bool) -> GraphHandle {
    let stream = bench.rig.stream_create(0, 0).unwrap();
    let [a, _, out] = bench.ptrs;
    bench.rig.stream_begin_capture(stream, CaptureMode::ThreadLocal).unwrap();
    bench.launch(stream, "fill_u32", &[a], &value.to_le_bytes());
    bench.launch(stream, "copy_u32", &[out, a], &[]);
    if twice {
        bench.launch(stream, "copy_u32", &[out, a], &[]);
    }
    let graph = bench.rig.stream_end_capture(stream).unwrap();
    bench.rig.stream_destroy(stream).unwrap();
    graph
}

#[test]
fn graphs_are_launched_and_updated() {
    let Some(rig) = RealRig::new(1) else { return };
    let bench = Bench::new(&rig);
    let out = bench.ptrs[2];
    let filled = |value: u32| read(&*rig, out, BYTES, S0) == value.to_le_bytes().repeat(COUNT as usize);
    let graph = capture(&bench, 5, false);
    assert_eq!(rig.graph_node_count(graph).unwrap(), 2);
    let exec = rig.graph_instantiate(graph).unwrap();
    rig.graph_destroy(graph).unwrap();
    assert_eq!(status(rig.graph_instantiate(graph)), Some(Status::InvalidHandle));
    rig.graph_upload(exec, S0).unwrap();
    for _ in 0..3 {
        bench.launch(S0, "fill_u32", &[out], &0_u32.to_le_bytes());
        start(&*rig, exec, S0).unwrap();
        assert!(filled(5));
    }
    let other = capture(&bench, 6, false);
    rig.graph_exec_update(exec, other).unwrap();
    start(&*rig, exec, S0).unwrap();
    assert!(filled(6));
    let longer = capture(&bench, 7, true);
    assert_eq!(status(rig.graph_exec_update(exec, longer)), Some(Status::GraphUpdateFailure));
    start(&*rig, exec, S0).unwrap();
    assert!(filled(6), "it does what it did");
    rig.graph_exec_destroy(exec).unwrap();
    assert_eq!(status(start(&*rig, exec, S0)), Some(Status::InvalidHandle));
    assert_eq!(status(rig.graph_upload(exec, S0)), Some(Status::InvalidHandle));
    assert_eq!(status(rig.graph_exec_update(exec, other)), Some(Status::InvalidHandle));
    assert_eq!(status(rig.graph_exec_destroy(exec)), Some(Status::InvalidHandle));
    for graph in [other, longer] {
        rig.graph_destroy(graph).unwrap();
    }
}

#[test]
fn an_event_of_a_capture_can_be_one_that_the_graph_records() {
    let Some(rig) = RealRig::new(1) else { return };
    let bench = Bench::new(&rig);
    let stream = rig.stream_create(0, 0).unwrap();
    let event = rig.event_create(0, EventFlags { timing: true, ..EventFlags::default() }).unwrap();
    rig.stream_begin_capture(stream, CaptureMode::ThreadLocal).unwrap();
    bench.launch(stream, "fill_u32", &[bench.ptrs[0]], &3_u32.to_le_bytes());
    rig.event_record_external(event, stream).unwrap();
    let graph = rig.stream_end_capture(stream).unwrap();
    assert_eq!(rig.graph_node_count(graph).unwrap(), 2);
    let exec = rig.graph_instantiate(graph).unwrap();
    start(&*rig, exec, stream).unwrap();
    rig.event_synchronize(event).unwrap();
    assert!(rig.event_query(event).unwrap());
    rig.event_record_external(event, stream).unwrap();
    rig.event_synchronize(event).unwrap();
    rig.stream_synchronize(stream).unwrap();
    rig.graph_exec_destroy(exec).unwrap();
    rig.graph_destroy(graph).unwrap();
    rig.event_destroy(event).unwrap();
    rig.stream_destroy(stream).unwrap();
}
