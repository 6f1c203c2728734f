//! A small convolutional network that learns handwritten digits, and what memory it takes.
//!
//! `cargo run --release -p tensorplay --example mnist`, or with `-- --quick` for a first impression. The picture of
//! live bytes over time is written to `target/mnist-memory.svg`.

#![expect(clippy::print_stdout, reason = "it is a program that tells what it does")]

mod memory;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use memory::Memory;
use tensorplay::aten::tensor::{ArgmaxOptions, ConstantPadNdOptions};
use tensorplay::data::{DataLoader, LoaderConfig, TensorDataset, idx};
use tensorplay::nn::loss::{CrossEntropyLoss, Loss};
use tensorplay::optim::schedule::{OneCycleConfig, OneCycleLr};
use tensorplay::optim::{Adam, AdamOptions};
use tensorplay::prelude::*;

/// Digits that are not learnt, at the end of the file.
const TESTED: i64 = 2_000;
/// Digits that are learnt together.
const BATCH: i64 = 50;
/// By how many pixels a batch is moved at most, so that the network does not learn places by heart.
const MOVED: i64 = 2;

fn main() -> Result<ExitCode> {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (epochs, wanted) = if is_quick { (1, 0.90) } else { (10, 0.98) };
    let memory = Memory::watch();
    let started = Instant::now();
    tensorplay::manual_seed(0);
    let (train, test) = digits()?;
    let mut model = network()?;
    println!("{} parameters", model.parameters().iter().map(Tensor::numel).sum::<i64>());
    let accuracy = learn(&mut model, &train, &test, epochs)?;
    println!(
        "{:.2} % of {TESTED} unseen digits in {:.1} s\n",
        accuracy * 100.0,
        started.elapsed().as_secs_f64()
    );

    println!("{}", memory.summary());
    let picture = target().join("mnist-memory.svg");
    timeline::write(&picture, &memory.points())?;
    println!("live bytes over time: {}", picture.display());
    Ok(if accuracy >= wanted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Two convolutions, two linear layers.
fn network() -> Result<nn::Sequential> {
    Ok(nn::Sequential::new()
        .push(nn::Conv2d::new(1, 8, [5, 5])?)
        .push(nn::Relu)
        .push(nn::MaxPool2d::new([2, 2]))
        .push(nn::Conv2d::new(8, 24, [5, 5])?)
        .push(nn::BatchNorm2d::new(24)?)
        .push(nn::Relu)
        .push(nn::MaxPool2d::new([2, 2]))
        .push(nn::Flatten::default())
        .push(nn::Linear::new(384, 64)?)
        .push(nn::Relu)
        .push(nn::Dropout::new(0.3)?)
        .push(nn::Linear::new(64, 10)?))
}

/// The digits to learn, with a margin, and those to test on.
fn digits() -> Result<(TensorDataset, TensorDataset)> {
    let file = |name: &str| idx::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name));
    let images = file("mnist10k-images-idx3-ubyte.gz")?.to(ScalarType::Float32)?.unsqueeze(1)?;
    // To mean zero and deviation one, roughly.
    let images = ((images / 255.0)? - 0.1307)? / 0.3081;
    let all =
        TensorDataset::new(vec![images?, file("mnist10k-labels-idx1-ubyte.gz")?.to(ScalarType::Int64)?])?;
    let learnt = all.slice(0, all.examples() - TESTED)?;
    let [images, labels] = learnt.tensors() else {
        return Err(Error::shape("digits have images and labels"));
    };
    let background = images.select(0, 0)?.min()?.item()?;
    let options = ConstantPadNdOptions { value: background };
    let padded = images.constant_pad_nd_with(&[MOVED; 4], options)?;
    Ok((TensorDataset::new(vec![padded, labels.clone()])?, all.slice(all.examples() - TESTED, TESTED)?))
}

/// Learns for so many epochs; gives the share of test digits that are recognised at the end.
fn learn(
    model: &mut nn::Sequential,
    train: &TensorDataset,
    test: &TensorDataset,
    epochs: i64,
) -> Result<f64> {
    let loader =
        DataLoader::with(train.clone(), BATCH, LoaderConfig { shuffle: true, ..Default::default() })?;
    let mut optimizer = Adam::new(model.parameters(), AdamOptions::default())?;
    let steps = (epochs * loader.len()).unsigned_abs();
    let mut schedule = OneCycleLr::new(&mut optimizer, 1e-2, steps, OneCycleConfig::default())?;
    let loss = CrossEntropyLoss::default();
    let mut accuracy = 0.0;
    for epoch in 1..=epochs {
        let bar = progress(epoch, loader.len());
        model.train(true);
        let mut total = 0.0;
        for batch in loader.batches()? {
            let [images, labels] = &*batch? else {
                return Err(Error::shape("digits have images and labels"));
            };
            optimizer.zero_grad()?;
            let value = loss.forward(&model.forward(&moved(images)?)?, labels)?;
            value.backward()?;
            optimizer.step()?;
            schedule.step(&mut optimizer)?;
            total += value.item()?.to::<f64>()?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        accuracy = share_recognised(model, test)?;
        let mean = total / loader.len() as f64;
        println!("epoch {epoch:2}: loss {mean:.4}, {:.2} % of unseen digits", accuracy * 100.0);
    }
    Ok(accuracy)
}

fn progress(epoch: i64, batches: i64) -> ProgressBar {
    let bar = ProgressBar::new(batches.unsigned_abs()).with_message(format!("epoch {epoch}"));
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}, {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// A window of the padded images, the same for the batch.
fn moved(images: &Tensor) -> Result<Tensor> {
    let offset = Tensor::randint(2 * MOVED + 1, &[2], ScalarType::Int64)?.to_vec::<i64>()?;
    images.narrow(2, offset[0], 28)?.narrow(3, offset[1], 28)
}

fn share_recognised(model: &mut nn::Sequential, test: &TensorDataset) -> Result<f64> {
    model.eval();
    let [images, labels] = test.tensors() else { return Err(Error::shape("digits have images and labels")) };
    no_grad(|| {
        let options = ArgmaxOptions { dim: Some(1), ..Default::default() };
        let found = model.forward(images)?.argmax_with(options)?;
        let right = found.eq(labels)?.sum()?.item()?.to::<f64>()?;
        Ok(right / test.examples() as f64)
    })
}

/// The workspace's folder for what is built.
fn target() -> PathBuf {
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        return target.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    workspace.join("target")
}
