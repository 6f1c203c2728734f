//! Whatever is read as a safetensors file is written as a file with the same tensors.

#![no_main]

use aten::io::safetensors::{self, SafeTensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = SafeTensors::from_bytes(bytes) {
        let mut written = Vec::new();
        safetensors::write(&mut written, read.iter(), read.metadata()).expect("what is read can be written");
        let again = SafeTensors::from_bytes(&written).expect("what is written is read");
        assert_eq!((again.iter().len(), again.metadata()), (read.iter().len(), read.metadata()));
        for (name, tensor) in read.iter() {
            assert_eq!(again.tensor(name).expect("it was written").sizes(), tensor.sizes());
        }
    }
});
