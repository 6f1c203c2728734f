//! Devices and streams: text forms both ways, hostile texts.

use c10_core::device::DEVICE_INDEX_MAX;
use c10_core::{Device, DeviceType, ErrorKind, Stream, StreamId};
use proptest::prelude::*;

fn refusal(text: &str) -> String {
    let error = text.parse::<Device>().expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Parse);
    error.to_string()
}

#[test]
fn every_text_form_goes_both_ways() {
    for device_type in DeviceType::ALL {
        let name = device_type.to_string();
        assert_eq!(name.parse::<DeviceType>().unwrap(), device_type);
        assert_eq!(name.parse::<Device>().unwrap(), Device::current(device_type));
        for index in 0..=DEVICE_INDEX_MAX {
            let device = Device::new(device_type, index);
            assert_eq!(device.to_string(), format!("{name}:{index}"));
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
    }
}

#[test]
fn texts_are_padded_like_any_other() {
    assert_eq!(format!("[{:>8}]", Device::cuda(1)), "[  cuda:1]");
    assert_eq!(format!("[{:<6}]", DeviceType::Cpu), "[cpu   ]");
    let stream = Stream::new(DeviceType::Cuda, 0, StreamId(3));
    assert_eq!(stream.to_string(), "stream 3 on device cuda:0");
}

#[test]
fn a_stream_knows_its_device() {
    let stream = Stream::default_of(DeviceType::Cuda, 2);
    assert!(stream.is_default());
    assert_eq!(stream.device(), Device::cuda(2));
    assert!(!Stream::new(DeviceType::Cuda, 2, StreamId(-1)).is_default());
}

#[test]
fn refusals_say_what_is_wrong() {
    insta::assert_snapshot!(refusal("gpu:0"), @"invalid device string 'gpu:0': 'gpu' is no device type; there are cpu, cuda, meta, mps, xpu, privateuseone");
    insta::assert_snapshot!(refusal("cuda:"), @"invalid device string 'cuda:': the index is not a number");
    insta::assert_snapshot!(refusal("cuda:-1"), @"invalid device string 'cuda:-1': the index is not a number");
    insta::assert_snapshot!(refusal("cuda:01"), @"invalid device string 'cuda:01': the index has a leading zero");
    insta::assert_snapshot!(refusal("cuda:128"), @"invalid device string 'cuda:128': the index is above 127");
    insta::assert_snapshot!(refusal("cuda:99999999999999999999999"), @"invalid device string 'cuda:99999999999999999999999': the index is above 127");
    insta::assert_snapshot!(refusal("cuda:0:1"), @"invalid device string 'cuda:0:1': the index is not a number");
    insta::assert_snapshot!(refusal(""), @"invalid device string '': '' is no device type; there are cpu, cuda, meta, mps, xpu, privateuseone");
}

#[test]
fn a_refusal_escapes_and_cuts_what_it_quotes() {
    assert!(refusal("cu\nda").starts_with("invalid device string 'cu\\nda': "));
    assert!(refusal(&"x".repeat(1 << 20)).len() < 500);
}

proptest! {
    #[test]
    fn any_text_is_read_back_or_refused(text in "(cpu|cuda|meta|[a-z]{0,5})(:[0-9:+ \\-٣]{0,4})?") {
        match text.parse::<Device>() {
            Ok(device) => prop_assert_eq!(device.to_string(), text),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Parse),
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Device>();
        let _ = text.parse::<DeviceType>();
    }
}
