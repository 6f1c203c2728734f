//! Reuse inside a capture (`graph_capture_record_stream_reuse`): a block that several streams used serves again as
//! soon as the graph shows that whatever comes on its stream follows all of its uses.
//!
//! When such a block is freed, the nodes on which the next nodes of its streams will depend are its *markers*. Once
//! every marker is an ancestor of what the block's own stream will depend on next, each later node of that stream
//! follows each use.

use super::deferred::Deferred;
use super::device::{DeviceState, Locked};
use super::ids::BlockId;
use crate::driver::{CaptureInfo, DriverError, NodeId, StreamHandle};

impl Locked<'_> {
    /// The markers of a block that is freed in a capture; none where one of its streams takes no part in the
    /// capture that the others do.
    pub(crate) fn free_markers(&self, id: BlockId) -> Result<Vec<NodeId>, DriverError> {
        if !self.config.graph_capture_record_stream_reuse {
            return Ok(Vec::new());
        }
        let block = &self.blocks[id];
        let own = self.stream(block.stream);
        let mut markers = Vec::new();
        let mut capture = None;
        for stream in block.stream_uses.iter().copied().chain([own]) {
            let Some(CaptureInfo { id, dependencies }) = self.driver().capture_info(stream)? else {
                return Ok(Vec::new());
            };
            if *capture.get_or_insert(id) != id {
                return Ok(Vec::new());
            }
            markers.extend(dependencies);
        }
        markers.sort_unstable();
        markers.dedup();
        Ok(markers)
    }

    /// Frees the deferred blocks of a capturing stream of which the graph shows that they are free
    /// (`free_safe_blocks_in_capture`).
    pub(crate) fn free_safe_blocks(&mut self, stream: u64) -> Result<(), DriverError> {
        let candidate = |deferred: &Deferred| !deferred.markers.is_empty();
        if !self.config.graph_capture_record_stream_reuse || !self.deferred.iter().any(candidate) {
            return Ok(());
        }
        let on = self.stream(stream);
        let Some(CaptureInfo { id: capture, dependencies }) = self.driver().capture_info(on)? else {
            return Ok(());
        };
        self.visit(capture, on, dependencies)?;
        let DeviceState { deferred, blocks, visited, .. } = &mut **self;
        let visited = &visited[&(capture, on)];
        let safe = deferred.take(|deferred| {
            candidate(deferred)
                && blocks[deferred.block].stream == stream
                && blocks[deferred.block].stream_uses.events == 0
                && deferred.markers.iter().all(|marker| visited.contains(marker))
        });
        for id in safe {
            self.blocks[id].stream_uses.clear();
            self.free_block(id);
        }
        Ok(())
    }

    /// Adds the ancestors of some nodes to what a stream's next node follows. What it has followed once it does
    /// from then on.
    fn visit(&mut self, capture: u64, on: StreamHandle, ends: Vec<NodeId>) -> Result<(), DriverError> {
        let mut visited = self.visited.remove(&(capture, on)).unwrap_or_default();
        let mut todo = ends;
        while let Some(node) = todo.pop() {
            if visited.contains(&node) {
                continue;
            }
            todo.extend(self.driver().node_dependencies(node)?);
            visited.insert(node);
        }
        self.visited.insert((capture, on), visited);
        Ok(())
    }
}
