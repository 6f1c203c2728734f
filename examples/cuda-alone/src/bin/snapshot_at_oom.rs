//! A snapshot at out of memory, for whoever looks at it later: `tensorplay report FILE`, or
//! <https://docs.pytorch.org/memory_viz>.
//!
//! Give the file's name as the argument; `oom.pickle` in the system's folder for temporary files otherwise.

#![expect(clippy::print_stdout, reason = "an example answers on the terminal")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use c10_core::DataPtr;
use c10_cuda::alloc::{Context, ContextProvider, Contexts, Frame, History, RecordContext};
use c10_cuda::driver::Driver;
use c10_cuda::{CachingAllocator, Config};
use cuda_alone::{Result, run};

const MIB: u64 = 1 << 20;
/// What the program allows itself, however large the GPU is.
const BUDGET: u64 = 256 * MIB;

/// Where the program is: the name of what it computes.
#[derive(Debug, Default)]
struct Layer(Mutex<String>);

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    let path = arguments.rev().find(|argument| !argument.starts_with("--"));
    let path = path.map_or_else(|| std::env::temp_dir().join("oom.pickle"), PathBuf::from);
    run(|driver| example(driver, &path))
}

fn example(driver: Arc<dyn Driver>, path: &Path) -> Result {
    let cuda = CachingAllocator::new(driver, Config::default())?;
    let total = cuda.mem_get_info(0)?.total;
    cuda.set_memory_fraction(BUDGET as f64 / total as f64, 0)?;

    let layer = Arc::new(Layer::default());
    let contexts = Contexts { level: RecordContext::All, provider: Arc::clone(&layer) as Arc<_> };
    cuda.record_history(Some(History {
        contexts: Some(contexts),
        max_entries: 100_000,
        ..History::default()
    }));
    let written = dump_at_oom(&cuda, path);

    let refused = train(&cuda, &layer);
    println!("{}", refused.err().ok_or("the program was to run out of memory")?);
    written.finish()?;
    println!("wrote {}: look at it by `tensorplay report {0}`", path.display());
    Ok(())
}

/// A program that keeps what it should not: each step's activations stay.
fn train(cuda: &CachingAllocator, layer: &Layer) -> c10_cuda::Result<()> {
    let mut kept: Vec<DataPtr> = Vec::new();
    for step in 0.. {
        layer.enter("embedding");
        kept.push(cuda.allocate((4 + step % 3) * MIB)?);
        layer.enter("attention");
        let scores = cuda.allocate(24 * MIB)?;
        layer.enter("mlp");
        kept.push(cuda.allocate(9 * MIB)?);
        drop(scores);
    }
    Ok(())
}

/// The end of an allocator's dumps.
struct Dump {
    /// The allocator that the observer writes the snapshot of; nobody's after the end. An observer that held it
    /// itself would keep it for ever.
    of: Arc<Mutex<Option<CachingAllocator>>>,
    result: Arc<Mutex<Option<std::io::Result<()>>>>,
}

/// Writes a snapshot when a request is refused, before the program hears of it.
fn dump_at_oom(cuda: &CachingAllocator, path: &Path) -> Dump {
    let dump = Dump { of: Arc::new(Mutex::new(Some(cuda.clone()))), result: Arc::default() };
    let (of, result, path) = (Arc::clone(&dump.of), Arc::clone(&dump.result), path.to_owned());
    cuda.attach_out_of_memory_observer(Arc::new(move |_| {
        let cuda = of.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = cuda.map(|cuda| {
            let mut file = BufWriter::new(File::create(&path)?);
            cuda.snapshot(true).write_pickle(&mut file)?;
            file.flush()
        });
        *result.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }));
    dump
}

impl Dump {
    /// Writes no more, and says how the last went.
    fn finish(self) -> Result {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(result.ok_or("no snapshot was written")??)
    }
}

impl Layer {
    fn enter(&self, name: &str) {
        name.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ContextProvider for Layer {
    fn gather(&self) -> Option<Context> {
        let name = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let frame = |name: &str| Frame { filename: file!().into(), name: name.into(), line: line!() };
        Some(Context::new(vec![frame(&name), frame("train")]))
    }
}
