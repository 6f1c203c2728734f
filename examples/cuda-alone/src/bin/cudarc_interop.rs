//! The caching allocator under a program of cudarc's: its context, its streams and its launches, on our memory.

#![expect(unsafe_code, reason = "launches kernels, and lends cudarc a stream")]
#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::process::ExitCode;
use std::sync::Arc;

use c10_cuda::driver::Driver;
use c10_cuda::{CachingAllocator, Config};
use cuda_alone::{BorrowedStream, CachedSlice, HOST_IMAGE, PTX, Result, run};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

const COUNT: usize = 1 << 20;

fn main() -> ExitCode {
    run(|driver| {
        if driver.name() == "sim" {
            println!("skipped: cudarc knows no simulated device");
            return Ok(());
        }
        example(driver)
    })
}

fn example(driver: Arc<dyn Driver>) -> Result {
    // Both take the device's primary context: one address space.
    let context = CudaContext::new(0)?;
    let cuda = CachingAllocator::new(driver, Config::default())?;
    let module = load(&context)?;
    let scale = module.load_function("scale_f32")?;

    rounds(&cuda, &context, &scale)?;
    two_readers(&cuda, &context, &scale)?;
    our_stream(&cuda, &context, &scale)?;
    by_address(&cuda, &context)?;
    context.check_err()?;
    println!("every result is right");
    Ok(())
}

/// The kernels for a GPU, or where the driver is a simulated device's those of the host.
fn load(context: &Arc<CudaContext>) -> Result<Arc<CudaModule>> {
    let of_host = || context.load_module(Ptx::from_src(HOST_IMAGE));
    Ok(context.load_module(Ptx::from_src(PTX)).or_else(|refused| of_host().map_err(|_| refused))?)
}

/// Slices made and dropped in a loop. `CudaStream::alloc` would ask the driver each time.
fn rounds(cuda: &CachingAllocator, context: &Arc<CudaContext>, scale: &CudaFunction) -> Result {
    let stream = &BorrowedStream::new(cuda.runtime(), context.new_stream()?)?;
    for round in 0..100 {
        let mut numbers = CachedSlice::<f32>::zeros(cuda, stream, COUNT)?;
        let mut doubled = CachedSlice::<f32>::zeros(cuda, stream, COUNT)?;
        stream.memcpy_htod(&[round as f32; 8], &mut numbers.as_view_mut())?;
        launch(stream, scale, &mut doubled.as_view_mut(), &numbers.as_view(), 2.0)?;
        let found = stream.clone_dtoh(&doubled.as_view().slice(..9))?;
        stream.synchronize()?;
        let mut expected = [2.0 * round as f32; 9];
        expected[8] = 0.0;
        same(&found, &expected)?;
    }
    println!(
        "100 rounds of two slices: {} times asked of the driver",
        cuda.device_stats(0)?.num_device_alloc
    );
    Ok(())
}

/// Two streams read one slice at a time. cudarc's record keeps the last reader alone; the allocator knows both.
fn two_readers(cuda: &CachingAllocator, context: &Arc<CudaContext>, scale: &CudaFunction) -> Result {
    let stream = || BorrowedStream::new(cuda.runtime(), context.new_stream()?);
    let (main, left, right) = (stream()?, stream()?, stream()?);
    let mut numbers = CachedSlice::<f32>::zeros(cuda, &main, COUNT)?;
    main.memcpy_htod(&vec![3.0_f32; COUNT], &mut numbers.as_view_mut())?;
    let mut results = Vec::new();
    for (stream, factor) in [(&left, 2.0), (&right, 4.0)] {
        let mut result = CachedSlice::<f32>::zeros(cuda, stream, COUNT)?;
        launch(stream, scale, &mut result.as_view_mut(), &numbers.as_view(), factor)?;
        numbers.record_stream(cuda, stream)?;
        results.push((stream, result, 3.0 * factor));
    }
    drop(numbers);
    for (stream, result, expected) in results {
        let found = stream.clone_dtoh(&result.as_view())?;
        stream.synchronize()?;
        same(&found, &vec![expected; COUNT])?;
    }
    println!("two streams have read one slice, which was dropped meanwhile");
    Ok(())
}

/// A stream of the runtime's pool, lent to cudarc.
fn our_stream(cuda: &CachingAllocator, context: &Arc<CudaContext>, scale: &CudaFunction) -> Result {
    let runtime = cuda.runtime();
    let ours = runtime.handle(runtime.stream_from_pool(0, 0)?)?;
    let raw = std::ptr::without_provenance_mut(ours.raw as usize);
    // SAFETY: the stream is of the primary context, and lives as long as the runtime.
    let lent = BorrowedStream::new(runtime, unsafe { context.wrap_borrowed_stream(raw) })?;
    let mut numbers = CachedSlice::<f32>::zeros(cuda, &lent, COUNT)?;
    let mut result = CachedSlice::<f32>::zeros(cuda, &lent, COUNT)?;
    lent.memcpy_htod(&vec![5.0_f32; COUNT], &mut numbers.as_view_mut())?;
    launch(&lent, scale, &mut result.as_view_mut(), &numbers.as_view(), 0.5)?;
    let found = lent.clone_dtoh(&result.as_view())?;
    lent.synchronize()?;
    same(&found, &vec![2.5; COUNT])?;
    println!("cudarc has worked on a stream of ours");
    Ok(())
}

/// No slices: addresses, for code that has launches of its own.
fn by_address(cuda: &CachingAllocator, context: &Arc<CudaContext>) -> Result {
    use cudarc::driver::result;

    let stream = BorrowedStream::new(cuda.runtime(), context.new_stream()?)?;
    let block = cuda.allocate_on(4096, stream.stream())?;
    let address = block.as_ptr().addr() as u64;
    let (sent, mut received) = ([7_u8; 4096], [0_u8; 4096]);
    context.bind_to_thread()?;
    // SAFETY: the block has 4096 bytes, and both arrays are here until the stream has been waited for.
    unsafe { result::memcpy_htod_async(address, &sent, stream.cu_stream()) }?;
    // SAFETY: as above.
    unsafe { result::memcpy_dtoh_async(&mut received, address, stream.cu_stream()) }?;
    stream.synchronize()?;
    if sent != received {
        return Err("the bytes are not those that were sent".into());
    }
    Ok(())
}

/// `out = a * factor`, by cudarc's launch.
fn launch(
    stream: &CudaStream,
    scale: &CudaFunction,
    out: &mut CudaViewMut<'_, f32>,
    a: &CudaView<'_, f32>,
    factor: f32,
) -> Result {
    let count = COUNT as u64;
    let mut launch = stream.launch_builder(scale);
    launch.arg(out).arg(a).arg(&factor).arg(&count);
    // SAFETY: these are the function's parameters, and both arrays have `count` numbers.
    unsafe { launch.launch(LaunchConfig::for_num_elems(COUNT as u32)) }?;
    Ok(())
}

fn same(found: &[f32], expected: &[f32]) -> Result {
    let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = wrong {
        return Err(format!("number {at} is {}, and not {}", found[at], expected[at]).into());
    }
    if found.len() == expected.len() { Ok(()) } else { Err("fewer numbers than expected".into()) }
}
