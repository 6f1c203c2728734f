//! The rule of modules (R10), for the suite that every driver passes.
#![expect(unsafe_code, reason = "launches functions with the parameters that they take")]
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use c10_cuda::driver::sim::{
    AccessFault, HostKernel, KernelParams, RaceKind, SimConfig, SimDriver, register_host_kernel,
};
use c10_cuda::driver::{
    Access, DevicePtr, Driver, FunctionHandle, LaunchConfig, ModuleHandle, Result, Status, StreamHandle,
};

use crate::driver_rules::HOST_KERNELS;
use crate::support::{MIB, free, read, upload};

const S0: StreamHandle = StreamHandle::default_of(0);

fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

/// A launch of one parameter's bytes each.
pub(crate) fn call(
    d: &dyn Driver,
    on: StreamHandle,
    function: FunctionHandle,
    params: &[&[u8]],
) -> Result<()> {
    let config = LaunchConfig { grid: [4, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
    // SAFETY: the parameters are the function's, or the simulator refuses them; tests order their work.
    unsafe { d.launch_function(on, function, config, params) }
}

pub(crate) fn unload(d: &dyn Driver, module: ModuleHandle) -> Result<()> {
    // SAFETY: tests wait for what they launch.
    unsafe { d.module_unload(module) }
}

fn bytes(words: impl IntoIterator<Item = f32>) -> Vec<u8> {
    words.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// `ptr` as a parameter.
pub(crate) fn arg(ptr: DevicePtr) -> [u8; 8] {
    ptr.0.to_le_bytes()
}

/// Functions do what they say, in stream order, whatever the number of their threads.
pub(crate) fn r10_functions_compute(d: &dyn Driver, image: &[u8]) {
    const COUNT: u64 = 5001;
    let stream = d.stream_create(0, 0).unwrap();
    let module = d.module_load(0, image).unwrap();
    let function = |name| d.module_function(module, name).unwrap();
    let [a, b, out] = [(); 3].map(|()| d.malloc(0, 4 * COUNT).unwrap());
    let count = COUNT.to_le_bytes();
    let values = || (0..COUNT as u16).map(f32::from);
    upload(d, a, &bytes(values()), stream).unwrap();
    let two = 2.0_f32.to_bits().to_le_bytes();
    call(d, stream, function("fill_u32"), &[&arg(b), &two, &count]).unwrap();
    call(d, stream, function("add_f32"), &[&arg(out), &arg(a), &arg(b), &count]).unwrap();
    let half = 0.5_f32.to_le_bytes();
    call(d, stream, function("scale_f32"), &[&arg(a), &arg(out), &half, &count]).unwrap();
    call(d, stream, function("spin"), &[&1000_u64.to_le_bytes()]).unwrap();
    call(d, stream, function("copy_u32"), &[&arg(b), &arg(a), &(COUNT - 1).to_le_bytes()]).unwrap();
    let size = 4 * COUNT as usize;
    assert!(floats(&read(d, out, size, stream)).into_iter().eq(values().map(|x| x + 2.0)));
    assert!(floats(&read(d, a, size, stream)).into_iter().eq(values().map(|x| (x + 2.0) / 2.0)));
    let copied = floats(&read(d, b, size, stream));
    assert!(copied[..size / 4 - 1].iter().copied().eq(values().take(size / 4 - 1).map(|x| (x + 2.0) / 2.0)));
    assert_eq!(copied.last(), Some(&2.0), "one less was copied");
    // One thread does it as well.
    let config = LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 1024 };
    // SAFETY: these are its parameters, and nothing else uses the memory.
    unsafe { d.launch_function(stream, function("fill_u32"), config, &[&arg(b), &two, &count]) }.unwrap();
    assert!(floats(&read(d, b, size, stream)).iter().all(|x| *x == 2.0));
    unload(d, module).unwrap();
    for ptr in [a, b, out] {
        free(d, ptr).unwrap();
    }
    d.stream_destroy(stream).unwrap();
}

/// Images, names, handles and sizes that are none.
pub(crate) fn r10_what_is_none_is_refused(d: &dyn Driver, image: &[u8]) {
    assert_eq!(status(d.module_load(d.device_count(), image)), Status::InvalidDevice);
    assert_eq!(status(d.module_load(0, b"no image at all\0")), Status::InvalidImage);
    let module = d.module_load(0, image).unwrap();
    let other = d.module_load(0, image).unwrap();
    assert_ne!(module, other, "a module is loaded anew each time");
    assert_eq!(status(d.module_function(module, "nothing_of_that_name")), Status::NotFound);
    let function = d.module_function(module, "spin").unwrap();
    let cycles = 1_u64.to_le_bytes();
    let launch = |on, function, grid, block| {
        // SAFETY: these are its parameters.
        unsafe { d.launch_function(on, function, LaunchConfig { grid, block, shared_bytes: 0 }, &[&cycles]) }
    };
    launch(S0, function, [1; 3], [1; 3]).unwrap();
    for (grid, block) in
        [([0, 1, 1], [1; 3]), ([1; 3], [1, 0, 1]), ([1; 3], [1025, 1, 1]), ([1; 3], [32, 32, 2])]
    {
        assert_eq!(status(launch(S0, function, grid, block)), Status::InvalidValue);
    }
    let nowhere = StreamHandle { raw: u64::MAX, ..S0 };
    assert_eq!(status(launch(nowhere, function, [1; 3], [1; 3])), Status::InvalidHandle);
    if d.device_count() > 1 {
        let there = StreamHandle::default_of(1);
        assert_eq!(status(launch(there, function, [1; 3], [1; 3])), Status::InvalidHandle);
    }
    d.stream_synchronize(S0).unwrap();
    unload(d, other).unwrap();
    launch(S0, function, [1; 3], [1; 3]).unwrap();
    d.stream_synchronize(S0).unwrap();
    unload(d, module).unwrap();
    assert_eq!(status(unload(d, module)), Status::InvalidHandle);
    assert_eq!(status(d.module_function(module, "spin")), Status::InvalidHandle);
    assert_eq!(status(launch(S0, function, [1; 3], [1; 3])), Status::InvalidHandle);
}

fn sim() -> (std::sync::Arc<SimDriver>, ModuleHandle) {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).race_detector().log_calls(100));
    let module = sim.module_load(0, HOST_KERNELS).unwrap();
    (sim, module)
}

#[test]
fn images_are_read_strictly() {
    let (sim, _) = sim();
    let load = |text: &str| sim.module_load(0, text.as_bytes()).map_err(|e| e.status);
    load("tensorplay host kernels 1\n").unwrap();
    load("tensorplay host kernels 1\r\nspin 8\r\n\0").unwrap();
    for text in [
        "",
        "tensorplay host kernels 2\n",
        "tensorplay host kernels 1\nnobody_registered_this 8\n",
        "tensorplay host kernels 1\nspin eight\n",
        "tensorplay host kernels 1\nspin -8\n",
        "tensorplay host kernels 1\nspin 0\n",
        "tensorplay host kernels 1\nspin 4097\n",
    ] {
        assert_eq!(load(text), Err(Status::InvalidImage), "{text:?}");
    }
    assert_eq!(status(sim.module_load(0, &[0xff; 64])), Status::InvalidImage);
}

#[test]
fn parameters_are_counted_and_measured() {
    let (sim, module) = sim();
    let fill = sim.module_function(module, "fill_u32").unwrap();
    assert_eq!(fill, sim.module_function(module, "fill_u32").unwrap(), "a name has one function");
    let ptr = sim.malloc(0, 64).unwrap();
    let (at, value, count) = (arg(ptr), [0; 4], 4_u64.to_le_bytes());
    let good: [&[u8]; 3] = [&at, &value, &count];
    for bad in [&good[..2], &[good[0], good[1], good[2], good[1]], &[good[0], good[2], good[1]]] {
        assert_eq!(status(call(&*sim, S0, fill, bad)), Status::InvalidValue);
    }
    assert_eq!(sim.pending(), 0);
    // An image that is not what the kernel takes.
    let wrong = sim.module_load(0, b"tensorplay host kernels 1\nfill_u32 8\n").unwrap();
    let wrong = sim.module_function(wrong, "fill_u32").unwrap();
    assert_eq!(status(call(&*sim, S0, wrong, &[&arg(ptr)])), Status::InvalidValue);
    call(&*sim, S0, fill, &good).unwrap();
    assert_eq!(sim.pending(), 1);
}

#[test]
fn a_functions_uses_are_looked_at() {
    let (sim, module) = sim();
    let other = sim.stream_create(0, 0).unwrap();
    let fill = sim.module_function(module, "fill_u32").unwrap();
    let ptr = sim.malloc(0, 64).unwrap();
    let launch = |on, count: u64| call(&*sim, on, fill, &[&arg(ptr), &[1; 4], &count.to_le_bytes()]).unwrap();
    launch(S0, 16);
    launch(other, 1);
    let races = sim.take_races();
    assert_eq!(races.len(), 1);
    assert_eq!((&races[0].kind, races[0].second.name), (&RaceKind::Unordered, "fill_u32"));
    launch(S0, 17);
    assert_eq!(sim.take_races()[0].kind, RaceKind::Foreign(AccessFault::NotLive));
    launch(S0, u64::MAX);
    sim.complete_all();
    let faults: Vec<_> = sim.take_faults().into_iter().map(|fault| (fault.name, fault.fault)).collect();
    assert_eq!(faults, [("fill_u32", AccessFault::NotLive), ("fill_u32", AccessFault::NotLive)]);
    assert_eq!(status(sim.stream_synchronize(S0)), Status::IllegalAddress);
}

#[test]
fn a_spin_takes_its_time() {
    let (sim, module) = sim();
    let spin = sim.module_function(module, "spin").unwrap();
    let before = sim.now_ns();
    call(&*sim, S0, spin, &[&5_000_000_u64.to_le_bytes()]).unwrap();
    sim.stream_synchronize(S0).unwrap();
    assert!(sim.now_ns() - before >= 5_000_000);
}

#[test]
fn programs_add_kernels() {
    fn one(_: &LaunchConfig, params: &KernelParams) -> (Vec<Access>, Vec<Access>) {
        (vec![], vec![Access { ptr: params.ptr(0), bytes: 4 }])
    }
    let kernel = HostKernel::new(one, |config, params, memory| {
        let threads = config.grid[0] * config.block[0];
        memory.write(0, 0, &(threads + params.u32(1)).to_le_bytes());
    });
    register_host_kernel("module_rules_threads", kernel);
    let (sim, _) = sim();
    let module = sim.module_load(0, b"tensorplay host kernels 1\nmodule_rules_threads 8 4\n").unwrap();
    let function = sim.module_function(module, "module_rules_threads").unwrap();
    let ptr = sim.malloc(0, 4).unwrap();
    call(&*sim, S0, function, &[&arg(ptr), &7_u32.to_le_bytes()]).unwrap();
    // What is under way has its kernel.
    unload(&*sim, module).unwrap();
    assert_eq!(read(&*sim, ptr, 4, S0), (4 * 128 + 7_u32).to_le_bytes());
}
