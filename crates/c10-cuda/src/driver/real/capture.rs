#![expect(unsafe_code, reason = "begins, ends and asks about captures")]
//! Stream capture, and the book of nodes.
//!
//! A node is a pointer into its graph, good as long as that is: a node is known here by the capture in which it was
//! seen, as long as that goes on, and then by the graph that came of it. One lock covers the book and the calls that
//! begin and end captures or read what a capture holds: CUDA lets nobody change that meanwhile.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::thread::{self, ThreadId};
use std::{ptr, slice};

use cudarc::driver::sys::{CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Part};

use super::abi::{self, CUgraph, CUgraphNode, CUstream};
use super::driver::RealDriver;
use super::graph::Graph;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{CaptureInfo, CaptureMode, CaptureState, GraphHandle, NodeId, Status, StreamHandle};
use crate::sync::lock;

/// What is known of captures and of the nodes that they have made.
#[derive(Debug, Default)]
pub(super) struct Captures {
    nodes: HashMap<u64, Home>,
    /// The capture that a stream was last seen in: a spoilt one no longer says its number.
    last: HashMap<Seat, u64>,
}

/// A stream, and whose it is where each thread has one of that handle.
type Seat = (StreamHandle, Option<ThreadId>);

fn seat(stream: StreamHandle) -> Seat {
    let of_thread = stream == StreamHandle::per_thread_default(stream.device);
    (stream, of_thread.then(|| thread::current().id()))
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// In the capture of that number, in which the stream takes part.
    Capture(u64, StreamHandle),
    Graph(GraphHandle),
}

/// A stream's part in a capture: its number, where it is not spoilt.
#[derive(Clone, Copy, Debug)]
pub(super) enum InCapture {
    Active(u64),
    Spoilt,
}

impl Captures {
    /// Drops what is known of a graph's nodes.
    pub(super) fn forget_graph(&mut self, graph: GraphHandle) {
        self.nodes.retain(|_, home| *home != Home::Graph(graph));
    }

    /// A capture is over: its nodes are the graph's, if there is one.
    fn ended(&mut self, id: u64, graph: Option<GraphHandle>) {
        let of_it = |home: &Home| matches!(home, Home::Capture(of, _) if *of == id);
        match graph {
            Some(graph) => self.nodes.values_mut().filter(|h| of_it(h)).for_each(|h| *h = Home::Graph(graph)),
            None => self.nodes.retain(|_, home| !of_it(home)),
        }
        self.last.retain(|_, of| *of != id);
    }

    fn seen(&mut self, stream: StreamHandle, part: Option<InCapture>) -> CaptureState {
        match part {
            None => CaptureState::None,
            Some(InCapture::Active(id)) => {
                self.last.insert(seat(stream), id);
                CaptureState::Active { id }
            }
            Some(InCapture::Spoilt) => {
                CaptureState::Invalidated { id: self.last.get(&seat(stream)).copied().unwrap_or(0) }
            }
        }
    }
}

const fn mode_number(mode: CaptureMode) -> c_uint {
    match mode {
        CaptureMode::Global => Mode::CU_STREAM_CAPTURE_MODE_GLOBAL as c_uint,
        CaptureMode::ThreadLocal => Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_uint,
        CaptureMode::Relaxed => Mode::CU_STREAM_CAPTURE_MODE_RELAXED as c_uint,
    }
}

fn mode_of(number: c_uint) -> Result<CaptureMode, Status> {
    let modes = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
    modes.into_iter().find(|mode| mode_number(*mode) == number).ok_or(Status::InvalidValue)
}

/// A stream's part in a capture, out of what the driver says.
fn part_of(status: c_uint, id: u64) -> Option<InCapture> {
    if status == Part::CU_STREAM_CAPTURE_STATUS_NONE as c_uint {
        None
    } else if status == Part::CU_STREAM_CAPTURE_STATUS_ACTIVE as c_uint {
        Some(InCapture::Active(id))
    } else {
        Some(InCapture::Spoilt)
    }
}

impl RealDriver {
    /// Whether a live stream takes part in a capture.
    pub(super) fn part_in_capture(
        &self,
        symbols: &Symbols,
        stream: CUstream,
    ) -> Result<Option<InCapture>, Status> {
        let (mut status, mut id) = (0, 0);
        let no = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is live, there is room for what is asked, and null asks for nothing.
        check(unsafe { (symbols.stream_get_capture_info)(stream, &mut status, &mut id, no.0, no.1, no.2) })?;
        Ok(part_of(status, id))
    }

    pub(super) fn begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<(), Status> {
        let mut captures = lock(&self.captures);
        self.alone_on_stream(stream, |symbols, raw| {
            // SAFETY: the stream is live.
            check(unsafe { (symbols.stream_begin_capture)(raw, mode_number(mode)) })?;
            if let Ok(part) = self.part_in_capture(symbols, raw) {
                captures.seen(stream, part);
            }
            Ok(())
        })
    }

    pub(super) fn end_capture(&self, stream: StreamHandle) -> Result<GraphHandle, Status> {
        let mut captures = lock(&self.captures);
        let device = stream.device;
        self.alone_on_stream(stream, |symbols, raw| {
            let before = self.part_in_capture(symbols, raw)?;
            let id = match captures.seen(stream, before) {
                CaptureState::Active { id } | CaptureState::Invalidated { id } => id,
                CaptureState::None => 0,
            };
            let mut graph: CUgraph = ptr::null_mut();
            // SAFETY: the stream is live, and there is room for one graph.
            let ended = check(unsafe { (symbols.stream_end_capture)(raw, &mut graph) });
            if let Err(status) = ended {
                if matches!(self.part_in_capture(symbols, raw), Ok(None)) {
                    captures.ended(id, None);
                }
                return Err(status);
            }
            let graph = GraphHandle { device, raw: abi::number(graph) };
            captures.ended(id, Some(graph));
            self.graphs.insert(graph.raw, Graph { device });
            Ok(graph)
        })
    }

    pub(super) fn state_of_capture(&self, stream: StreamHandle) -> Result<CaptureState, Status> {
        let part = self.on_stream(stream, |symbols, raw| self.part_in_capture(symbols, raw))?;
        // Most streams take part in none, and no lock is needed to say so.
        if part.is_none() { Ok(CaptureState::None) } else { Ok(lock(&self.captures).seen(stream, part)) }
    }

    pub(super) fn info_of_capture(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>, Status> {
        let mut captures = lock(&self.captures);
        self.alone_on_stream(stream, |symbols, raw| {
            let (mut status, mut id, mut count) = (0, 0, 0);
            let mut graph: CUgraph = ptr::null_mut();
            let mut nodes: *const CUgraphNode = ptr::null();
            // SAFETY: the stream is live, and there is room for all that is asked.
            check(unsafe {
                (symbols.stream_get_capture_info)(
                    raw,
                    &mut status,
                    &mut id,
                    &mut graph,
                    &mut nodes,
                    &mut count,
                )
            })?;
            let part = part_of(status, id);
            let id = match captures.seen(stream, part) {
                CaptureState::None => return Ok(None),
                CaptureState::Active { id } | CaptureState::Invalidated { id } => id,
            };
            let active = matches!(part, Some(InCapture::Active(_))) && !nodes.is_null();
            let nodes: &[CUgraphNode] = match active {
                // SAFETY: the driver says that so many nodes are there until a call changes what the stream holds, and
                // no call uses the stream or ends the capture meanwhile.
                true => unsafe { slice::from_raw_parts(nodes, count) },
                false => &[],
            };
            let dependencies = captures.note(nodes, Home::Capture(id, stream));
            Ok(Some(CaptureInfo { id, dependencies }))
        })
    }

    /// What a node depends on, asked of its graph, or of its capture as long as that goes on.
    pub(super) fn dependencies_of(&self, node: NodeId) -> Result<Vec<NodeId>, Status> {
        let mut captures = lock(&self.captures);
        let home = *captures.nodes.get(&node.0).ok_or(Status::InvalidHandle)?;
        let nodes = match home {
            Home::Graph(graph) => self.alone_on_graph(graph, |symbols, _| dependencies(symbols, node)),
            Home::Capture(id, stream) => self.on_stream(stream, |symbols, raw| {
                match self.part_in_capture(symbols, raw)? {
                    Some(InCapture::Active(now)) if now == id => dependencies(symbols, node),
                    // Somebody else ended it, or spoilt it.
                    _ => Err(Status::InvalidHandle),
                }
            }),
        }?;
        Ok(captures.note(&nodes, home))
    }

    pub(super) fn exchange_mode(&self, mode: CaptureMode) -> Result<CaptureMode, Status> {
        let mut number = mode_number(mode);
        // SAFETY: there is room for the mode that was.
        check(unsafe { (self.library.symbols.thread_exchange_stream_capture_mode)(&mut number) })?;
        mode_of(number)
    }
}

impl Captures {
    /// Writes nodes down, and gives them as handles.
    fn note(&mut self, nodes: &[CUgraphNode], home: Home) -> Vec<NodeId> {
        let mut handles = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let node = NodeId(abi::number(node));
            self.nodes.entry(node.0).or_insert(home);
            handles.push(node);
        }
        handles
    }
}

/// What a node of a live graph depends on.
fn dependencies(symbols: &Symbols, node: NodeId) -> Result<Vec<CUgraphNode>, Status> {
    let node: CUgraphNode = abi::pointer(node.0);
    let mut count = 0;
    // SAFETY: the node is live, and null asks for the number alone.
    check(unsafe { (symbols.graph_node_get_dependencies)(node, ptr::null_mut(), &mut count) })?;
    let mut nodes = vec![ptr::null_mut(); count];
    if count != 0 {
        // SAFETY: the node is live, and there is room for as many as `count` says.
        check(unsafe { (symbols.graph_node_get_dependencies)(node, nodes.as_mut_ptr(), &mut count) })?;
        nodes.truncate(count);
    }
    Ok(nodes)
}
