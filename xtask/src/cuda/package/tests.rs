//! What a program says of the library that it needs.

use super::newest_version;

#[test]
fn the_newest_version_of_the_library_counts() {
    let program = b"\0GLIBC_2.2.5\0_GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.28\0GLIBC_";
    assert_eq!(newest_version(program), (2, 34));
    assert_eq!(newest_version(b"nothing"), (0, 0));
}
