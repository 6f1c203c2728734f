//! Images of kernels that are none: refused, whatever they say of themselves.

use c10_cuda::driver::Status;

use super::RealRig;

/// An ELF file's header, with a table of sections at `sections`, of `count` entries.
fn elf(length: usize, sections: u64, count: u16) -> Vec<u8> {
    let mut image = vec![0; length];
    image[..5].copy_from_slice(b"\x7fELF\x02");
    image[0x28..0x30].copy_from_slice(&sections.to_le_bytes());
    image[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
    image[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
    image
}

fn fatbin(length: usize, says: u64) -> Vec<u8> {
    let mut image = vec![0; length];
    image[..4].copy_from_slice(&0xba55_ed50_u32.to_le_bytes());
    image[4..8].copy_from_slice(&[1, 0, 16, 0]);
    image[8..16].copy_from_slice(&says.to_le_bytes());
    image
}

#[test]
fn what_is_no_image_is_refused() {
    let Some(rig) = RealRig::new(1) else { return };
    let images: [&[u8]; 4] = [b"", b"\0", b"no image", b"\x89PNG\r\n\x1a\n"];
    for image in images {
        let refused = rig.module_load(0, image).unwrap_err();
        assert_eq!(refused.status, Status::InvalidImage, "{image:?}");
    }
    assert_eq!(rig.module_load(9, rig.image()).unwrap_err().status, Status::InvalidDevice);
}

/// The driver is given an address and believes the image: one that is longer than it is never gets there.
#[test]
fn an_image_that_is_shorter_than_it_says_does_not_reach_the_driver() {
    let Some((rig, control)) = RealRig::over_standin(1) else { return };
    let mut section_beyond = elf(256, 128, 2);
    section_beyond[128 + 0x18..128 + 0x20].copy_from_slice(&u64::MAX.to_le_bytes());
    section_beyond[128 + 0x20..128 + 0x28].copy_from_slice(&8_u64.to_le_bytes());
    let mut narrow = elf(256, 64, 3);
    narrow[0x3a..0x3c].copy_from_slice(&1_u16.to_le_bytes());
    let images = [
        b"\x7fELF\x02".to_vec(),
        b"\x7fELF\x01".repeat(20),
        elf(64, 64, 1),
        elf(256, 200, 1),
        elf(256, u64::MAX - 10, 1),
        section_beyond,
        narrow,
        fatbin(16, 1),
        fatbin(64, 49),
        fatbin(64, u64::MAX),
        fatbin(64, 48)[..12].to_vec(),
        0x4662_43b1_u32.to_le_bytes().repeat(8),
    ];
    let before = control.calls();
    for image in images {
        let refused = rig.module_load(0, &image).unwrap_err();
        assert_eq!(refused.status, Status::InvalidImage, "{image:x?}");
    }
    assert_eq!(control.calls(), before);
    // What is as long as it says does, and is refused there.
    for image in [elf(256, 128, 2), fatbin(64, 48)] {
        assert_eq!(rig.module_load(0, &image).unwrap_err().status, Status::InvalidImage);
    }
    assert!(control.calls() > before);
}
