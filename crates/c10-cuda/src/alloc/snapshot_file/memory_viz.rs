//! The keys of `torch.cuda.memory._dump_snapshot`, in PyTorch's order.

use std::collections::HashMap;
use std::io::{self, Write};

use super::pickle::{Memo, Pickle};
use crate::alloc::context::Context;
use crate::alloc::{BlockInfo, SegmentInfo, Snapshot, TraceAction, TraceEntry};
use crate::config::Config;

impl Snapshot {
    /// Writes the file that `torch.cuda.memory._dump_snapshot` would: a pickle that PyTorch's viewer and
    /// `torch/cuda/_memory_viz.py` open. Its size is in proportion to the blocks and entries of the snapshot, each
    /// stack being written once.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_pickle(&self, out: impl Write) -> io::Result<()> {
        let mut file = File { pickle: Pickle::new(out)?, stacks: HashMap::new() };
        file.snapshot(self)?;
        file.pickle.finish()
    }
}

struct File<W> {
    pickle: Pickle<W>,
    /// The lists of frames that are written, by [`Context::identity`].
    stacks: HashMap<usize, Memo>,
}

impl<W: Write> File<W> {
    fn snapshot(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.pickle.begin_dict()?;
        self.pickle.text("segments")?;
        self.list(&snapshot.segments, Self::segment)?;
        self.pickle.text("device_traces")?;
        self.list(&snapshot.device_traces, |file, trace| file.list(trace, Self::entry))?;
        self.pickle.text("allocator_settings")?;
        self.settings(&snapshot.config)?;
        // Nothing records what they would hold.
        for key in ["external_annotations", "host_segments", "host_traces"] {
            self.pickle.text(key)?;
            self.pickle.empty_list()?;
        }
        self.pickle.end_dict()
    }

    fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        if items.is_empty() {
            return self.pickle.empty_list();
        }
        self.pickle.begin_list()?;
        for item in items {
            self.pickle.item()?;
            write(self, item)?;
        }
        self.pickle.end_list()
    }

    fn number(&mut self, key: &str, number: impl Into<i128>) -> io::Result<()> {
        self.pickle.text(key)?;
        self.pickle.int(number)
    }

    fn flag(&mut self, key: &str, flag: bool) -> io::Result<()> {
        self.pickle.text(key)?;
        self.pickle.bool(flag)
    }

    fn word(&mut self, key: &str, word: &str) -> io::Result<()> {
        self.pickle.text(key)?;
        self.pickle.text(word)
    }

    fn segment(&mut self, segment: &SegmentInfo) -> io::Result<()> {
        self.pickle.begin_dict()?;
        self.number("device", segment.stream.device)?;
        self.number("address", segment.address.0)?;
        self.number("total_size", segment.total_size)?;
        self.number("allocated_size", segment.allocated_size)?;
        self.number("active_size", segment.active_size)?;
        self.number("requested_size", segment.requested_size)?;
        self.number("stream", segment.stream.raw)?;
        self.word("segment_type", if segment.is_large { "large" } else { "small" })?;
        self.pickle.text("segment_pool_id")?;
        self.pickle.pair(segment.pool.first, segment.pool.second)?;
        self.flag("is_expandable", segment.is_expandable)?;
        self.pickle.text("frames")?;
        self.frames(segment.context.as_ref())?;
        self.pickle.text("blocks")?;
        let mut address = segment.address.0;
        self.list(&segment.blocks, |file, block| {
            file.block(address, block)?;
            address += block.size;
            Ok(())
        })?;
        self.pickle.end_dict()
    }

    fn block(&mut self, address: u64, block: &BlockInfo) -> io::Result<()> {
        self.pickle.begin_dict()?;
        self.number("address", address)?;
        self.number("size", block.size)?;
        self.number("requested_size", block.requested_size)?;
        self.word("state", block.state.name())?;
        self.pickle.text("frames")?;
        self.frames(block.context.as_ref())?;
        self.pickle.end_dict()
    }

    fn entry(&mut self, entry: &TraceEntry) -> io::Result<()> {
        self.pickle.begin_dict()?;
        self.word("action", entry.action.name())?;
        let address = if entry.action == TraceAction::Oom { "device_free" } else { "addr" };
        self.number(address, entry.address)?;
        self.number("size", entry.size)?;
        self.number("stream", entry.stream.raw)?;
        self.number("time_us", entry.time_us)?;
        self.word("compile_context", entry.compile_context.as_deref().unwrap_or("N/A"))?;
        self.word("user_metadata", entry.user_metadata.as_deref().unwrap_or(""))?;
        self.pickle.text("pool_id")?;
        self.pickle.pair(entry.pool.first, entry.pool.second)?;
        self.pickle.text("frames")?;
        self.frames(entry.context.as_ref())?;
        self.pickle.end_dict()
    }

    /// A list of frames, each stack once in the file.
    fn frames(&mut self, context: Option<&Context>) -> io::Result<()> {
        let Some(context) = context else { return self.pickle.empty_list() };
        if let Some(&memo) = self.stacks.get(&context.identity()) {
            return self.pickle.get(memo);
        }
        self.list(&context.frames(), |file, frame| {
            file.pickle.begin_dict()?;
            file.word("filename", &frame.filename)?;
            file.word("name", &frame.name)?;
            file.number("line", frame.line)?;
            file.pickle.end_dict()
        })?;
        let memo = self.pickle.memoize()?;
        self.stacks.insert(context.identity(), memo);
        Ok(())
    }

    fn settings(&mut self, config: &Config) -> io::Result<()> {
        let or_unlimited = |size: Option<u64>| size.map_or(-1, i128::from);
        self.pickle.begin_dict()?;
        self.word("PYTORCH_CUDA_ALLOC_CONF", &config.to_string())?;
        self.number("max_split_size", or_unlimited(config.max_split_size))?;
        self.pickle.text("garbage_collection_threshold")?;
        self.pickle.float(config.garbage_collection_threshold)?;
        self.flag("expandable_segments", config.expandable_segments)?;
        self.number("pinned_num_register_threads", config.pinned.num_register_threads)?;
        self.flag("release_lock_on_cudamalloc", config.release_lock_on_malloc)?;
        self.flag("pinned_use_cuda_host_register", config.pinned.use_host_register)?;
        self.flag("graph_capture_record_stream_reuse", config.graph_capture_record_stream_reuse)?;
        self.number("max_round_threshold", or_unlimited(config.pinned.max_round_threshold))?;
        self.number("max_cached_size", or_unlimited(config.pinned.max_cached_size))?;
        self.pickle.text("roundup_power2_divisions")?;
        self.pickle.begin_dict()?;
        for (power, divisions) in config.roundup_power2_divisions.as_array().into_iter().enumerate() {
            self.number(&(1_u64 << power).to_string(), divisions)?;
        }
        self.pickle.end_dict()?;
        self.pickle.end_dict()
    }
}
