//! Files in NumPy's npy format.

use std::io::Read;
use std::process::{Command, Stdio};

use aten::io::npy;
use aten::{ErrorKind, Tensor};
use c10_core::{Complex, Element, ScalarType, bf16, f16};
use proptest::prelude::*;

/// A file as NumPy writes it: the header padded to 128 bytes with what stands before it.
fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    with_header(&format!("{header:<117}\n"), data)
}

fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", (header.len() as u16).to_le_bytes().as_slice(), header.as_bytes(), data].concat()
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut file = Vec::new();
    npy::write(&mut file, tensor).unwrap();
    file
}

#[test]
fn files_of_numpy_are_read_and_written_byte_for_byte() {
    // `numpy.save` of NumPy 2.4.
    let floats = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                                                          \n\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@";
    let tensor = npy::from_bytes(floats).unwrap();
    assert_eq!(*tensor.sizes(), [2, 3]);
    assert_eq!(tensor.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(written(&tensor), floats);

    let number = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (), }                                                              \n\x00\x00\x00\x00\x00\x00\x04@";
    let tensor = npy::from_bytes(number).unwrap();
    assert_eq!(tensor.rank(), 0);
    assert_eq!(tensor.to_vec::<f64>().unwrap(), [2.5]);
    assert_eq!(written(&tensor), number);

    let bools = b"\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (0, 3), }                                                          \n";
    let tensor = npy::from_bytes(bools).unwrap();
    assert_eq!((tensor.dtype(), &*tensor.sizes()), (ScalarType::Bool, &[0, 3][..]));
    assert_eq!(written(&tensor), bools);
}

#[test]
fn big_endian_arrays_and_those_in_fortran_order_are_read() {
    let shorts = b"\x93NUMPY\x01\x00v\x00{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }                                                           \n\x00\x00\x00\x03\x00\x01\x00\x04\x00\x02\x00\x05";
    let tensor = npy::from_bytes(shorts).unwrap();
    assert_eq!((&*tensor.sizes(), &*tensor.strides()), (&[2, 3][..], &[1, 2][..]));
    assert_eq!(tensor.to_vec::<i16>().unwrap(), [0, 1, 2, 3, 4, 5]);

    let complex = b"\x93NUMPY\x01\x00v\x00{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }                                                            \n?\x80\x00\x00@\x00\x00\x00";
    let tensor = npy::from_bytes(complex).unwrap();
    assert_eq!(tensor.to_vec::<Complex<f32>>().unwrap(), [Complex::new(1.0, 2.0)]);
}

#[test]
fn every_type_of_numpy_comes_back() {
    fn check<T: Element>(descr: &str, elements: &[T]) {
        let tensor = Tensor::from_slice(elements, &[elements.len() as i64]).unwrap();
        let file = written(&tensor);
        assert!(file.escape_ascii().to_string().contains(descr), "{descr}");
        let again = npy::from_bytes(&file).unwrap();
        assert_eq!(again.to_vec::<T>().unwrap(), elements);
    }
    check("|b1", &[true, false]);
    check("|i1", &[i8::MIN]);
    check("|u1", &[u8::MAX]);
    check("<i2", &[i16::MIN]);
    check("<u2", &[u16::MAX]);
    check("<i4", &[i32::MIN]);
    check("<u4", &[u32::MAX]);
    check("<i8", &[i64::MIN]);
    check("<u8", &[u64::MAX]);
    check("<f2", &[f16::from_f32(-1.5)]);
    check("<f4", &[f32::MIN_POSITIVE]);
    check("<f8", &[0.1]);
    check("<c8", &[Complex::new(1.0_f32, -0.5)]);
    check("<c16", &[Complex::new(1.0_f64, -0.5)]);
}

#[test]
fn headers_of_other_writers_are_read() {
    let data = [1, 2];
    for header in [
        "{'descr':'|u1','fortran_order':False,'shape':(2,)}",
        "{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"u1\"}",
        "  {  'descr' : '=u1' , 'fortran_order' : True , 'shape' : ( 2 , ) , }  \n",
        "{'descr': '>u1', 'fortran_order': False, 'shape': (2,), }",
    ] {
        let tensor = npy::from_bytes(&with_header(header, &data)).unwrap();
        assert_eq!(tensor.to_vec::<u8>().unwrap(), data, "{header}");
    }
    // Version 2 has four bytes for the length, version 3 also has UTF-8.
    for version in [2, 3] {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n";
        let length = (header.len() as u32).to_le_bytes();
        let file = [b"\x93NUMPY".as_slice(), &[version, 0], &length, header.as_bytes(), &data].concat();
        assert_eq!(npy::from_bytes(&file).unwrap().to_vec::<u8>().unwrap(), data);
    }
}

#[test]
fn what_stands_behind_an_array_is_left() {
    let two = [file("|u1", "False", "(1,)", &[7]), file("|u1", "False", "(1,)", &[8])].concat();
    let mut rest = two.as_slice();
    assert_eq!(npy::read(&mut rest).unwrap().to_vec::<u8>().unwrap(), [7]);
    assert_eq!(npy::read(&mut rest).unwrap().to_vec::<u8>().unwrap(), [8]);
    assert_eq!(rest.bytes().count(), 0);
}

#[test]
fn files_that_are_no_use_are_refused_by_kind() {
    let u1 = |shape: &str| file("|u1", "False", shape, &[0; 4]);
    let cases: Vec<(Vec<u8>, ErrorKind)> = vec![
        (b"".to_vec(), ErrorKind::Parse),
        (b"\x93NUMPY\x01".to_vec(), ErrorKind::Parse),
        (b"\x93NUMPZ\x01\x00v\x00".to_vec(), ErrorKind::Parse),
        (b"\x93NUMPY\x04\x00v\x00\0\0".to_vec(), ErrorKind::Parse),
        (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), ErrorKind::Parse),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(), ErrorKind::Parse),
        (with_header("{'descr': '|u1', 'shape': (1,)}", &[0]), ErrorKind::Parse),
        (
            with_header("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", &[0]),
            ErrorKind::Parse,
        ),
        (with_header("{'descr': '|u1', 'fortran_order': 0, 'shape': (1,)}", &[0]), ErrorKind::Parse),
        (with_header("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} x", &[0]), ErrorKind::Parse),
        (
            with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", &[0]),
            ErrorKind::Parse,
        ),
        (with_header("{'other': 'x'}", &[]), ErrorKind::Parse),
        (with_header("{'descr", &[]), ErrorKind::Parse),
        (with_header("{\u{e4}", &[]), ErrorKind::Parse),
        (file("|O", "False", "(1,)", &[0]), ErrorKind::Dtype),
        (file("<V2", "False", "(1,)", &[0, 0]), ErrorKind::Dtype),
        (file("<f16", "False", "(1,)", &[0; 16]), ErrorKind::Dtype),
        (file("", "False", "(1,)", &[0]), ErrorKind::Dtype),
        (file("\u{e4}1", "False", "(1,)", &[0]), ErrorKind::Dtype),
        (u1("(5,)"), ErrorKind::Parse),
        (u1("(-1,)"), ErrorKind::Parse),
        (u1("(1.0,)"), ErrorKind::Parse),
        (u1("4"), ErrorKind::Parse),
        (u1("(4"), ErrorKind::Parse),
        (u1("(99999999999999999999,)"), ErrorKind::Parse),
        (u1("(9223372036854775807, 9223372036854775807)"), ErrorKind::Overflow),
        (file("<f8", "False", "(2305843009213693952,)", &[]), ErrorKind::Overflow),
        // As many bytes as memory can have, of which none are there: none are asked for.
        (u1("(9223372036854775807,)"), ErrorKind::Parse),
    ];
    for (file, kind) in cases {
        let error = npy::from_bytes(&file).unwrap_err();
        assert_eq!(error.kind(), kind, "{}: {error}", file.escape_ascii());
    }
}

#[test]
fn what_numpy_lacks_is_not_written() {
    for tensor in
        [Tensor::from_elements(&[bf16::ONE]), Tensor::from_elements(&[Complex::new(f16::ONE, f16::ONE)])]
    {
        let mut out = Vec::new();
        assert_eq!(npy::write(&mut out, &tensor.unwrap()).unwrap_err().kind(), ErrorKind::Dtype);
        assert!(out.is_empty());
    }
}

proptest! {
    #[test]
    fn arrays_come_back(sizes in prop::collection::vec(0_i64..5, 0..5), fortran in any::<bool>()) {
        let numel = sizes.iter().product::<i64>();
        let base = Tensor::from_slice(&(0..numel as i32).collect::<Vec<_>>(), &[numel]).unwrap();
        let mut strides = vec![1; sizes.len()];
        for dim in 1..sizes.len() {
            strides[dim] = strides[dim - 1] * sizes[dim - 1].max(1);
        }
        if !fortran {
            strides.iter_mut().for_each(|stride| *stride = 0);
        }
        let tensor = Tensor::from_storage(base.storage(), ScalarType::Int32, &sizes, &strides, 0).unwrap();
        let again = npy::from_bytes(&written(&tensor)).unwrap();
        prop_assert_eq!(again.sizes(), tensor.sizes());
        prop_assert_eq!(again.to_vec::<i32>().unwrap(), tensor.to_vec::<i32>().unwrap());
    }

    #[test]
    fn damaged_files_are_read_or_refused(at in 0_usize..134, byte in any::<u8>(), end in 0_usize..135) {
        let mut file = file("<i2", "True", "(3,)", &[1, 2, 3, 4, 5, 6]);
        file[at] = byte;
        file.truncate(end.max(at));
        let _ = npy::from_bytes(&file);
    }

    #[test]
    fn any_header_is_read_or_refused(header in r#"[{}()':,L0-9a-zTF<>| \\]{0,40}"#) {
        let _ = npy::from_bytes(&with_header(&header, &[0; 8]));
    }
}

/// Runs a script with a file's name; `None` where there is no Python with NumPy.
fn python(script: &str, file: &std::path::Path) -> Option<String> {
    let has_numpy = Command::new("python3").args(["-c", "import numpy"]).stderr(Stdio::null()).status();
    if !has_numpy.is_ok_and(|status| status.success()) {
        return None;
    }
    let output = Command::new("python3").args(["-c", script]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
#[expect(clippy::print_stdout, reason = "what is not tested is said")]
fn numpy_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tensor.npy");
    let tensor = Tensor::from_slice(&[0.5_f32, -1.0, 2.25, 3.0, 4.0, 5.5], &[3, 2]).unwrap();
    std::fs::write(&file, written(&tensor)).unwrap();
    let script = "import sys, numpy; a = numpy.load(sys.argv[1]); print(a.dtype, a.shape, a.tolist())";
    match python(script, &file) {
        Some(text) => assert_eq!(text.trim(), "float32 (3, 2) [[0.5, -1.0], [2.25, 3.0], [4.0, 5.5]]"),
        None => println!("skipped: no python3 with numpy"),
    }
}
