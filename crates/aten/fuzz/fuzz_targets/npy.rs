//! Whatever is read as an npy file is written as a file of the same array.

#![no_main]

use aten::io::npy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = npy::from_bytes(bytes) {
        let mut written = Vec::new();
        npy::write(&mut written, &read).expect("what is read can be written");
        let again = npy::from_bytes(&written).expect("what is written is read");
        assert_eq!((again.dtype(), again.sizes()), (read.dtype(), read.sizes()));
    }
});
