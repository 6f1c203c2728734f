#![expect(unsafe_code, reason = "maps files of its own, and reads and writes the memory")]
//! Files as memory, and names that try to leave their directory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use c10_core::allocator::{
    Allocator, ConfinedRoot, CountingAllocator, CpuAllocator, LimitAllocator, MapMode, MappedFile,
    TempFileAllocator, mapped::read_file,
};
use c10_core::{DataPtr, Error, ErrorKind, Result, Storage};
use proptest::prelude::*;
use tempfile::TempDir;

/// `base/root` is the root, `base/secret` is outside.
struct Place {
    base: TempDir,
    root: ConfinedRoot,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("root/sub")).unwrap();
        fs::write(base.path().join("root/a.bin"), b"0123456789").unwrap();
        fs::write(base.path().join("root/sub/b.bin"), b"below").unwrap();
        fs::write(base.path().join("secret"), b"secret").unwrap();
        let root = ConfinedRoot::open(base.path().join("root")).unwrap();
        Self { base, root }
    }

    fn path(&self, below: &str) -> String {
        self.base.path().join(below).to_str().unwrap().to_owned()
    }

    /// The text of a file, by the safe way in.
    fn read(&self, name: &str) -> Result<String> {
        let mapped = read_file(&self.root, name, &CpuAllocator)?;
        Ok(String::from_utf8(bytes(mapped.data_ptr(), mapped.nbytes()).to_vec()).unwrap())
    }

    fn open(&self, name: &str, mode: MapMode) -> Result<MappedFile> {
        // SAFETY: the file is this test's alone, which does not make it shorter, nor write it while it reads.
        unsafe { MappedFile::open(&self.root, name, mode) }
    }

    /// An error's text, without the directory that changes from run to run.
    fn text(&self, error: &Error) -> String {
        error.to_string().replace(self.base.path().to_str().unwrap(), "BASE")
    }
}

fn bytes(ptr: &DataPtr, len: usize) -> &[u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the callers' memory has that many bytes, and nobody writes them meanwhile.
    unsafe { std::slice::from_raw_parts(ptr.as_ptr(), len) }
}

fn file_bytes(file: &MappedFile) -> &[u8] {
    if file.is_empty() {
        return &[];
    }
    // SAFETY: the mapping has that many bytes, and nobody writes them meanwhile.
    unsafe { std::slice::from_raw_parts(file.as_ptr(), file.len()) }
}

fn write(file: &mut MappedFile, at: usize, byte: u8) {
    assert!(at < file.len() && !file.is_read_only());
    // SAFETY: the mapping has that many bytes, can be written, and is this test's alone.
    let memory = unsafe { std::slice::from_raw_parts_mut(file.as_ptr(), file.len()) };
    memory[at] = byte;
}

#[test]
fn names_that_stay_inside_are_taken_in_every_form() {
    let place = Place::new();
    let root = place.path("root");
    let escaped: String = root.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for name in [
        "a.bin".to_owned(),
        "./a.bin".into(),
        "sub/../a.bin".into(),
        "sub//.././a.bin".into(),
        "nowhere/../a.bin".into(),
        "a%2ebin".into(),
        "sub%2F%2e%2E%2fa.bin".into(),
        "%61.bin".into(),
        format!("{root}/a.bin"),
        format!("{root}/sub/../a.bin"),
        format!("{root}/../root/a.bin"),
        format!("file://{root}/a.bin"),
        format!("FILE://LocalHost{root}/%61.bin"),
        format!("file:{root}/sub/..%2fa.bin"),
        format!("{escaped}/a.bin"),
        format!("file:///{escaped}/a.bin"),
    ] {
        assert_eq!(place.read(&name).as_deref().unwrap(), "0123456789", "{name}");
        assert_eq!(place.root.resolve(&name).unwrap(), Path::new("a.bin"), "{name}");
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    let place = Place::new();
    let root = place.path("root");
    let secret = place.path("secret");
    for name in [
        "..".to_owned(),
        "../secret".into(),
        "sub/../../secret".into(),
        "../root/a.bin".into(),
        "%2e%2e/secret".into(),
        "%2E./secret".into(),
        ".%2e%2fsecret".into(),
        "sub/%2e%2e/..%2Fsecret".into(),
        secret.clone(),
        secret.replace('/', "%2f"),
        "/etc/passwd".into(),
        "//etc/passwd".into(),
        "/".into(),
        format!("{root}/../secret"),
        format!("{root}x/a.bin"),
        format!("{root}/%2e%2e/secret"),
        format!("file://{secret}"),
        format!("file:{secret}"),
        format!("file://{root}/..%2fsecret"),
        format!("file://host{root}/a.bin"),
        format!("file://127.0.0.1{root}/a.bin"),
        format!("file://.{root}/a.bin"),
        "file:///".into(),
        format!("%66ile://{root}/a.bin"),
        "http://example.com/a.bin".into(),
        "s3://a.bin".into(),
    ] {
        for outcome in [place.root.resolve(&name).err(), place.read(&name).err()] {
            let error = outcome.unwrap_or_else(|| panic!("{name} was taken"));
            assert_eq!(error.kind(), ErrorKind::Confined, "{name}: {error}");
        }
        assert_eq!(place.open(&name, MapMode::ReadOnly).unwrap_err().kind(), ErrorKind::Confined, "{name}");
    }
}

#[test]
fn refusals_say_why() {
    let place = Place::new();
    let why = |name: &str| place.text(&place.root.resolve(name).unwrap_err());
    insta::assert_snapshot!(why("%2e%2e/secret"), @"'%2e%2e/secret' leads out of 'BASE/root': '..' goes above the root");
    insta::assert_snapshot!(why("/etc/%70asswd"), @"'/etc/%70asswd' leads out of 'BASE/root': it resolves to '/etc/passwd'");
    insta::assert_snapshot!(why("file://host/a"), @"'file://host/a' leads out of 'BASE/root': it is on the host 'host'");
    insta::assert_snapshot!(why("file:///a/../b"), @"'file:///a/../b' leads out of 'BASE/root': it resolves to '/b'");
    insta::assert_snapshot!(why("https://host/a"), @"'https://host/a' leads out of 'BASE/root': it is a URL of the scheme 'https'");
    insta::assert_snapshot!(why("fil%65:///a"), @"'fil%65:///a' leads out of 'BASE/root': it hides a URL behind percent-escapes");
    insta::assert_snapshot!(why("a\0b"), @r"'a\0b' names no file: it has a NUL in it");
    insta::assert_snapshot!(why("a%00"), @"'a%00' names no file: it has a NUL in it");
    insta::assert_snapshot!(why(""), @"'' names no file: it is the root directory itself");
    insta::assert_snapshot!(why("file:a"), @"'file:a' names no file: it is a file URL without an absolute path");
    insta::assert_snapshot!(why("file:///a?b"), @"'file:///a?b' names no file: it is a URL with a query or a fragment");
}

#[test]
fn names_that_name_nothing_are_invalid() {
    let place = Place::new();
    let root = place.path("root");
    for name in ["", ".", "sub/..", "a.bin\0", "%00", "file:", "file:a.bin", "file://", "file://host"]
        .map(str::to_owned)
        .into_iter()
        .chain([root.clone(), format!("file://{root}/a.bin#x")])
    {
        assert_eq!(place.root.resolve(&name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
    }
    assert_eq!(place.read("sub").unwrap_err().kind(), ErrorKind::InvalidArgument, "a directory is no file");
}

#[test]
fn escapes_are_decoded_once() {
    let place = Place::new();
    fs::create_dir(place.path("root/%2e%2e")).unwrap();
    fs::write(place.path("root/%2e%2e/secret"), b"inside").unwrap();
    fs::write(place.path("root/100%"), b"percent").unwrap();
    fs::write(place.path("root/%zz"), b"no escape").unwrap();
    assert_eq!(place.read("%252e%252e/secret").unwrap(), "inside");
    assert_eq!(place.read("100%").unwrap(), "percent");
    assert_eq!(place.read("100%25").unwrap(), "percent");
    assert_eq!(place.read("%zz").unwrap(), "no escape");
}

#[cfg(unix)]
#[test]
fn links_are_followed_inside_and_refused_outside() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let link = |target: &str, name: &str| symlink(target, place.path(&format!("root/{name}"))).unwrap();
    link("a.bin", "inside");
    link("../a.bin", "sub/up");
    link("../secret", "out");
    link("..", "parent");
    link(&place.path("secret"), "absolute");
    link(&place.path("root/a.bin"), "absolute-inside");
    link("out", "twice");
    link("loop", "loop");
    assert_eq!(place.read("inside").unwrap(), "0123456789");
    assert_eq!(place.read("sub/up").unwrap(), "0123456789");
    for name in ["out", "parent/secret", "absolute", "absolute-inside", "twice"] {
        let error = place.read(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Confined, "{name}: {error}");
        assert_eq!(place.open(name, MapMode::Shared).unwrap_err().kind(), ErrorKind::Confined);
    }
    let error = place.read("twice").unwrap_err();
    insta::assert_snapshot!(
        place.text(&error),
        @"'twice' leads out of 'BASE/root': a link in it leaves the root"
    );
    let error = place.read("loop").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    // SAFETY: as in `Place::open`.
    let error = unsafe { MappedFile::create(&place.root, "parent/new", 10) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Confined);
    assert!(!Path::new(&place.path("new")).exists());
}

#[cfg(unix)]
#[test]
fn a_root_behind_a_link_takes_both_of_its_names() {
    let place = Place::new();
    std::os::unix::fs::symlink("root", place.path("alias")).unwrap();
    let root = ConfinedRoot::open(place.path("alias")).unwrap();
    for name in [place.path("alias/a.bin"), place.path("root/a.bin")] {
        assert_eq!(root.resolve(&name).unwrap(), Path::new("a.bin"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_is_refused_without_waiting() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo").arg(place.path("root/pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    assert_eq!(place.read("pipe").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_systems_errors_are_sources() {
    let place = Place::new();
    let error = place.read("missing").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(ConfinedRoot::open(place.path("missing")).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(ConfinedRoot::open(place.path("secret")).unwrap_err().kind(), ErrorKind::Io);
}

proptest! {
    /// Whatever the name, what it resolves to is below the root and nothing else.
    #[test]
    fn nothing_resolves_outside(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "..", ".", "/", "//", "%2e", "%2E%2e", "%2f", "file:", "file://", "localhost", "\\",
                "%", "%25", "%00", "x y", "é", "%c3%a9", "~", "?", "#", "://", "host",
            ]),
            0..12,
        )
    ) {
        let root = ConfinedRoot::open(std::env::temp_dir()).unwrap();
        if let Ok(path) = root.resolve(&parts.concat()) {
            prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
            prop_assert!(path.components().count() > 0);
        }
    }
}

#[test]
fn a_private_mapping_keeps_its_writes() {
    let place = Place::new();
    let mut file = place.open("a.bin", MapMode::Private).unwrap();
    assert_eq!((file_bytes(&file), file.is_read_only()), (&b"0123456789"[..], false));
    write(&mut file, 0, b'x');
    assert_eq!(file_bytes(&file), b"x123456789");
    assert_eq!(place.read("a.bin").unwrap(), "0123456789");
    file.grow(5000).unwrap();
    assert_eq!(&file_bytes(&file)[..11], b"x123456789\0");
    assert!(file_bytes(&file)[10..].iter().all(|&byte| byte == 0));
    write(&mut file, 4999, 1);
    file.grow(100_000).unwrap();
    assert_eq!((file_bytes(&file)[0], file_bytes(&file)[4999], file_bytes(&file)[5000]), (b'x', 1, 0));
    assert_eq!(place.read("a.bin").unwrap(), "0123456789");
}

#[test]
fn a_shared_mapping_writes_and_grows_its_file() {
    let place = Place::new();
    let mut file = place.open("a.bin", MapMode::Shared).unwrap();
    write(&mut file, 9, b'x');
    file.flush().unwrap();
    assert_eq!(place.read("a.bin").unwrap(), "012345678x");
    file.grow(10_000).unwrap();
    write(&mut file, 9_999, b'!');
    drop(file);
    let text = place.read("a.bin").unwrap();
    assert_eq!((text.len(), &text[..10], &text[9_998..]), (10_000, "012345678x", "\0!"));
}

#[test]
fn a_read_only_mapping_says_so_everywhere() {
    let place = Place::new();
    let mut file = place.open("a.bin", MapMode::ReadOnly).unwrap();
    assert_eq!(file.grow(20).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!((file.len(), file.mode()), (10, MapMode::ReadOnly));
    let mapped = file.into_mapped();
    assert!(mapped.is_read_only());
    assert_eq!(bytes(mapped.data_ptr(), mapped.nbytes()), b"0123456789");
    assert!(MappedFile::of(mapped.data_ptr()).unwrap().is_read_only());
    for mode in [MapMode::Private, MapMode::Shared] {
        assert!(!place.open("a.bin", mode).unwrap().into_mapped().is_read_only());
    }
}

#[test]
fn a_file_that_cannot_be_written_maps_private_and_read_only() {
    let place = Place::new();
    let path = place.path("root/a.bin");
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    assert!(place.open("a.bin", MapMode::ReadOnly).is_ok());
    assert!(place.open("a.bin", MapMode::Private).is_ok());
    match place.open("a.bin", MapMode::Shared) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        // Whoever may write everything may write this.
        Ok(_) => assert!(fs::OpenOptions::new().write(true).open(&path).is_ok()),
    }
}

#[test]
fn temporary_files_have_no_name_and_grow() {
    let place = Place::new();
    let names = || fs::read_dir(place.path("root")).unwrap().count();
    let before = names();
    let mut file = MappedFile::temporary(&place.root, 100).unwrap();
    assert_eq!(names(), before);
    assert_eq!(file_bytes(&file), [0; 100]);
    write(&mut file, 99, 7);
    file.grow(1 << 20).unwrap();
    assert_eq!((file_bytes(&file)[99], file_bytes(&file)[(1 << 20) - 1]), (7, 0));
    file.grow(1 << 20).unwrap();
    assert_eq!(file.grow(5).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(file.len(), 1 << 20);
}

#[test]
fn what_became_memory_can_grow_again() {
    let place = Place::new();
    let allocator = TempFileAllocator::new(Arc::new(ConfinedRoot::open(place.base.path()).unwrap()));
    let ptr = allocator.allocate(10).unwrap();
    // SAFETY: the memory has ten bytes.
    unsafe { ptr.as_ptr().write_bytes(3, 10) };
    let mut file = MappedFile::from_data_ptr(ptr).unwrap();
    file.grow(10_000).unwrap();
    let mapped = file.into_mapped();
    assert_eq!((mapped.nbytes(), mapped.is_read_only()), (10_000, false));
    assert_eq!(bytes(mapped.data_ptr(), 11), [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
    let other = CpuAllocator.allocate(10).unwrap();
    let other = MappedFile::from_data_ptr(other).unwrap_err();
    assert!(MappedFile::of(&other).is_none());
}

#[test]
fn a_mapping_is_known_through_adaptors() {
    let place = Place::new();
    let allocator = TempFileAllocator::new(Arc::new(ConfinedRoot::open(place.base.path()).unwrap()));
    let tower = LimitAllocator::new(Arc::new(CountingAllocator::new(Arc::new(allocator))), 1 << 20);
    let ptr = tower.allocate(4096).unwrap();
    assert_eq!(MappedFile::of(&ptr).unwrap().len(), 4096);
    assert!(MappedFile::from_data_ptr(ptr).is_err(), "the adaptors still count it");
}

#[test]
fn hostile_growth_changes_nothing() {
    let place = Place::new();
    for mut file in [
        MappedFile::temporary(&place.root, 10).unwrap(),
        place.open("a.bin", MapMode::Private).unwrap(),
        place.open("a.bin", MapMode::Shared).unwrap(),
    ] {
        let mode = file.mode();
        for size in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1, 1 << 60] {
            let error = file.grow(size).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{mode:?} {size}: {error}");
            assert_eq!(error.requested_bytes(), Some(size as u64));
        }
        assert_eq!(file.len(), 10);
        let _ = file_bytes(&file).to_vec();
    }
    assert_eq!(place.read("a.bin").unwrap(), "0123456789");
    // SAFETY: as in `Place::open`.
    let error = unsafe { MappedFile::create(&place.root, "huge", usize::MAX) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(!Path::new(&place.path("root/huge")).exists(), "nothing half-made is left");
}

#[test]
fn empty_files_are_memory_of_no_bytes() {
    let place = Place::new();
    fs::write(place.path("root/empty"), b"").unwrap();
    for mode in [MapMode::ReadOnly, MapMode::Private, MapMode::Shared] {
        let mut file = place.open("empty", mode).unwrap();
        assert!(file.is_empty() && file.as_ptr().is_null());
        file.flush().unwrap();
        if mode != MapMode::ReadOnly {
            file.grow(3).unwrap();
            assert_eq!(file_bytes(&file), [0; 3]);
        }
        assert_eq!(file.into_mapped().nbytes(), if mode == MapMode::ReadOnly { 0 } else { 3 });
    }
    assert_eq!(place.read("empty").unwrap(), "\0\0\0", "the shared mapping grew the file");
}

#[test]
fn create_makes_new_files_only() {
    let place = Place::new();
    // SAFETY: as in `Place::open`.
    let mut file = unsafe { MappedFile::create(&place.root, "sub/new", 3) }.unwrap();
    write(&mut file, 1, b'n');
    assert_eq!(place.read("sub/new").unwrap(), "\0n\0");
    // SAFETY: as in `Place::open`.
    let error = unsafe { MappedFile::create(&place.root, "a.bin", 3) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(place.read("a.bin").unwrap(), "0123456789");
}

#[test]
fn reading_needs_host_memory_and_reports_its_want() {
    let place = Place::new();
    let limit = LimitAllocator::new(Arc::new(CpuAllocator), 4);
    let error = read_file(&place.root, "a.bin", &limit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let mapped = read_file(&place.root, "sub/b.bin", &CpuAllocator).unwrap();
    assert_eq!((bytes(mapped.data_ptr(), mapped.nbytes()), mapped.is_read_only()), (&b"below"[..], false));
    assert!(MappedFile::of(mapped.data_ptr()).is_none());
}

#[test]
fn mappings_end_on_any_thread() {
    let place = Place::new();
    let mapped = MappedFile::temporary(&place.root, 5000).unwrap().into_mapped();
    std::thread::spawn(move || {
        assert_eq!(bytes(mapped.data_ptr(), mapped.nbytes()), [0; 5000]);
        drop(mapped);
    })
    .join()
    .unwrap();
}

#[test]
fn a_storage_of_a_read_only_mapping_refuses_exclusive_access() {
    let place = Place::new();
    let mapped = place.open("a.bin", MapMode::ReadOnly).unwrap().into_mapped();
    let storage = Storage::from_mapped(mapped, Some(Arc::new(CpuAllocator))).unwrap();
    assert!(storage.is_read_only() && !storage.is_resizable());
    assert_eq!(storage.read().unwrap().bytes().unwrap(), b"0123456789");
    assert_eq!(storage.write().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(storage.resize(20).unwrap_err().kind(), ErrorKind::ReadOnly);
    let copy = storage.lazy_clone().unwrap();
    copy.write().unwrap().bytes_mut().unwrap()[0] = b'x';
    assert_eq!(storage.read().unwrap().bytes().unwrap(), b"0123456789");
}

#[test]
fn storages_of_files_are_written_and_resized() {
    let place = Place::new();
    let mapped = place.open("a.bin", MapMode::Shared).unwrap().into_mapped();
    let storage = Storage::from_mapped(mapped, Some(Arc::new(CpuAllocator))).unwrap();
    storage.write().unwrap().bytes_mut().unwrap()[0] = b'x';
    assert_eq!(place.read("a.bin").unwrap(), "x123456789");
    storage.resize(11).unwrap();
    storage.write().unwrap().bytes_mut().unwrap()[..].fill(b'y');
    assert_eq!(
        place.read("a.bin").unwrap(),
        "x123456789",
        "beyond its size it moves to the allocator's memory"
    );
    let read = read_file(&place.root, "sub/b.bin", &CpuAllocator).unwrap();
    let fixed = Storage::from_mapped(read, None).unwrap();
    assert_eq!(fixed.write().unwrap().bytes().unwrap(), b"below");
    assert_eq!(fixed.resize(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn no_growth_makes_a_file_shorter() {
    let place = Place::new();
    let mut mappings = [(); 2].map(|()| place.open("a.bin", MapMode::Shared).unwrap());
    let [first, second] = &mut mappings;
    first.grow(100_000).unwrap();
    write(first, 99_999, 1);
    write(first, 4_999, 2);
    second.grow(5_000).unwrap();
    assert_eq!(file_bytes(first)[99_999], 1, "the page is still there");
    assert_eq!(file_bytes(second)[4_999], 2);
    assert_eq!(second.grow(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(fs::metadata(place.path("root/a.bin")).unwrap().len(), 100_000);
}

#[test]
fn mappings_of_one_file_grow_at_once() {
    let place = Place::new();
    let files = [0, 1, 2, 3].map(|thread| (thread, place.open("a.bin", MapMode::Shared).unwrap()));
    std::thread::scope(|scope| {
        for (thread, mut file) in files {
            scope.spawn(move || {
                for step in 1..100 {
                    file.grow(10 + 4096 * (4 * step + thread)).unwrap();
                    assert_eq!(file_bytes(&file)[file.len() - 1], 0);
                }
            });
        }
    });
}

#[test]
fn a_long_name_is_cut_in_the_text_of_its_error() {
    let place = Place::new();
    for name in ["a".repeat(100_000), "../".repeat(30_000), format!("file://{}/a", "h".repeat(100_000))] {
        let text = place.text(&place.read(&name).unwrap_err());
        assert!(text.chars().count() < 1300, "{} characters", text.chars().count());
    }
}
