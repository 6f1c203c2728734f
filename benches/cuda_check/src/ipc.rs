#![expect(unsafe_code, reason = "opens another process's memory, which that keeps")]
//! Memory and events between two processes. The other process is this program again; it shares, since a process may
//! take file descriptors from those that it has started.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use c10_core::EventFlags;
use c10_cuda::driver::{IpcHandle, Status, real};
use c10_cuda::{CudaEvent, Error};
use clap::Args as ClapArgs;
use cuda_alone::{Floats, Gpu};

use crate::Result;
use crate::figure::print_fact;

const COUNT: usize = 1 << 20;

/// What the other process is told.
#[derive(Debug, ClapArgs)]
pub(crate) struct PeerArgs {
    #[arg(long, default_value = "")]
    settings: String,
}

/// Opens what the other process shares, of each kind of segment.
pub(crate) fn run() -> Result {
    for (kind, settings) in [("plain", ""), ("expandable", "expandable_segments:True")] {
        let said = match share(settings) {
            Ok(()) => "shared, written by both, closed".to_owned(),
            Err(error) if is_not_permitted(&*error) && !is_expected()? => {
                format!("not permitted between processes here: {error}")
            }
            Err(error) => return Err(format!("{kind} segments: {error}").into()),
        };
        print_fact(&format!("{kind} segments"), &said);
    }
    Ok(())
}

/// Whether the system, and not the driver, keeps the processes apart.
fn is_not_permitted(error: &(dyn std::error::Error + 'static)) -> bool {
    let status = error.downcast_ref::<Error>().and_then(Error::driver).map(|error| error.status);
    matches!(status, Some(Status::NotPermitted | Status::NotSupported))
}

/// Whether processes must be able to share here: over the stand-in, and where somebody says that there is CUDA.
fn is_expected() -> Result<bool> {
    let is_simulated = real::load()?.device_props(0)?.name.contains("Simulated device");
    Ok(is_simulated || std::env::var_os("TENSORPLAY_EXPECT_CUDA").is_some())
}

fn share(settings: &str) -> Result {
    let driver = real::load()?;
    let gpu = Gpu::new(&driver, settings)?;
    let stream = gpu.runtime().stream_from_pool(0, 0)?;
    let mut peer = Peer::start(settings)?;

    let event = driver.event_open(0, &IpcHandle(peer.bytes("event ")?.as_slice().try_into()?))?;
    let waited = driver.event_synchronize(event);
    driver.event_destroy(event)?;
    waited?;

    let offset = u64::from_le_bytes(peer.bytes("offset ")?.as_slice().try_into()?);
    let handle = peer.bytes("memory ")?;
    // SAFETY: the other process keeps the memory until it is told, and waits meanwhile.
    let memory = unsafe { gpu.cuda.open_ipc_handle(0, &handle) }?;
    // SAFETY: behind the handle there are so many numbers.
    let numbers = unsafe { Floats::from_block(memory.into_data_ptr(offset), COUNT) };
    if gpu.download(&numbers, stream)? != contents(1.0) {
        return Err("the memory does not hold what the other process has written".into());
    }
    gpu.upload(&numbers, &contents(2.0), stream)?;
    gpu.synchronize(stream)?;
    drop(numbers);
    peer.tell("written")?;
    peer.line("seen")?;
    peer.end()
}

/// The other process: shares numbers, waits until they have been overwritten, and looks at them.
pub(crate) fn run_peer(args: &PeerArgs) -> Result {
    let driver = real::load()?;
    let gpu = Gpu::new(&driver, &args.settings)?;
    let stream = gpu.runtime().stream_from_pool(0, 0)?;
    let numbers = gpu.floats(COUNT, stream)?;
    gpu.upload(&numbers, &contents(1.0), stream)?;
    let written = CudaEvent::new(gpu.runtime(), EventFlags { interprocess: true, ..EventFlags::default() })?;
    written.record(stream)?;
    let event = written.handle().ok_or("the event was recorded and is not there")?;
    let handle = driver.event_export(event)?;
    let shared = gpu.cuda.share_ipc_handle(numbers.block())?;
    println!("event {}", hex(&handle.0));
    println!("offset {}", hex(&shared.offset.to_le_bytes()));
    println!("memory {}", hex(&shared.handle));
    let told = std::io::stdin().lines().next().transpose()?;
    if told.as_deref() != Some("written") {
        return Err(format!("told {told:?}, and not that the memory was written").into());
    }
    if gpu.download(&numbers, stream)? != contents(2.0) {
        return Err("the memory does not hold what the first process has written".into());
    }
    println!("seen");
    Ok(())
}

fn contents(factor: f32) -> Vec<f32> {
    (0..COUNT).map(|i| i as f32 * factor).collect()
}

/// The other process, and what it prints.
struct Peer {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(settings: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("ipc-peer").arg(format!("--settings={settings}"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("the other process has no output")?;
        Ok(Self { process, lines: BufReader::new(output).lines() })
    }

    /// The rest of its next line, which begins as said.
    fn line(&mut self, start: &str) -> Result<String> {
        let line = self.lines.next().ok_or("the other process has ended")??;
        let rest = line.strip_prefix(start).ok_or_else(|| format!("the other process said: {line}"))?;
        Ok(rest.to_owned())
    }

    fn bytes(&mut self, start: &str) -> Result<Vec<u8>> {
        let line = self.line(start)?;
        let digits: Vec<char> = line.chars().collect();
        let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16));
        Ok(pairs.collect::<std::result::Result<_, _>>()?)
    }

    fn tell(&mut self, line: &str) -> Result {
        let input = self.process.stdin.as_mut().ok_or("the other process has no input")?;
        Ok(writeln!(input, "{line}")?)
    }

    fn end(mut self) -> Result {
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the other process ended with {status}").into()) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is only waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
