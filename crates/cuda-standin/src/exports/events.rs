//! Events.

use c10_cuda::driver::Driver;

use crate::abi::{Code, Handle, Out, Outcome};
use crate::entry::exports;
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
    let captured = !external && machine.is_capturing(on)?;
    machine.recorded(event, on, captured)
}

fn elapsed(machine: &Machine, ms: &Out<f32>, start: Handle, end: Handle) -> Outcome {
    ms.check()?;
    let (start, end) = (machine.event(start)?.sim, machine.event(end)?.sim);
    ms.put(machine.sim.event_elapsed_ms(start, end)?)
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
        if machine.sim.event_query(sim)? {
            return Ok(());
        }
        if let Some(stream) = recorded_on {
            machine.go_on(stream);
        }
        Err(Code::NOT_READY)
    }

    Context fn cuEventSynchronize(event: Handle) |machine| {
        let sim = machine.event(event)?.sim;
        Ok(machine.sim.event_synchronize(sim)?)
    }

    Context fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) |machine| {
        if flags & !EXTERNAL != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let on = machine.stream(stream)?;
        let sim = machine.event(event)?.sim;
        machine.before_work(on)?;
        Ok(machine.sim.stream_wait_event(on.sim, sim)?)
    }

    Context fn cuEventElapsedTime(ms: Out<f32>, start: Handle, end: Handle) |machine| {
        elapsed(machine, &ms, start, end)
    }

    Context fn cuEventElapsedTime_v2(ms: Out<f32>, start: Handle, end: Handle) |machine| {
        elapsed(machine, &ms, start, end)
    }
}
