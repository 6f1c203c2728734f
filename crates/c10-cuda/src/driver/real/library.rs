#![expect(unsafe_code, reason = "loads the driver's library, and looks functions up whose types CUDA fixes")]
//! [`Library`]: the CUDA driver's library, found, new enough, and initialised.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, OnceLock};

use super::abi::RawResult;
use super::status;
use super::symbols::Symbols;
use crate::captures::Captures;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, lock};

/// The names under which the driver installs its library, in the order in which they are tried.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// The oldest driver that has all that is used here: CUDA 11.4.
const OLDEST: u32 = 11040;

/// The library of this process. It is never unloaded: the driver does not outlive that.
pub(super) struct Library {
    pub(super) symbols: Symbols,
    /// The newest CUDA that it knows: 12040 is 12.4.
    pub(super) version: u32,
    /// Those of the process, whatever driver they are begun by.
    pub(super) captures: Arc<Captures>,
}

/// An open library in which functions are looked up.
pub(super) struct Finder(ManuallyDrop<libloading::Library>);

impl Library {
    /// The library, loaded and initialised when it is first found.
    pub(super) fn find() -> Result<&'static Self> {
        static FOUND: OnceLock<Library> = OnceLock::new();
        static FINDING: Mutex<()> = Mutex::new(());
        if let Some(library) = FOUND.get() {
            return Ok(library);
        }
        let _one_at_a_time = lock(&FINDING);
        match FOUND.get() {
            Some(library) => Ok(library),
            None => {
                let library = Self::open()?;
                Ok(FOUND.get_or_init(|| library))
            }
        }
    }

    fn open() -> Result<Self> {
        let (name, finder) = Finder::open()?;
        let version = finder.version().ok_or_else(|| unavailable(format!("{name} is no CUDA driver")))?;
        if version < OLDEST {
            return Err(unavailable(format!(
                "the CUDA driver {name} is too old: it knows CUDA {}, and {} or newer is needed",
                Dotted(version),
                Dotted(OLDEST)
            )));
        }
        let symbols = Symbols::find(&finder).map_err(|missing| {
            let (version, missing) = (Dotted(version), missing.join(", "));
            unavailable(format!("the CUDA driver {name}, of CUDA {version}, lacks {missing}"))
        })?;
        // SAFETY: the function takes flags, of which there are none, and may be called at any time.
        let result = unsafe { (symbols.init)(0) };
        status::check(result).map_err(|status| {
            let why = match result {
                status::NO_DEVICE => "finds no device".to_owned(),
                status::STUB_LIBRARY => "is the toolkit's stub, which is for linking alone".to_owned(),
                _ => format!("cannot be initialised: {status}"),
            };
            unavailable(format!("the CUDA driver {name}, of CUDA {}, {why}", Dotted(version)))
        })?;
        Ok(Self { symbols, version, captures: Arc::default() })
    }
}

impl Finder {
    /// The first library there is, and its name.
    fn open() -> Result<(&'static str, Self)> {
        let mut refusals = Vec::new();
        for &name in NAMES {
            // SAFETY: this is the name of the driver's library, whose initialisers are made for any process.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Ok((name, Self(ManuallyDrop::new(library)))),
                Err(error) => refusals.push(refusal(name, &error)),
            }
        }
        Err(unavailable(format!("there is no CUDA driver: looked for {}", refusals.join(" and "))))
    }

    /// The function of that name, which ends with a NUL; `F` is its type, a function pointer.
    pub(super) fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: whoever asks gives the type that CUDA documents for the name; and the library is never unloaded.
        unsafe { self.0.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// Which CUDA it knows.
    fn version(&self) -> Option<u32> {
        let version: unsafe extern "C" fn(*mut c_int) -> RawResult = self.function("cuDriverGetVersion\0")?;
        let mut number = 0;
        // SAFETY: the function writes one number there, and may be called before any other.
        let result = unsafe { version(&mut number) };
        status::check(result).ok()?;
        u32::try_from(number).ok()
    }
}

/// Why a library is not loaded, in the system's words.
fn refusal(name: &str, error: &libloading::Error) -> String {
    let why = match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    // Linux begins with the name.
    let why = why.strip_prefix(name).map_or(&*why, |rest| rest.trim_start_matches([':', ' ']));
    format!("{name} ({why})")
}

/// A version as people write it.
struct Dotted(u32);

impl std::fmt::Display for Dotted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

fn unavailable(message: String) -> Error {
    Error::new(ErrorKind::DeviceUnavailable, message)
}
