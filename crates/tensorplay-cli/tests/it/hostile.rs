//! Files that are not what they should be: each ends with exit code 2 and one paragraph that says why.

use std::io::Write;
use std::path::Path;

use super::*;

fn replay(file: &Path) -> Output {
    tensorplay().arg("replay").arg(file).output().expect("the command was built")
}

/// The complaint about a file of these bytes, without its name.
fn complaint_about(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    std::fs::write(&file, bytes).unwrap();
    let complaint = complaint(&replay(&file));
    let (_, reason) = complaint.split_once(&format!("{}: ", file.display())).unwrap();
    reason.trim_end().to_owned()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn files_that_are_no_snapshots() {
    let deep_json = [vec![b'['; 1_000_000], vec![b']'; 1_000_000]].concat();
    let deep_pickle = [b"\x80\x04".to_vec(), vec![b']'; 1_000_000], vec![b'a'; 1_000_000]].concat();
    let whole = std::fs::read(trace("cross-entropy-eager")).unwrap();
    let mut broken = whole.clone();
    broken[2000] ^= 0x55;
    let files: [(&str, &[u8]); 21] = [
        ("nothing", b""),
        ("text", b"hello"),
        ("a web page", b"<!doctype html>"),
        ("zeros", &[0; 4096]),
        ("half of a gzip", &whole[..whole.len() / 2]),
        ("the head of a gzip", &[0x1f, 0x8b]),
        ("a damaged gzip", &broken),
        ("gzip of gzip", &gzip(&whole)),
        ("gzip of nothing", &gzip(b"")),
        (
            "a pickle that runs a program",
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R.",
        ),
        ("an old one that does", b"(cos\nsystem\nS'id'\no."),
        ("a pickled number", b"\x80\x04K\x01."),
        ("a pickled dict of nothing", b"\x80\x04}."),
        ("a pickle that ends early", b"\x80\x04}\x8c\x08segments]"),
        ("a pickle that nests", &deep_pickle),
        ("a pickle that announces much", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("a protocol of the future", b"\x80\x09N."),
        ("JSON that ends early", br#"{"segments": [{"#),
        ("JSON that nests", &deep_json),
        ("JSON of another kind", br#"{"name": "x"}"#),
        ("JSON with two values", br#"{"segments": []} {}"#),
    ];
    let mut texts = String::new();
    for (name, bytes) in files {
        texts += &format!("{name}: {}\n", complaint_about(bytes));
    }
    insta::assert_snapshot!(texts, @"
    nothing: is empty
    text: is neither a pickle nor JSON, gzip'd or not
    a web page: looks like a web page; the replay needs the snapshot that `torch.cuda.memory._dump_snapshot` writes
    zeros: is neither a pickle nor JSON, gzip'd or not
    half of a gzip: is not whole as gzip: incomplete deflate stream
    the head of a gzip: is not whole as gzip: unexpected end of file
    a damaged gzip: is not whole as gzip: corrupt gzip stream does not have a matching checksum
    gzip of gzip: is neither a pickle nor JSON, gzip'd or not
    gzip of nothing: is empty
    a pickle that runs a program: byte 19: the opcode STACK_GLOBAL (0x93) is refused: a snapshot holds plain values only
    an old one that does: byte 1: the opcode GLOBAL (0x63) is refused: a snapshot holds plain values only
    a pickled number: is an integer, not a dict
    a pickled dict of nothing: has no `segments`: this is not a memory snapshot
    a pickle that ends early: byte 14: the pickle ends before its STOP
    a pickle that nests: byte 1000066: APPEND: containers are nested more than 64 deep
    a pickle that announces much: byte 2: BINBYTES8: 18446744073709551615 bytes are announced and 0 are left
    a protocol of the future: byte 0: PROTO: pickle protocol 9 is not one of 0 to 5
    JSON that ends early: line 1, column 15: EOF while parsing an object
    JSON that nests: line 1, column 128: recursion limit exceeded
    JSON of another kind: has no `segments`: this is not a memory snapshot
    JSON with two values: line 1, column 18: trailing characters
    ");
}

#[test]
fn histories_that_cannot_have_happened() {
    let json = |trace: &str| {
        format!(
            r#"{{"segments": [{{"address": 4096, "total_size": 2097152, "blocks": []}}], "device_traces": [[{trace}]]}}"#
        )
    };
    let texts = [
        complaint_about(json(r#"{"action": "alloc", "addr": 4096, "size": 1}"#).as_bytes()),
        complaint_about(json(r#"{"action": "segment_alloc", "addr": 4096, "size": 1}"#).as_bytes()),
        complaint_about(json(r#"{"action": "free_completed", "addr": 1, "size": 1}"#).as_bytes()),
        complaint_about(json(r#"{"action": "explode", "addr": 1, "size": 1}"#).as_bytes()),
        complaint_about(json(r#"{"action": "alloc", "addr": -1, "size": 1}"#).as_bytes()),
        complaint_about(json(r#"{"action": "alloc", "addr": 1e3, "size": 1}"#).as_bytes()),
        complaint_about(
            json(r#"{"action": "alloc", "addr": 4096, "size": 18446744073709551615}"#).as_bytes(),
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r#"
    device_traces[0][0]: allocates 0x1000, but neither a later free nor the segments at the end know such a block
    device_traces[0][0]: no segment of 1 bytes is at 0x1000 behind this
    device_traces[0][0]: frees 1 bytes at 0x1, which is in no segment at that time
    device_traces[0][0].action: is "explode", which is no action of the allocator
    device_traces[0][0].addr: is negative: -1
    device_traces[0][0].addr: is a floating-point number, not an integer
    device_traces[0][0]: 18446744073709551615 bytes at 0x1000 end beyond the address space
    "#);
}

#[test]
fn devices_that_cannot_be() {
    let segment = |device: u64, address: u64, bytes: u64| {
        complaint_about(
            format!(
                r#"{{"device_traces": [], "segments": [{{"device": {device}, "address": {address}, "total_size": {bytes},
                   "blocks": [{{"size": {bytes}, "state": "inactive"}}]}}]}}"#
            )
            .as_bytes(),
        )
    };
    let texts = [
        segment(32, 4096, 2 << 20),
        segment(1 << 40, 4096, 2 << 20),
        segment(0, 0, 2 << 20),
        segment(0, 4096, (1 << 46) + 512),
        segment(0, 4096, 1000),
        complaint_about(
            br#"{"segments": [], "device_traces": [[{"action": "alloc", "addr": 4096, "size": 0}]]}"#,
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    has something about device 32; at most 32 devices can be simulated
    segments[0].device: is 1099511627776; devices are numbered below 128
    segments[0].address: is 0
    holds 70368744178176 bytes at once on device 0, which is more than any device has
    device 0: restore: the segment at 0x1000 has a block that is no multiple of 512 bytes
    device_traces[0][0].size: is 0: PyTorch has no block for nothing
    ");
}

#[test]
fn files_that_are_not_there_or_not_files() {
    let folder = tempfile::tempdir().unwrap();
    assert!(complaint(&replay(&folder.path().join("missing"))).contains("missing: No such file"));
    assert!(complaint(&replay(folder.path())).contains("is a directory, not a snapshot"));
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_text() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(OsStr::from_bytes(b"a\xffb.pickle"));
    assert!(complaint(&replay(&file)).contains("a\u{fffd}b.pickle: No such file"));
    std::fs::copy(trace("cross-entropy-eager"), &file).unwrap();
    let output = replay(&file);
    assert!(output.status.success() && stdout(&output).contains("a\u{fffd}b.pickle, device 0"), "{output:?}");
}
