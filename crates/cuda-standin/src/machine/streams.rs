//! Streams and events: whose they are, and what a program's stream argument means.
//!
//! The legacy default stream waits for the blocking streams of its context, and they for it. Where work runs when it
//! is issued there is nothing to wait for; otherwise each of them has an event of the machine's own by which it does.

use std::cell::RefCell;

use c10_cuda::driver::{CaptureState, Driver, EventFlags, EventHandle, StreamHandle};

use super::Machine;
use crate::abi::{Code, Handle, Outcome};
use crate::ipc::SharedEvent;

/// A stream that the program made.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) sim: StreamHandle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    /// What the program was last told that its next node depends on: it holds a pointer to it.
    dependencies: Vec<Handle>,
    /// By which the legacy default stream waits for it.
    barrier: Option<EventHandle>,
}

impl Stream {
    pub(crate) const NON_BLOCKING: u32 = 1;

    fn is_blocking(&self) -> bool {
        self.flags & Self::NON_BLOCKING == 0
    }
}

/// An event that the program made or opened.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) sim: EventHandle,
    pub(crate) flags: u32,
    /// Where it was last recorded: that stream goes on when it is asked.
    pub(crate) recorded_on: Option<StreamHandle>,
    /// What other processes see of it.
    pub(crate) shared: Option<SharedEvent>,
}

impl Event {
    pub(crate) const BLOCKING_SYNC: u32 = 1;
    pub(crate) const DISABLE_TIMING: u32 = 2;
    pub(crate) const INTERPROCESS: u32 = 4;
}

/// Which stream a program means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

/// A stream argument, looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnStream {
    pub(crate) context: Handle,
    pub(crate) sim: StreamHandle,
    pub(crate) kind: StreamKind,
}

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: Handle = Handle(1);
const PER_THREAD: Handle = Handle(2);

thread_local! {
    /// As [`Stream::dependencies`], of the thread's own default stream.
    static DEPENDENCIES: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

impl Machine {
    /// Keeps what the next node of a stream that captures depends on: the program reads it until it next asks about the
    /// stream. Where it is.
    pub(crate) fn keep_dependencies(&mut self, stream: Handle, nodes: Vec<Handle>) -> *const Handle {
        match self.streams.get_mut(stream) {
            Ok(found) => {
                found.dependencies = nodes;
                found.dependencies.as_ptr()
            }
            Err(_) => DEPENDENCIES.with_borrow_mut(|kept| {
                *kept = nodes;
                kept.as_ptr()
            }),
        }
    }

    /// The stream that an argument means, in a context that works. The default ones are the current context's.
    pub(crate) fn stream(&self, stream: Handle) -> Outcome<OnStream> {
        let on = self.stream_even_if_lost(stream)?;
        self.check_context(on.context)?;
        Ok(on)
    }

    /// The same, whether its context works or not.
    pub(crate) fn stream_even_if_lost(&self, stream: Handle) -> Outcome<OnStream> {
        if stream.is_null() || stream == LEGACY {
            let (context, found) = self.current_context()?;
            let sim = StreamHandle::default_of(found.device);
            return Ok(OnStream { context, sim, kind: StreamKind::Legacy });
        }
        if stream == PER_THREAD {
            let (context, found) = self.current_context()?;
            let sim = StreamHandle::per_thread_default(found.device);
            return Ok(OnStream { context, sim, kind: StreamKind::PerThread });
        }
        let found = self.streams.get(stream)?;
        let kind = if found.is_blocking() { StreamKind::Blocking } else { StreamKind::NonBlocking };
        Ok(OnStream { context: found.context, sim: found.sim, kind })
    }

    /// The same, for work that has to be of the current context, as launches have.
    pub(crate) fn stream_here(&self, stream: Handle) -> Outcome<OnStream> {
        let on = self.stream(stream)?;
        if on.context == self.current_context()?.0 { Ok(on) } else { Err(Code::INVALID_HANDLE) }
    }

    /// Whether a context is there and works.
    fn check_context(&self, context: Handle) -> Outcome {
        let context = self.contexts.get(context).map_err(|_| Code::CONTEXT_IS_DESTROYED)?;
        context.lost.map_or(Ok(()), Err)
    }

    pub(crate) fn event(&self, event: Handle) -> Outcome<&Event> {
        let found = self.events.get(event)?;
        self.check_context(found.context)?;
        Ok(found)
    }

    pub(crate) fn create_stream(&mut self, flags: u32, priority: i32) -> Outcome<Handle> {
        if flags & !Stream::NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (context, found) = self.current_context()?;
        let device = found.device;
        let (least, greatest) = self.sim.stream_priority_range(device)?;
        let priority = priority.clamp(greatest, least);
        let sim = self.sim.stream_create(device, priority)?;
        let id = self.next_number();
        let dependencies = Vec::new();
        Ok(self.streams.insert(Stream { context, sim, flags, priority, id, dependencies, barrier: None }))
    }

    pub(crate) fn destroy_stream(&mut self, stream: Handle) -> Outcome {
        let found = self.streams.get(stream)?;
        self.sim.stream_destroy(found.sim)?;
        let gone = self.streams.remove(stream)?;
        if let Some(barrier) = gone.barrier {
            self.sim.event_destroy(barrier)?;
        }
        Ok(())
    }

    pub(crate) fn create_event(&mut self, flags: u32) -> Outcome<Handle> {
        let known = Event::BLOCKING_SYNC | Event::DISABLE_TIMING | Event::INTERPROCESS;
        let has = |flag| flags & flag != 0;
        if has(!known) || (has(Event::INTERPROCESS) && !has(Event::DISABLE_TIMING)) {
            return Err(Code::INVALID_VALUE);
        }
        let (context, found) = self.current_context()?;
        let sim_flags = EventFlags {
            timing: !has(Event::DISABLE_TIMING),
            blocking_sync: has(Event::BLOCKING_SYNC),
            interprocess: has(Event::INTERPROCESS),
        };
        let sim = self.sim.event_create(found.device, sim_flags)?;
        Ok(self.events.insert(Event { context, sim, flags, recorded_on: None, shared: None }))
    }

    pub(crate) fn destroy_event(&mut self, event: Handle) -> Outcome {
        let found = self.events.get(event)?;
        self.sim.event_destroy(found.sim)?;
        self.events.remove(event)?;
        Ok(())
    }

    pub(crate) fn is_capturing(&self, on: OnStream) -> Outcome<bool> {
        if self.captures.is_empty() {
            return Ok(false);
        }
        Ok(self.sim.capture_state(on.sim)? != CaptureState::None)
    }

    /// What comes before work is issued: the waits between the legacy default stream and blocking ones.
    pub(crate) fn before_work(&mut self, on: OnStream) -> Outcome {
        match on.kind {
            // The simulator's per-thread streams keep order with the default one by themselves.
            StreamKind::NonBlocking | StreamKind::PerThread => Ok(()),
            StreamKind::Legacy => self.before_legacy(on),
            StreamKind::Blocking => self.after_legacy(on),
        }
    }

    fn blocking_streams(&self, context: Handle) -> Vec<Handle> {
        self.streams.handles(|stream| stream.context == context && stream.is_blocking())
    }

    fn before_legacy(&mut self, on: OnStream) -> Outcome {
        let spoilt = self.refuse_implicit_capture(on.context)?;
        if spoilt {
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
        if self.is_eager() {
            return Ok(());
        }
        for stream in self.blocking_streams(on.context) {
            let found = self.streams.get_mut(stream)?;
            let barrier = match found.barrier {
                Some(barrier) => barrier,
                None => self.sim.event_create(on.sim.device, EventFlags::default())?,
            };
            found.barrier = Some(barrier);
            self.sim.event_record(barrier, found.sim)?;
            self.sim.stream_wait_event(on.sim, barrier)?;
        }
        Ok(())
    }

    fn after_legacy(&mut self, on: OnStream) -> Outcome {
        if self.is_eager() || self.is_capturing(on)? {
            return Ok(());
        }
        let barrier = self.sim.event_create(on.sim.device, EventFlags::default())?;
        let waits = self
            .sim
            .event_record(barrier, StreamHandle::default_of(on.sim.device))
            .and_then(|()| self.sim.stream_wait_event(on.sim, barrier));
        self.sim.event_destroy(barrier)?;
        Ok(waits?)
    }

    /// Spoils the captures of a context's blocking streams, which the legacy default stream would have to wait for.
    /// Whether there are any.
    fn refuse_implicit_capture(&mut self, context: Handle) -> Outcome<bool> {
        let mut spoilt = false;
        if self.captures.is_empty() {
            return Ok(spoilt);
        }
        for stream in self.blocking_streams(context) {
            let sim = self.streams.get(stream)?.sim;
            if self.sim.capture_state(sim)? != CaptureState::None {
                // A query is what spoils a capture.
                let _spoils = self.sim.stream_query(sim);
                spoilt = true;
            }
        }
        Ok(spoilt)
    }

    /// What comes before a wait for a stream, or a question whether it is ready: the legacy default stream stands for
    /// the blocking ones, too.
    pub(crate) fn before_wait(&mut self, on: OnStream) -> Outcome {
        if on.kind == StreamKind::Legacy { self.before_legacy(on) } else { Ok(()) }
    }

    /// Refuses to say whether the legacy default stream captures while a blocking stream does.
    pub(crate) fn refuse_legacy_question(&self, on: OnStream) -> Outcome {
        if on.kind != StreamKind::Legacy || self.captures.is_empty() {
            return Ok(());
        }
        for stream in self.blocking_streams(on.context) {
            if self.sim.capture_state(self.streams.get(stream)?.sim)? != CaptureState::None {
                return Err(Code::STREAM_CAPTURE_IMPLICIT);
            }
        }
        Ok(())
    }

    /// An event has been recorded: in a capture it stands for a node, unless it is recorded for what is outside.
    pub(crate) fn recorded(&mut self, event: Handle, on: OnStream, external: bool) -> Outcome {
        let captures = self.is_capturing(on)?;
        self.events.get_mut(event)?.recorded_on = (!captures).then_some(on.sim);
        if captures && !external { Ok(()) } else { self.tell_when_over(event, on, captures) }
    }

    /// Lets a stream go on after it was asked and was not done: a program that asks in a loop gets to the end.
    pub(crate) fn go_on(&self, stream: StreamHandle) {
        if !self.sim.step(stream) {
            self.sim.complete_stream(stream);
        }
    }
}
