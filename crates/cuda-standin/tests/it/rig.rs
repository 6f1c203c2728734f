//! [`Rig`]: the loaded library with a new machine. One test at a time has it, and each gives all back.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use libloading::{Library, Symbol};

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const CONTEXT_IS_DESTROYED: u32 = 709;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    // SAFETY: the library runs no code of its own when it is loaded.
    unsafe { Library::new(path()) }.unwrap()
});
static TURN: Mutex<()> = Mutex::new(());

/// Where the shared object is: beside the tests, or a folder above.
pub(crate) fn path() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folders = [tests.parent().unwrap(), tests.parent().unwrap().parent().unwrap()];
    let name = format!("{}cuda_standin{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} stands beside the tests"))
}

/// A function of the library by its C name, or a panic that names it.
pub(crate) fn function<F: Copy>(name: &str) -> F {
    // SAFETY: the caller's type is that of the C function of this name.
    let found: Result<Symbol<'_, F>, _> = unsafe { LIBRARY.get(name) };
    *found.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Calls a C function of the library that gives a `CUresult`, and gives that.
macro_rules! call {
    ($name:ident($($arg:expr => $type:ty),* $(,)?)) => {{
        let function: unsafe extern "C" fn($($type),*) -> u32 = $crate::rig::function(stringify!($name));
        // SAFETY: the arguments are what the function takes, and pointers among them live through the call.
        unsafe { function($($arg),*) }
    }};
}
pub(crate) use call;

/// The turn of one test, with `devices` devices and a context of the first current.
pub(crate) struct Rig {
    pub(crate) context: u64,
    pub(crate) devices: u32,
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// Work runs at once.
    pub(crate) fn new(devices: u32) -> Self {
        Self::with(devices, 0)
    }

    /// Work runs when it is waited for.
    pub(crate) fn manual(devices: u32) -> Self {
        Self::with(devices, 1)
    }

    fn with(devices: u32, completion: u32) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let reset: extern "C" fn(u32, u64, u32) -> u32 = function("cuda_standin_reset");
        assert_eq!(reset(devices, 64 << 20, completion), 0, "another test has left something");
        let mut rig = Self { context: 0, devices, _turn: turn };
        assert_eq!(call!(cuInit(0 => u32)), SUCCESS);
        rig.context = rig.retain(0);
        rig.make_current(rig.context);
        rig
    }

    pub(crate) fn retain(&self, device: i32) -> u64 {
        let mut context = 0;
        assert_eq!(call!(cuDevicePrimaryCtxRetain(&mut context => *mut u64, device => i32)), SUCCESS);
        context
    }

    pub(crate) fn make_current(&self, context: u64) {
        assert_eq!(call!(cuCtxSetCurrent(context => u64)), SUCCESS);
    }

    pub(crate) fn live(&self) -> u64 {
        let live: extern "C" fn() -> u64 = function("cuda_standin_live_handles");
        live()
    }

    pub(crate) fn fail(&self, call: &str, nth: u64, result: u32) {
        let fail: extern "C" fn(*const c_char, u64, u32) -> u32 = function("cuda_standin_fail");
        let call = CString::new(call).unwrap();
        assert_eq!(fail(call.as_ptr(), nth, result), 0, "there is such a call");
    }

    pub(crate) fn malloc(&self, bytes: usize) -> u64 {
        let mut ptr = 0;
        assert_eq!(call!(cuMemAlloc_v2(&mut ptr => *mut u64, bytes => usize)), SUCCESS);
        ptr
    }

    pub(crate) fn free(&self, ptr: u64) {
        assert_eq!(call!(cuMemFree_v2(ptr => u64)), SUCCESS);
    }

    /// A stream that does not wait for the default one.
    pub(crate) fn stream(&self) -> u64 {
        self.stream_of(1)
    }

    pub(crate) fn stream_of(&self, flags: u32) -> u64 {
        let mut stream = 0;
        assert_eq!(call!(cuStreamCreate(&mut stream => *mut u64, flags => u32)), SUCCESS);
        stream
    }

    pub(crate) fn end_stream(&self, stream: u64) {
        assert_eq!(call!(cuStreamDestroy_v2(stream => u64)), SUCCESS);
    }

    pub(crate) fn event(&self) -> u64 {
        let mut event = 0;
        assert_eq!(call!(cuEventCreate(&mut event => *mut u64, 0 => u32)), SUCCESS);
        event
    }

    pub(crate) fn end_event(&self, event: u64) {
        assert_eq!(call!(cuEventDestroy_v2(event => u64)), SUCCESS);
    }

    pub(crate) fn upload(&self, dst: u64, bytes: &[u8]) {
        let (src, length) = (bytes.as_ptr(), bytes.len());
        assert_eq!(call!(cuMemcpyHtoD_v2(dst => u64, src => *const u8, length => usize)), SUCCESS);
    }

    pub(crate) fn download(&self, src: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let dst = bytes.as_mut_ptr();
        assert_eq!(call!(cuMemcpyDtoH_v2(dst => *mut u8, src => u64, length => usize)), SUCCESS);
        bytes
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The other tests go on with a machine of their own: what this one leaves goes with its contexts.
            for device in 0..self.devices {
                call!(cuDevicePrimaryCtxReset_v2(device as i32 => i32));
            }
            return;
        }
        let live = self.live();
        call!(cuCtxSetCurrent(0 => u64));
        assert_eq!(live, 0, "the test has left something");
    }
}
