//! Makes a leak on purpose and finds it: a loop that evaluates a model and adds up the losses, and so keeps alive how
//! each of them was computed.
//!
//! `cargo run --release -p tensorplay --features leak-tracking --example leak_hunt`. The list of live storages says how
//! many there are more from step to step, and where they were made; the dump of one says who holds it.

#![expect(clippy::print_stdout, reason = "a program: it prints what it finds")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use tensorplay::c10_core::storage::{MadeIn, StorageDump, capture_backtraces, live_storages};
use tensorplay::prelude::*;

/// Losses that are added up.
const STEPS: usize = 4;

fn main() -> Result<ExitCode> {
    println!("A loop that evaluates and adds up losses as tensors, `total = total + loss`:\n");
    let leaking = hunt(|total, loss| total + loss)?;
    println!("The same loop, with the losses detached from how they were computed:\n");
    let mended = hunt(|total, loss| total + loss.detach()?)?;
    let is_found = leaking > 0 && mended == 0;
    println!("{}", if is_found { "The leak was found, and is mended." } else { "The leak was not found." });
    Ok(if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Evaluates a model and looks at what stays alive; gives how many storages each step leaves behind.
fn hunt(add: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<usize> {
    tensorplay::manual_seed(0);
    let model =
        nn::Sequential::new().push(nn::Linear::new(64, 256)?).push(nn::Tanh).push(nn::Linear::new(256, 8)?);
    let (x, y) =
        (Tensor::randn(&[32, 64], ScalarType::Float32)?, Tensor::randn(&[32, 8], ScalarType::Float32)?);
    let mut total = Tensor::zeros(&[], ScalarType::Float32)?;
    let mut counts = Vec::new();
    for step in 1..=STEPS {
        // Where storages are made is noted in the last step alone, since it takes time.
        capture_backtraces(step == STEPS);
        let loss = model.forward(&x)?.mse_loss(&y)?;
        total = add(&total, &loss)?;
        drop(loss);
        capture_backtraces(false);
        let live = live_storages();
        let bytes: usize = live.iter().map(|storage| storage.nbytes).sum();
        println!("  after step {step}: {} live storages, {bytes} bytes", live.len());
        counts.push(live.len());
    }
    let grown = counts[STEPS - 1].saturating_sub(counts[STEPS - 2]);
    if grown > 0 {
        report();
    }
    println!();
    Ok(grown)
}

/// What the last step left behind: places, and the largest storage in full.
fn report() {
    // Those of the last step are those that have a backtrace, after the line of their place.
    let is_of_last_step =
        |storage: &StorageDump| storage.made_at.as_ref().is_some_and(|text| text.contains('\n'));
    let left: Vec<StorageDump> = live_storages().into_iter().filter(is_of_last_step).collect();
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for storage in &left {
        let (count, bytes) = places.entry(place(storage)).or_default();
        *count += 1;
        *bytes += storage.nbytes;
    }
    println!("\n  the last step left behind:");
    for (place, (count, bytes)) in places {
        println!("  {count:3} of {bytes:6} bytes together, made at {place}");
    }
    if let Some(largest) = left.iter().max_by_key(|storage| storage.nbytes) {
        let made_at = Some(place(largest));
        println!("\n  the largest:");
        for line in (StorageDump { made_at, ..largest.clone() }).to_string().lines() {
            println!("    {line}");
        }
    }
}

/// The place in this file that a backtrace goes through, in a build of any profile.
fn place(storage: &StorageDump) -> String {
    match storage.made_in(|path| path.ends_with("leak_hunt.rs")) {
        MadeIn::Place(path) => path.rsplit('/').next().unwrap_or_default().to_owned(),
        unknown => unknown.to_string(),
    }
}
