#![expect(unsafe_code, reason = "calls the stand-in's functions, whose types its documentation fixes")]
//! What tests ask of the stand-in beside CUDA's functions, and of any CUDA driver beside ours.

use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;

/// The library that the driver was loaded from, opened once more.
pub(crate) struct Library(ManuallyDrop<libloading::Library>);

impl Library {
    /// The library, if there is one.
    pub(crate) fn open() -> Option<Self> {
        ["libcuda.so.1", "libcuda.so"].into_iter().find_map(|name| {
            // SAFETY: it is loaded already, or none is.
            let library = unsafe { libloading::Library::new(name) }.ok()?;
            Some(Self(ManuallyDrop::new(library)))
        })
    }

    /// A function of that type.
    fn find<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: each caller here gives the type that is documented for the name.
        unsafe { self.0.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// The context that is current on this thread, as a number.
    pub(crate) fn current_context(&self) -> usize {
        let current = self.find::<unsafe extern "C" fn(*mut usize) -> u32>("cuCtxGetCurrent");
        let mut context = 0;
        // SAFETY: there is room for one pointer.
        assert_eq!(unsafe { current.expect("every driver has it")(&mut context) }, 0);
        context
    }

    /// The stand-in's control functions, if this is it.
    pub(crate) fn control(&self) -> Option<Control> {
        Some(Control {
            reset: self.find("cuda_standin_reset")?,
            live_handles: self.find("cuda_standin_live_handles")?,
            live_contexts: self.find("cuda_standin_live_contexts")?,
            swept_handles: self.find("cuda_standin_swept_handles")?,
            fail: self.find("cuda_standin_fail")?,
            fail_clear: self.find("cuda_standin_fail_clear")?,
            lose: self.find("cuda_standin_lose")?,
            calls: self.find("cuda_standin_calls")?,
        })
    }
}

/// When the stand-in does what is issued.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Completion {
    Eager = 0,
    /// When it is waited for.
    Manual = 1,
}

/// The stand-in's control functions.
#[derive(Clone, Copy)]
pub(crate) struct Control {
    reset: unsafe extern "C" fn(u32, u64, u32) -> u32,
    live_handles: unsafe extern "C" fn() -> u64,
    live_contexts: unsafe extern "C" fn() -> u64,
    swept_handles: unsafe extern "C" fn() -> u64,
    fail: unsafe extern "C" fn(*const c_char, u64, u32) -> u32,
    fail_clear: unsafe extern "C" fn() -> u64,
    lose: unsafe extern "C" fn(u32, u32) -> u32,
    calls: unsafe extern "C" fn() -> u64,
}

impl Control {
    /// A new machine.
    pub(crate) fn reset(&self, devices: u32, bytes: u64, completion: Completion) {
        // SAFETY: the function takes these numbers.
        let live = unsafe { (self.reset)(devices, bytes, completion as u32) };
        assert_eq!(live, 0, "handles of an earlier machine are live");
    }

    /// How many handles nobody has given back.
    pub(crate) fn live_handles(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.live_handles)() }
    }

    /// How many contexts are retained.
    pub(crate) fn live_contexts(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.live_contexts)() }
    }

    /// How many handles ended with their context alone.
    pub(crate) fn swept_handles(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.swept_handles)() }
    }

    /// The `nth` call of a function from here fails.
    pub(crate) fn fail(&self, call: &str, nth: u64, result: u32) {
        let name = CString::new(call).unwrap();
        // SAFETY: the name ends with a NUL and outlives the call.
        assert_eq!(unsafe { (self.fail)(name.as_ptr(), nth, result) }, 0, "{call} is none of the stand-in's");
    }

    /// No call fails any more; how many failures were still to come.
    pub(crate) fn fail_clear(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.fail_clear)() }
    }

    /// The device answers everything with this from now on.
    pub(crate) fn lose(&self, device: u32, result: u32) {
        // SAFETY: the function takes these numbers.
        assert_eq!(unsafe { (self.lose)(device, result) }, 0);
    }

    /// How many calls there have been.
    pub(crate) fn calls(&self) -> u64 {
        // SAFETY: the function takes nothing.
        unsafe { (self.calls)() }
    }
}
