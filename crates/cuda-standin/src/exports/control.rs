//! What tests ask of the stand-in beside CUDA's functions.

use crate::abi::{Code, Text};
use crate::entry::machine;
use crate::environment::Settings;
use crate::kernels;

/// What a refused argument is answered with where 0 says that it went well.
const REFUSED: u32 = u32::MAX;

macro_rules! controls {
    ($($(#[doc = $doc:literal])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            $(#[doc = $doc])*
            #[allow(unsafe_code, reason = "the name under which tests find it")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($arg: $type),*) -> $result $body
        )*
    };
}

controls! {
    /// A new machine: `completion` is 0 for at once, 1 for when waited for. 0 says that it is there; otherwise the
    /// result is how many handles are still live, and nothing has been done.
    fn cuda_standin_reset(devices: u32, bytes: u64, completion: u32) -> u32 {
        let Some(settings) = Settings::of_reset(devices, bytes, completion) else { return REFUSED };
        let mut guard = machine();
        let live = guard.as_mut().map_or(0, |machine| machine.reset(settings));
        u32::try_from(live).unwrap_or(REFUSED)
    }

    /// How many streams, events, graphs, launchable graphs, modules, allocations, reservations, physical memories,
    /// host allocations and registrations, and openings there are that nobody has given back.
    fn cuda_standin_live_handles() -> u64 {
        machine().as_ref().map_or(0, |machine| machine.live_handles())
    }

    /// How many contexts there are, each primary one as often as it is retained.
    fn cuda_standin_live_contexts() -> u64 {
        machine().as_ref().map_or(0, |machine| machine.live_contexts())
    }

    /// How many handles have ended with their context, and not by a call of their own, since the last reset.
    fn cuda_standin_swept_handles() -> u64 {
        machine().as_ref().map_or(0, |machine| machine.swept)
    }

    /// The `nth` call from here of a function, 1 being the next, fails once with `result`. 0 says that it will.
    fn cuda_standin_fail(call: Text<'_>, nth: u64, result: u32) -> u32 {
        let Ok(name) = call.to_str() else { return REFUSED };
        if super::symbol(name).is_none() || result == 0 {
            return REFUSED;
        }
        if let Some(machine) = machine().as_mut() {
            machine.plan.add(name, nth, Code(result));
        }
        0
    }

    /// No call fails any more because it was told to; how many there were that would have.
    fn cuda_standin_fail_clear() -> u64 {
        machine().as_mut().map_or(0, |machine| machine.plan.clear())
    }

    /// A device is lost: until its contexts have ended, every call in them fails with `result`. 0 says that it is.
    fn cuda_standin_lose(device: u32, result: u32) -> u32 {
        let mut guard = machine();
        let Some(machine) = guard.as_mut() else { return REFUSED };
        match i32::try_from(device).map(|ordinal| machine.device(ordinal)) {
            Ok(Ok(device)) if Code(result).is_sticky() => machine.lose(device, Code(result)),
            _ => return REFUSED,
        }
        0
    }

    /// How many calls of CUDA's functions there have been.
    fn cuda_standin_calls() -> u64 {
        machine().as_ref().map_or(0, |machine| machine.calls)
    }

    /// Says what functions of a name do, in modules that are loaded from here on. 0 says that it is so.
    fn cuda_standin_register_kernel(
        name: Text<'_>,
        accesses: Option<kernels::Accesses>,
        body: Option<kernels::Body>
    ) -> u32 {
        let (Ok(name), Some(accesses), Some(body)) = (name.to_str(), accesses, body) else { return REFUSED };
        kernels::register(name, accesses, body).map_or(REFUSED, |()| 0)
    }

    /// Runs all work that has been issued.
    fn cuda_standin_complete_all() -> () {
        if let Some(machine) = machine().as_mut() {
            machine.complete_all();
        }
    }
}
