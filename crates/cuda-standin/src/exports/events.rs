//! Events.

use c10_cuda::driver::Driver;

use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::{Needs, Wait, call_waiting, exports};
use crate::ipc::SharedEvent;
use crate::machine::Machine;

/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`.
const EXTERNAL: u32 = 1;

fn record(machine: &mut Machine, event: Handle, stream: Handle, external: bool) -> Outcome {
    let on = machine.stream(stream)?;
    let found = machine.event(event)?;
    if found.context != on.context {
        return Err(Code::INVALID_HANDLE);
    }
    let sim = found.sim;
    machine.before_work(on)?;
    if external {
        machine.sim.event_record_external(sim, on.sim)?;
    } else {
        machine.sim.event_record(sim, on.sim)?;
    }
    machine.recorded(event, on, external)
}

fn elapsed(machine: &Machine, ms: &Out<f32>, start: Handle, end: Handle) -> Outcome {
    ms.check()?;
    let (start, end) = (machine.event(start)?.sim, machine.event(end)?.sim);
    ms.put(machine.sim.event_elapsed_ms(start, end)?)
}

/// Waits until an event's work is over; in another process, if it is that one's.
fn synchronize(machine: &mut Machine, event: Handle) -> Outcome<Wait> {
    let found = machine.event(event)?;
    if let Some(ready) = found.shared.as_ref().and_then(SharedEvent::ready_elsewhere) {
        return Ok(if ready { Wait::Over } else { Wait::Longer });
    }
    machine.sim.event_synchronize(found.sim)?;
    Ok(Wait::Over)
}

/// Makes a stream wait. For another process's event the host waits, before what is issued next on the stream.
fn wait_event(machine: &mut Machine, stream: Handle, event: Handle, flags: u32) -> Outcome<Wait> {
    if flags & !EXTERNAL != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let on = machine.stream(stream)?;
    let found = machine.event(event)?;
    if let Some(ready) = found.shared.as_ref().and_then(SharedEvent::ready_elsewhere) {
        return Ok(if ready { Wait::Over } else { Wait::Longer });
    }
    let sim = found.sim;
    machine.before_work(on)?;
    machine.sim.stream_wait_event(on.sim, sim)?;
    Ok(Wait::Over)
}

exports! {
    Context fn cuEventCreate(event: Out<Handle>, flags: u32) |machine| {
        event.check()?;
        event.put(machine.create_event(flags)?)
    }

    GiveBack fn cuEventDestroy_v2(event: Handle) |machine| { machine.destroy_event(event) }

    Context fn cuEventRecord(event: Handle, stream: Handle) |machine| { record(machine, event, stream, false) }

    Context fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) |machine| {
        if flags & !EXTERNAL != 0 {
            return Err(Code::INVALID_VALUE);
        }
        record(machine, event, stream, flags == EXTERNAL)
    }

    Context fn cuEventQuery(event: Handle) |machine| {
        let found = machine.event(event)?;
        let (sim, recorded_on) = (found.sim, found.recorded_on);
        let elsewhere = found.shared.as_ref().and_then(SharedEvent::ready_elsewhere);
        let ready = match elsewhere {
            Some(ready) => ready,
            None => machine.sim.event_query(sim)?,
        };
        if ready {
            return Ok(());
        }
        if let Some(stream) = recorded_on {
            machine.go_on(stream);
        }
        Err(Code::NOT_READY)
    }

    Context fn cuEventElapsedTime(ms: Out<f32>, start: Handle, end: Handle) |machine| {
        elapsed(machine, &ms, start, end)
    }

    Context fn cuEventElapsedTime_v2(ms: Out<f32>, start: Handle, end: Handle) |machine| {
        elapsed(machine, &ms, start, end)
    }
}

/// The entry points that may have to wait for another process.
pub(super) const WAITING: &[super::Symbol] = &[
    ("cuEventSynchronize", cuEventSynchronize as *const ()),
    ("cuStreamWaitEvent", cuStreamWaitEvent as *const ()),
];

#[allow(unsafe_code, non_snake_case, reason = "the name under which C programs find it")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    call_waiting("cuEventSynchronize", Needs::Context, |machine| synchronize(machine, event))
}

#[allow(unsafe_code, non_snake_case, reason = "the name under which C programs find it")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> Code {
    call_waiting("cuStreamWaitEvent", Needs::Context, |machine| wait_event(machine, stream, event, flags))
}
