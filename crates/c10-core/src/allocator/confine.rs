//! [`ConfinedRoot`]: a directory that names are resolved in, and cannot lead out of.
//!
//! A name is a text, as it may come out of a checkpoint's index or a request. What is accepted:
//!
//! | form | taken as |
//! |---|---|
//! | `a/b.bin`, `./a//b.bin` | a path below the root |
//! | `a/../b.bin` | `b.bin`: `..` takes away the component before it, as in a URL, whatever links are there |
//! | `/data/root/b.bin` | `b.bin`, if the root is `/data/root`, as it was given or with its links resolved |
//! | `file:///data/root/b.bin`, `file:/…`, `file://localhost/…` | the same |
//! | `a%2Fb.bin`, `%2e%2e` | percent-escapes are decoded, once, before all else; other `%` stand for themselves |
//!
//! A name that then leads out is refused with [`ErrorKind::Confined`] and the reason: a `..` above the root, an
//! absolute path elsewhere, a URL of another host or scheme, a scheme hidden behind escapes, and a link that
//! leaves the root. An absolute link always leaves it, as `openat2`'s `RESOLVE_BENEATH` has it. A name that names
//! nothing is refused with [`ErrorKind::InvalidArgument`]: an empty one, the root itself, one with a NUL, a URL
//! with a query or fragment.
//!
//! Links are judged by the system as it opens the file and not before, so that nobody can exchange one in
//! between.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

use crate::error::{Error, ErrorKind, Result};

/// A directory that names are resolved in (see the [module](self)).
#[derive(Debug)]
pub struct ConfinedRoot {
    dir: Dir,
    /// As it was given, made absolute.
    given: PathBuf,
    /// With links resolved.
    canonical: PathBuf,
}

/// Why a name is refused.
enum Refusal {
    LeadsOut(String),
    NamesNothing(&'static str),
}

impl ConfinedRoot {
    /// The directory at `path`, which stays the same one whatever becomes of the path.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when there is no such directory or it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |e| io_error(format!("cannot open the directory '{}'", path.display()), e);
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
        let given = std::path::absolute(path).map_err(failed)?;
        let canonical = path.canonicalize().map_err(failed)?;
        Ok(Self { dir, given, canonical })
    }

    /// Where it is, absolute, as it was given.
    pub fn path(&self) -> &Path {
        &self.given
    }

    /// The path below the root that a name stands for, without `.` and `..`. Links are not looked at.
    ///
    /// # Errors
    /// [`ErrorKind::Confined`] and [`ErrorKind::InvalidArgument`] as the [module](self) says.
    pub fn resolve(&self, name: &str) -> Result<PathBuf> {
        self.resolve_or_refuse(name).map_err(|refusal| match refusal {
            Refusal::LeadsOut(why) => self.leads_out(name, &why),
            Refusal::NamesNothing(why) => {
                Error::invalid_argument(format!("{} names no file: {why}", quoted_name(name)))
            }
        })
    }

    /// Opens the regular file that a name stands for. Never blocks, on a pipe say.
    pub(super) fn open_file(&self, name: &str, options: &mut OpenOptions) -> Result<File> {
        let path = self.resolve(name)?;
        without_blocking(options);
        let file = self.dir.open_with(&path, options).map_err(|e| self.open_error(name, e))?;
        let metadata = file.metadata().map_err(|e| self.open_error(name, e))?;
        if metadata.is_file() {
            Ok(file)
        } else {
            Err(Error::invalid_argument(format!("{} is not a regular file", quoted_name(name))))
        }
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    fn resolve_or_refuse(&self, name: &str) -> Result<PathBuf, Refusal> {
        let decoded = percent_decoded(path_of_url(name)?);
        if decoded.contains(&0) {
            return Err(Refusal::NamesNothing("it has a NUL in it"));
        }
        if strip_file_scheme(&decoded).is_some() {
            return Err(Refusal::LeadsOut("it hides a URL behind percent-escapes".into()));
        }
        let path = path_of_bytes(decoded)?;
        let below = if path.has_root() { self.strip_root(&path)? } else { normal_below(&path)? };
        if below.as_os_str().is_empty() {
            return Err(Refusal::NamesNothing("it is the root directory itself"));
        }
        Ok(below)
    }

    fn strip_root(&self, path: &Path) -> Result<PathBuf, Refusal> {
        let path = normal_absolute(path);
        [&self.given, &self.canonical]
            .into_iter()
            .find_map(|root| path.strip_prefix(normal_absolute(root)).ok())
            .map(Path::to_path_buf)
            .ok_or_else(|| Refusal::LeadsOut(format!("it resolves to '{}'", path.display())))
    }

    #[cold]
    fn open_error(&self, name: &str, error: io::Error) -> Error {
        // The escape that the sandbox itself found has the kind alone; the system's refusals have a number.
        if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return self.leads_out(name, "a link in it leaves the root").with_source(error);
        }
        io_error(format!("cannot open {} in '{}'", quoted_name(name), self.given.display()), error)
    }

    #[cold]
    fn leads_out(&self, name: &str, why: &str) -> Error {
        let (name, root) = (quoted_name(name), self.given.display());
        Error::new(ErrorKind::Confined, format!("{name} leads out of '{root}': {why}"))
    }
}

/// An [`ErrorKind::Io`] that says what was tried.
#[cold]
pub(super) fn io_error(what: String, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}")).with_source(error)
}

/// A name as a sentence quotes it: as [`Error::quoted`], with room for a whole path.
pub(super) fn quoted_name(name: &str) -> String {
    const SHOWN_CHARS: usize = 1024;
    Error::quoted_up_to(SHOWN_CHARS, name)
}

/// The path in a file URL, escapes and all; any other name as it is.
fn path_of_url(name: &str) -> Result<&str, Refusal> {
    let Some(rest) = strip_file_scheme(name.as_bytes()).map(|rest| &name[name.len() - rest.len()..]) else {
        return match scheme(name) {
            Some(scheme) => Err(Refusal::LeadsOut(format!("it is a URL of the scheme '{scheme}'"))),
            None => Ok(name),
        };
    };
    if rest.contains(['?', '#']) {
        return Err(Refusal::NamesNothing("it is a URL with a query or a fragment"));
    }
    let Some(after) = rest.strip_prefix("//") else {
        return if rest.starts_with('/') {
            Ok(rest)
        } else {
            Err(Refusal::NamesNothing("it is a file URL without an absolute path"))
        };
    };
    let Some(slash) = after.find('/') else {
        return Err(Refusal::NamesNothing("it is a file URL without a path"));
    };
    let (host, path) = after.split_at(slash);
    if host.is_empty() || host.eq_ignore_ascii_case("localhost") {
        Ok(path)
    } else {
        Err(Refusal::LeadsOut(format!("it is on the host {}", Error::quoted(host))))
    }
}

/// What follows `file:`, in whatever case.
fn strip_file_scheme(name: &[u8]) -> Option<&[u8]> {
    let (head, rest) = name.split_at_checked(b"file:".len())?;
    head.eq_ignore_ascii_case(b"file:").then_some(rest)
}

/// The scheme of a text that begins as `scheme://`.
fn scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some(scheme)
}

/// Decodes `%` and two hexadecimal digits, once.
fn percent_decoded(text: &str) -> Vec<u8> {
    let hex = |digit: Option<&u8>| digit.and_then(|&d| char::from(d).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        match (first, hex(tail.first()), hex(tail.get(1))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                decoded.push(first);
                rest = tail;
            }
        }
    }
    decoded
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere not every byte string is a path")]
fn path_of_bytes(bytes: Vec<u8>) -> Result<PathBuf, Refusal> {
    use std::os::unix::ffi::OsStringExt;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(not(unix))]
fn path_of_bytes(bytes: Vec<u8>) -> Result<PathBuf, Refusal> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(PathBuf::from(OsString::from(text))),
        Err(_) => Err(Refusal::NamesNothing("its escapes are not UTF-8")),
    }
}

/// A relative path without `.` and `..`, if it stays below where it starts.
fn normal_below(path: &Path) -> Result<PathBuf, Refusal> {
    let mut below = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => below.push(part),
            Component::CurDir => {}
            Component::ParentDir if below.pop() => {}
            Component::ParentDir => return Err(Refusal::LeadsOut("'..' goes above the root".into())),
            Component::RootDir | Component::Prefix(_) => {
                return Err(Refusal::LeadsOut("it begins at a root of its own".into()));
            }
        }
    }
    Ok(below)
}

/// An absolute path without `.` and `..`; above the file system's root is that root.
fn normal_absolute(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// Opening a pipe would wait for its other end.
#[cfg(unix)]
fn without_blocking(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
}

#[cfg(not(unix))]
fn without_blocking(_: &mut OpenOptions) {}
