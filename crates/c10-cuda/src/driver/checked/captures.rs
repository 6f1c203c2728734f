//! R7, as far as captures begin and end.

use super::Checked;
use crate::driver::{CaptureState, GraphHandle, Result, StreamHandle};

impl Checked {
    /// Both duties of a capture's beginning.
    pub(super) fn capture_begun(
        &self,
        stream: StreamHandle,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut books = self.books();
        let allowed = stream.raw != 0 && !books.origins.contains(&stream);
        self.expect(allowed, "R7", format_args!("a capture begins on {stream:?}, which cannot begin one"));
        let result = self.on_stream(&books, stream, call);
        self.refused(allowed, &result, "R7", format_args!("a capture on {stream:?}"));
        if result.is_ok() {
            books.origins.insert(stream);
        }
        result
    }

    /// Both duties of a capture's end.
    pub(super) fn capture_ended(
        &self,
        stream: StreamHandle,
        call: impl FnOnce() -> Result<GraphHandle>,
    ) -> Result<GraphHandle> {
        let mut books = self.books();
        let began = books.origins.contains(&stream);
        self.expect(began, "R7", format_args!("{stream:?} ends a capture that did not begin there"));
        let result = self.on_stream(&books, stream, call);
        self.refused(
            began,
            &result,
            "R7",
            format_args!("the end of a capture that did not begin on {stream:?}"),
        );
        if matches!(self.inner.capture_state(stream), Ok(CaptureState::None)) {
            books.origins.remove(&stream);
        }
        if let Ok(graph) = result {
            assert!(books.graphs.insert(graph), "R2: stream_end_capture gave {graph:?}, which is live");
        }
        result
    }
}
