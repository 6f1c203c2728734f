#![cfg_attr(feature = "mapped", expect(unsafe_code, reason = "maps a file"))]
//! Files in the safetensors format.

use std::collections::BTreeMap;

use aten::io::safetensors::{self, SafeTensors};
use aten::{ErrorKind, Result, Tensor};
use c10_core::{Complex, F8E4M3Fn, F8E5M2, ScalarType, Storage, bf16, f16};
use proptest::prelude::*;

/// Written by the format's own library.
const REFERENCE: &[u8] = include_bytes!("../../testdata/io/reference.safetensors");

fn write(tensors: &[(&str, &Tensor)]) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    safetensors::write(&mut file, tensors.iter().copied(), &BTreeMap::new())?;
    Ok(file)
}

/// A file with this header and so many zeros behind it.
fn file(header: &str, buffer: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + buffer, 0);
    file
}

#[test]
fn a_file_of_another_writer_is_read() {
    let read = SafeTensors::from_bytes(REFERENCE).unwrap();
    let vec = |name: &str| read.tensor(name).unwrap();
    assert_eq!(read.metadata(), &BTreeMap::from([("format".to_owned(), "pt".to_owned())]));
    assert_eq!(read.iter().len(), 18);
    assert_eq!(*vec("b.f32").sizes(), [2, 3]);
    assert_eq!(vec("b.f32").to_vec::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert_eq!(vec("a.f32").rank(), 0);
    assert_eq!(vec("a.f32").to_vec::<f32>().unwrap(), [1.5]);
    assert_eq!(vec("odd").to_vec::<u8>().unwrap(), [1, 2, 3]);
    assert_eq!(vec("i64").to_vec::<i64>().unwrap(), [-1, 1 << 40]);
    assert_eq!(vec("f64").to_vec::<f64>().unwrap(), [0.1]);
    assert_eq!(vec("half").to_vec::<f16>().unwrap(), [f16::from_f32(1.5), f16::from_f32(-2.0)]);
    assert_eq!(vec("bf16").to_vec::<bf16>().unwrap()[2], bf16::from_f32(3.0));
    assert_eq!(vec("bool").to_vec::<bool>().unwrap(), [true, false, true]);
    assert_eq!(*vec("empty").sizes(), [0, 4]);
    assert_eq!(vec("i8").to_vec::<i8>().unwrap(), [-128]);
    assert_eq!(vec("i32").to_vec::<i32>().unwrap(), [-7]);
    assert_eq!(vec("u16").to_vec::<u16>().unwrap(), [u16::MAX]);
    assert_eq!(vec("u32").to_vec::<u32>().unwrap(), [u32::MAX]);
    assert_eq!(vec("u64").to_vec::<u64>().unwrap(), [5]);
    assert_eq!(vec("c64").to_vec::<Complex<f32>>().unwrap(), [Complex::new(1.0, 2.0)]);
    assert_eq!(vec("f8a").dtype(), ScalarType::Float8E4M3Fn);
    assert_eq!(vec("f8b").dtype(), ScalarType::Float8E5M2);
    assert_eq!(vec("näme \"q\"").to_vec::<i64>().unwrap(), [7]);
    assert!(read.tensor("c").is_none());
}

#[test]
fn what_is_written_is_what_the_other_writer_writes() {
    let read = SafeTensors::from_bytes(REFERENCE).unwrap();
    let mut file = Vec::new();
    safetensors::write(&mut file, read.iter(), read.metadata()).unwrap();
    assert_eq!(file.escape_ascii().to_string(), REFERENCE.escape_ascii().to_string());
}

#[test]
fn tensors_borrow_a_storage_where_they_are_aligned_in_it() {
    let storage = Storage::new(
        REFERENCE.len(),
        c10_core::allocator::get_allocator(c10_core::DeviceType::Cpu).unwrap().clone(),
    )
    .unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(REFERENCE);
    let borrowed = SafeTensors::from_storage(&storage).unwrap();
    let copied = SafeTensors::from_bytes(REFERENCE).unwrap();
    for ((name, tensor), (_, copy)) in borrowed.iter().zip(copied.iter()) {
        assert_eq!(tensor.sizes(), copy.sizes(), "{name}");
        assert_eq!(
            tensor.storage().is_same(&storage),
            tensor.numel() > 0 || tensor.storage().is_same(&storage),
            "{name}"
        );
        assert!(!copy.storage().is_same(&storage));
    }
    let view = borrowed.tensor("b.f32").unwrap();
    assert!(view.storage().is_same(&storage));
    assert_eq!(view.to_vec::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    // The write is seen through the tensor.
    let place = view.storage_offset() as usize * 4;
    storage.write().unwrap().bytes_mut().unwrap()[place..place + 4].copy_from_slice(&9.5_f32.to_ne_bytes());
    assert_eq!(view.to_vec::<f32>().unwrap()[0], 9.5);
}

#[test]
fn misaligned_tensors_have_memory_of_their_own() {
    // A byte stands before the floats.
    let header = r#"{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}"#;
    let mut bytes = file(&format!("{header:<width$}", width = header.len().next_multiple_of(8)), 0);
    bytes.push(3);
    bytes.extend([1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    let storage = Storage::from_bytes(bytes.into()).unwrap();
    let read = SafeTensors::from_storage(&storage).unwrap();
    assert!(read.tensor("b").unwrap().storage().is_same(&storage));
    assert!(!read.tensor("f").unwrap().storage().is_same(&storage));
    assert_eq!(read.tensor("f").unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
}

#[test]
fn corrupted_headers_are_refused_by_kind() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let f32_of = |shape: &str, offsets: &str| entry("F32", shape, offsets);
    let huge = "9".repeat(19);
    let cases: Vec<(Vec<u8>, ErrorKind)> = vec![
        (b"".to_vec(), ErrorKind::Parse),
        (vec![0; 7], ErrorKind::Parse),
        (vec![0; 8], ErrorKind::Parse),
        (u64::MAX.to_le_bytes().to_vec(), ErrorKind::Parse),
        (100_000_001_u64.to_le_bytes().to_vec(), ErrorKind::Parse),
        (99_u64.to_le_bytes().to_vec(), ErrorKind::Parse),
        (file(" {}", 0), ErrorKind::Parse),
        (file("[]", 0), ErrorKind::Parse),
        (file("{", 0), ErrorKind::Parse),
        (file("{} x", 0), ErrorKind::Parse),
        (file("{}", 1), ErrorKind::Parse),
        (file(r#"{"t":3}"#, 0), ErrorKind::Parse),
        (file(r#"{"t":{}}"#, 0), ErrorKind::Parse),
        (file(r#"{"t":{"dtype":"F32","shape":[],"data_offsets":[0,4],"dtype":"F32"}}"#, 4), ErrorKind::Parse),
        (file(r#"{"__metadata__":{"a":1}}"#, 0), ErrorKind::Parse),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), ErrorKind::Parse),
        (file(&f32_of("[1]", "[0,4]"), 3), ErrorKind::Parse),
        (file(&f32_of("[1]", "[0,4]"), 5), ErrorKind::Parse),
        (file(&f32_of("[1]", "[1,5]"), 5), ErrorKind::Parse),
        (file(&f32_of("[2]", "[0,4]"), 4), ErrorKind::Parse),
        (file(&f32_of("[1]", "[4,0]"), 4), ErrorKind::Parse),
        (file(&f32_of("[1]", "[0,4,4]"), 4), ErrorKind::Parse),
        (file(&f32_of("[-1]", "[0,4]"), 4), ErrorKind::Parse),
        (file(&f32_of("[1.0]", "[0,4]"), 4), ErrorKind::Parse),
        (file(&f32_of("[01]", "[0,4]"), 4), ErrorKind::Parse),
        (file(&f32_of("1", "[0,4]"), 4), ErrorKind::Parse),
        (file(&entry("F4", "[2]", "[0,1]"), 1), ErrorKind::Dtype),
        (file(&entry("f32", "[1]", "[0,4]"), 4), ErrorKind::Dtype),
        (file(&f32_of(&format!("[{huge}]"), "[0,4]"), 4), ErrorKind::Overflow),
        (file(&f32_of("[4294967296,4294967296]", "[0,4]"), 4), ErrorKind::Overflow),
        (file(&f32_of("[18446744073709551615]", "[0,4]"), 4), ErrorKind::Overflow),
        (file(&f32_of(&format!("[{huge}9]"), "[0,4]"), 4), ErrorKind::Parse),
        (file("{\"\\ud800\":{}}", 0), ErrorKind::Parse),
        (file("{\"a\nb\":{}}", 0), ErrorKind::Parse),
        (file(&format!(r#"{{"t":{{"x":{}}}}}"#, "[".repeat(100_000)), 0), ErrorKind::Parse),
        ([8_u64.to_le_bytes().as_slice(), b"{\"\xff\":1}"].concat(), ErrorKind::Parse),
    ];
    for (file, kind) in cases {
        let error = SafeTensors::from_bytes(&file).unwrap_err();
        assert_eq!(error.kind(), kind, "{}: {error}", file.escape_ascii());
        // The two ways to read agree.
        let storage = Storage::from_bytes(file.into()).unwrap();
        assert_eq!(SafeTensors::from_storage(&storage).unwrap_err().kind(), kind);
    }
}

#[test]
fn overlaps_gaps_and_doubled_names_are_refused() {
    let two = |first: (&str, &str), second: (&str, &str)| {
        let entry = |(name, offsets): (&str, &str)| {
            format!(r#""{name}":{{"dtype":"U8","shape":[2],"data_offsets":{offsets}}}"#)
        };
        SafeTensors::from_bytes(&file(&format!("{{{},{}}}", entry(first), entry(second)), 4))
    };
    assert!(two(("a", "[0,2]"), ("b", "[2,4]")).is_ok());
    assert!(two(("a", "[2,4]"), ("b", "[0,2]")).is_ok());
    for (first, second) in [
        (("a", "[0,2]"), ("a", "[2,4]")),
        (("a", "[0,2]"), ("b", "[0,2]")),
        (("a", "[0,2]"), ("b", "[1,3]")),
        (("a", "[1,3]"), ("b", "[3,5]")),
    ] {
        assert_eq!(two(first, second).unwrap_err().kind(), ErrorKind::Parse, "{first:?} {second:?}");
    }
}

#[test]
fn unknown_keys_and_escapes_are_read() {
    let header = r#"{"\u00e4\ud83d\ude00\/\n":{"shape":[1],"more":{"a":[1,-2.5e3,true,null,"x"]},"dtype":"U8","data_offsets":[0,1]}}"#;
    let read = SafeTensors::from_bytes(&file(header, 1)).unwrap();
    assert_eq!(read.iter().next().unwrap().0, "ä😀/\n");
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is() {
    let ones = Tensor::from_elements(&[1.0_f32]).unwrap();
    let complex = Tensor::from_elements(&[Complex::new(1.0_f64, 0.0)]).unwrap();
    let kind = |tensors: &[(&str, &Tensor)]| {
        let mut out = Vec::new();
        let error = safetensors::write(&mut out, tensors.iter().copied(), &BTreeMap::new()).unwrap_err();
        assert!(out.is_empty());
        error.kind()
    };
    assert_eq!(kind(&[("a", &ones), ("a", &ones)]), ErrorKind::InvalidArgument);
    assert_eq!(kind(&[("__metadata__", &ones)]), ErrorKind::InvalidArgument);
    assert_eq!(kind(&[("a", &ones), ("b", &complex)]), ErrorKind::Dtype);
}

#[test]
fn a_writer_that_fails_is_an_error_with_its_source() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let ones = Tensor::from_elements(&[1.0_f32]).unwrap();
    let error = safetensors::write(&mut Full, [("a", &ones)], &BTreeMap::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn strided_tensors_are_written_in_row_major_order() {
    let values: Vec<i32> = (0..24).collect();
    let base = Tensor::from_slice(&values, &[24]).unwrap();
    let storage = base.storage();
    for (sizes, strides, offset) in [
        (vec![4, 3], vec![1, 4], 2),
        (vec![2, 3, 2], vec![12, 2, 1], 0),
        (vec![3, 1, 4], vec![0, 7, 1], 5),
        (vec![2, 2], vec![0, 0], 23),
        (vec![], vec![], 9),
        (vec![0, 3], vec![3, 1], 0),
        (vec![5], vec![3], 1),
    ] {
        let view =
            Tensor::from_storage(storage.clone(), ScalarType::Int32, &sizes, &strides, offset).unwrap();
        let read = SafeTensors::from_bytes(&write(&[("t", &view)]).unwrap()).unwrap();
        let read = read.tensor("t").unwrap();
        assert_eq!(*read.sizes(), *sizes);
        assert!(read.is_contiguous());
        assert_eq!(read.to_vec::<i32>().unwrap(), view.to_vec::<i32>().unwrap(), "{sizes:?} {strides:?}");
    }
}

proptest! {
    #[test]
    fn files_come_back_as_they_were(
        tensors in prop::collection::btree_map(".{0,6}", (prop::collection::vec(0_i64..4, 0..4), 0_usize..4), 0..6),
        metadata in prop::collection::btree_map(".{0,4}", ".{0,4}", 0..3),
    ) {
        prop_assume!(!tensors.contains_key("__metadata__"));
        let made: Vec<(String, Tensor)> = tensors
            .iter()
            .map(|(name, (sizes, kind))| {
                let numel = sizes.iter().product::<i64>() as usize;
                let values: Vec<i32> = (0..numel as i32).collect();
                let tensor = match kind {
                    0 => Tensor::from_slice(&values, sizes),
                    1 => Tensor::from_slice(&values.iter().map(|v| *v as u8).collect::<Vec<_>>(), sizes),
                    2 => Tensor::from_slice(&values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), sizes),
                    _ => Tensor::from_slice(&values.iter().map(|v| v % 2 == 0).collect::<Vec<_>>(), sizes),
                };
                (name.clone(), tensor.unwrap())
            })
            .collect();
        let mut file = Vec::new();
        safetensors::write(&mut file, made.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata).unwrap();
        let read = SafeTensors::from_bytes(&file).unwrap();
        prop_assert_eq!(read.metadata(), &metadata);
        prop_assert_eq!(read.iter().len(), made.len());
        for (name, tensor) in &made {
            let again = read.tensor(name).unwrap();
            prop_assert_eq!(again.dtype(), tensor.dtype());
            prop_assert_eq!(again.sizes(), tensor.sizes());
            let (a, b) = (again.storage(), tensor.storage());
            let bytes = tensor.numel() as usize * tensor.dtype().element_size();
            let (a, b) = (a.read().unwrap().bytes().unwrap()[..bytes].to_vec(), b.read().unwrap().bytes().unwrap()[..bytes].to_vec());
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn damaged_files_are_read_or_refused(at in 0..REFERENCE.len(), byte in any::<u8>(), end in 0..=REFERENCE.len()) {
        let mut file = REFERENCE.to_vec();
        file[at] = byte;
        file.truncate(end.max(at));
        if let Ok(read) = SafeTensors::from_bytes(&file) {
            prop_assert!(read.iter().all(|(_, tensor)| tensor.numel() <= REFERENCE.len() as i64));
        }
    }

    #[test]
    fn any_header_is_read_or_refused(header in r#"[\[\]{}":,0-9a-z\\ ]{0,40}"#, buffer in 0_usize..20) {
        let _ = SafeTensors::from_bytes(&file(&header, buffer));
    }
}

#[test]
fn eight_bit_floats_come_back() {
    let a = Tensor::from_elements(&[F8E4M3Fn::from_f32(0.5), F8E4M3Fn::from_f32(-448.0)]);
    let b = Tensor::from_elements(&[F8E5M2::from_f32(0.5)]);
    let (Ok(a), Ok(b)) = (a, b) else { panic!("tensors of eight-bit floats are made") };
    let file = write(&[("a", &a), ("b", &b)]).unwrap();
    let read = SafeTensors::from_bytes(&file).unwrap();
    assert_eq!(read.tensor("a").unwrap().dtype(), ScalarType::Float8E4M3Fn);
    let storage = read.tensor("a").unwrap().storage();
    assert_eq!(storage.read().unwrap().bytes().unwrap()[..2], [0x30, 0xfe]);
}

#[cfg(feature = "mapped")]
#[test]
fn files_on_disk_are_read_and_mapped() {
    use c10_core::allocator::{ConfinedRoot, MapMode};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    std::fs::write(&path, REFERENCE).unwrap();
    let root = ConfinedRoot::open(folder.path()).unwrap();
    let name = "weights.safetensors";
    // SAFETY: nobody else knows the folder, and each mapping is gone before the file is written.
    let map = |mode| unsafe { SafeTensors::map(&root, name, mode) }.unwrap();

    for file in [SafeTensors::open(&root, name).unwrap(), map(MapMode::ReadOnly), map(MapMode::Private)] {
        assert_eq!(file.tensor("f64").unwrap().to_vec::<f64>().unwrap(), [0.1]);
        let storage = file.tensor("i64").unwrap().storage();
        assert!(file.iter().all(|(_, tensor)| tensor.storage().is_same(&storage)));
    }
    let read_only = map(MapMode::ReadOnly).tensor("i8").unwrap().storage();
    assert_eq!(read_only.write().unwrap_err().kind(), c10_core::ErrorKind::ReadOnly);
    // A private mapping is written in memory alone.
    let private = map(MapMode::Private).tensor("i8").unwrap().storage();
    private.write().unwrap().bytes_mut().unwrap().fill(0);
    drop(private);
    assert_eq!(std::fs::read(&path).unwrap(), REFERENCE);

    std::fs::write(&path, &REFERENCE[..40]).unwrap();
    assert_eq!(SafeTensors::open(&root, name).unwrap_err().kind(), ErrorKind::Parse);
    assert!(SafeTensors::open(&root, "../weights.safetensors").is_err());
    assert!(SafeTensors::open(&root, "absent").is_err());
}
