//! Datasets, loaders and idx files.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tensorplay::aten::random::Generator;
use tensorplay::data::{DataLoader, LoaderConfig, TensorDataset, idx};
use tensorplay::prelude::*;

use crate::modules::SEEDED;
use crate::recorded::{path, read};

fn counted(examples: i64) -> TensorDataset {
    TensorDataset::new(vec![Tensor::arange(examples, ScalarType::Int64).unwrap()]).unwrap()
}

fn batches(loader: &DataLoader) -> Vec<Vec<i64>> {
    loader.batches().unwrap().map(|batch| batch.unwrap()[0].to_vec::<i64>().unwrap()).collect()
}

#[test]
fn the_order_is_pytorchs() {
    let file = read("modules.json.gz");
    let loader =
        DataLoader::with(counted(11), 4, LoaderConfig { shuffle: true, ..Default::default() }).unwrap();
    let _seeded = SEEDED.lock().unwrap();
    tensorplay::manual_seed(1234);
    for wanted in file["loader"].as_array().unwrap() {
        let wanted: Vec<Vec<i64>> = serde_json::from_value(wanted.clone()).unwrap();
        assert_eq!(batches(&loader), wanted);
    }
}

#[test]
fn batches_cover_the_examples() {
    let loader = DataLoader::new(counted(7), 3).unwrap();
    assert_eq!(loader.len(), 3);
    assert_eq!(batches(&loader), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    let generator = Some(Generator::with_seed(3));
    let loader =
        DataLoader::with(counted(7), 3, LoaderConfig { shuffle: true, drop_last: true, generator }).unwrap();
    let (first, second) = (batches(&loader).concat(), batches(&loader).concat());
    assert_eq!((first.len(), second.len()), (6, 6));
    assert_ne!(first, second);
    let mut sorted = first.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 6);
    assert!(DataLoader::new(counted(0), 3).unwrap().is_empty());
    assert_eq!(DataLoader::new(counted(7), 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (a, b) = (Tensor::zeros(&[3], ScalarType::Float32), Tensor::zeros(&[4], ScalarType::Float32));
    assert_eq!(TensorDataset::new(vec![a.unwrap(), b.unwrap()]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(TensorDataset::new(vec![]).unwrap_err().kind(), ErrorKind::Shape);
    assert!(counted(5).slice(3, 4).is_err());
}

#[test]
fn the_digits_are_read() {
    let images = idx::open(&path("mnist10k-images-idx3-ubyte.gz")).unwrap();
    let labels = idx::open(&path("mnist10k-labels-idx1-ubyte.gz")).unwrap();
    assert_eq!((&*images.sizes(), images.dtype()), (&[10_000, 28, 28][..], ScalarType::UInt8));
    assert_eq!(*labels.sizes(), [10_000]);
    let labels = labels.to_vec::<u8>().unwrap();
    assert!((0..10).all(|digit| labels.iter().filter(|label| **label == digit).count() > 800));
}

#[test]
fn elements_of_every_type_are_read() {
    let file = |dtype: u8, elements: &[u8]| [&[0, 0, dtype, 1, 0, 0, 0, 2], elements].concat();
    let elements = |file: &[u8]| {
        let tensor = idx::read(file).unwrap();
        (tensor.dtype(), tensor.to(ScalarType::Float64).unwrap().to_vec::<f64>().unwrap())
    };
    assert_eq!(elements(&file(8, &[1, 255])), (ScalarType::UInt8, vec![1.0, 255.0]));
    assert_eq!(elements(&file(9, &[1, 255])), (ScalarType::Int8, vec![1.0, -1.0]));
    assert_eq!(elements(&file(11, &[1, 0, 255, 255])), (ScalarType::Int16, vec![256.0, -1.0]));
    assert_eq!(
        elements(&file(12, &[0, 0, 1, 0, 255, 255, 255, 254])),
        (ScalarType::Int32, vec![256.0, -2.0])
    );
    let floats = [1.5_f32.to_be_bytes(), (-2.0_f32).to_be_bytes()].concat();
    assert_eq!(elements(&file(13, &floats)), (ScalarType::Float32, vec![1.5, -2.0]));
    let floats = [1.5_f64.to_be_bytes(), (-2.0_f64).to_be_bytes()].concat();
    assert_eq!(elements(&file(14, &floats)), (ScalarType::Float64, vec![1.5, -2.0]));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&file(8, &[3, 4])).unwrap();
    assert_eq!(elements(&packed.finish().unwrap()), (ScalarType::UInt8, vec![3.0, 4.0]));
}

#[test]
fn a_file_that_is_none_is_refused() {
    let files: [&[u8]; 9] = [
        b"",
        b"\0\0\x08",
        b"\0\x01\x08\x01\0\0\0\x01\0",
        b"\0\0\x07\x01\0\0\0\x01\0",
        b"\0\0\x08\xff\0\0\0\x01\0",
        b"\0\0\x08\x01\0\0\0\x02\0",
        b"\0\0\x08\x01\0\0\0\x01\0\0",
        b"\0\0\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0",
        b"\x1f\x8bno gzip",
    ];
    for file in files {
        assert_eq!(idx::read(file).unwrap_err().kind(), ErrorKind::Parse, "{file:?}");
    }
    assert_eq!(idx::open(&path("nothing.gz")).unwrap_err().kind(), ErrorKind::Io);
}
