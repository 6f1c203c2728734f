//! What the tests of drivers share: the raw layer with its promises kept.
#![expect(
    unsafe_code,
    reason = "calls the raw layer; host ends of copies are leaked, so that they stay valid"
)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ptr::NonNull;

use c10_cuda::driver::{
    Access, CopyEnd, DevicePtr, Driver, KernelLaunch, KernelMemory, Result, StreamHandle, VaRange,
};

/// A mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

/// Frees memory that no work uses, or that the simulator may find used.
#[track_caller]
pub(crate) fn free<D: Driver + ?Sized>(driver: &D, ptr: DevicePtr) -> Result<()> {
    // SAFETY: tests free what nothing uses, or look for the simulator's report.
    unsafe { driver.free(ptr) }
}

/// As [`free`], for pinned memory of the host.
#[track_caller]
pub(crate) fn host_free<D: Driver + ?Sized>(driver: &D, ptr: NonNull<u8>) -> Result<()> {
    // SAFETY: as in `free`; the simulator's copies of it have run, or the driver goes before they do.
    unsafe { driver.host_free(ptr) }
}

/// As [`free`], in the order of a stream.
#[track_caller]
pub(crate) fn free_async<D: Driver + ?Sized>(driver: &D, ptr: DevicePtr, on: StreamHandle) -> Result<()> {
    // SAFETY: as in `free`.
    unsafe { driver.free_async(ptr, on) }
}

/// As [`free`], for a range of addresses.
#[track_caller]
pub(crate) fn free_range<D: Driver + ?Sized>(driver: &D, range: VaRange) -> Result<()> {
    // SAFETY: as in `free`.
    unsafe { driver.free_range(range) }
}

/// As [`free`], for mappings.
#[track_caller]
pub(crate) fn unmap<D: Driver + ?Sized>(driver: &D, at: DevicePtr, bytes: u64) -> Result<()> {
    // SAFETY: as in `free`.
    unsafe { driver.unmap(at, bytes) }
}

/// Issues a copy within or between devices.
#[track_caller]
pub(crate) fn copy<D: Driver + ?Sized>(
    driver: &D,
    dst: DevicePtr,
    src: DevicePtr,
    n: u64,
    on: StreamHandle,
) -> Result<()> {
    // SAFETY: tests order their work, and free what nothing uses, or look for the simulator's report.
    unsafe { driver.copy(CopyEnd::Device(dst), CopyEnd::Device(src), n, on) }
}

/// Issues a fill.
#[track_caller]
pub(crate) fn fill<D: Driver + ?Sized>(
    driver: &D,
    dst: DevicePtr,
    value: u8,
    n: u64,
    on: StreamHandle,
) -> Result<()> {
    // SAFETY: as in `copy`.
    unsafe { driver.fill(dst, value, n, on) }
}

/// Issues a copy from the host.
#[track_caller]
pub(crate) fn upload<D: Driver + ?Sized>(
    driver: &D,
    dst: DevicePtr,
    bytes: &[u8],
    on: StreamHandle,
) -> Result<()> {
    let host = bytes.to_vec().leak();
    // SAFETY: the host's bytes are leaked, and nothing else knows them.
    unsafe { driver.copy(CopyEnd::Device(dst), CopyEnd::Host(host.as_mut_ptr()), host.len() as u64, on) }
}

/// Bytes of the host that a copy writes when it runs.
pub(crate) struct Download {
    host: *mut u8,
    bytes: usize,
}

impl Download {
    /// Issues a copy to the host.
    pub(crate) fn issue(driver: &dyn Driver, src: DevicePtr, bytes: usize, on: StreamHandle) -> Result<Self> {
        let host = vec![0; bytes].leak().as_mut_ptr();
        // SAFETY: the host's bytes are leaked, and nobody reads them before the copy is complete.
        unsafe { driver.copy(CopyEnd::Host(host), CopyEnd::Device(src), bytes as u64, on) }?;
        Ok(Self { host, bytes })
    }

    /// What has arrived. The caller has seen that the copy is complete.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the bytes are leaked, initialised, and no copy is under way.
        unsafe { std::slice::from_raw_parts(self.host, self.bytes) }.to_vec()
    }
}

/// Copies to the host, waits for it, and gives the bytes.
pub(crate) fn read(driver: &dyn Driver, src: DevicePtr, bytes: usize, on: StreamHandle) -> Vec<u8> {
    let download = Download::issue(driver, src, bytes, on).unwrap();
    driver.stream_synchronize(on).unwrap();
    download.bytes()
}

/// A declared range.
pub(crate) fn range(ptr: DevicePtr, bytes: u64) -> Access {
    Access { ptr, bytes }
}

/// Issues a kernel.
#[track_caller]
pub(crate) fn launch<D: Driver + ?Sized>(
    driver: &D,
    on: StreamHandle,
    name: &'static str,
    reads: &[Access],
    writes: &[Access],
    body: impl FnMut(&mut dyn KernelMemory) + Send + 'static,
) -> Result<()> {
    let (reads, writes) = (reads.to_vec(), writes.to_vec());
    let kernel = KernelLaunch { name, reads, writes, body: Box::new(body) };
    // SAFETY: the body reaches memory only through its declared ranges; the rest as in `copy`.
    unsafe { driver.launch(on, kernel) }
}

/// Issues a copy between any two ends.
#[track_caller]
pub(crate) fn copy_ends<D: Driver + ?Sized>(
    driver: &D,
    dst: CopyEnd,
    src: CopyEnd,
    n: u64,
    on: StreamHandle,
) -> Result<()> {
    // SAFETY: tests give ends that are valid, or such as must be refused.
    unsafe { driver.copy(dst, src, n, on) }
}

/// Says that a test is skipped, past libtest, which keeps what tests print. One line is one test.
pub(crate) fn say_skipped(why: &str) {
    // Where nobody listens there is nobody to tell.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}
