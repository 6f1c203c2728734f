//! From plain values to a [`Snapshot`]: which keys are read, and what stands for those that a file lacks.
//!
//! Files of many versions of PyTorch differ in their keys. A key that decides what the allocator did must be
//! there; the others have the defaults that the older versions lived by.

use std::collections::HashMap;
use std::sync::Arc;

use super::Snapshot;
use super::error::{ReadError, quote};
use super::event::{Action, Event};
use super::path::Path;
use super::read::Wanted;
use super::segment::{Block, BlockState, PoolId, SMALL_SEGMENT_BYTES, Segment};
use super::settings::AllocatorSettings;
use super::stacks::{Frame, StackId, Stacks};
use super::values::{Value, ValueId, Values};

/// Devices that a file may number.
const MAX_DEVICES: usize = 128;

type Result<T, E = ReadError> = std::result::Result<T, E>;

/// The snapshot that `root` describes.
///
/// # Errors
/// The path of the value that is missing or of the wrong type.
pub(crate) fn decode(
    values: &Values<'_>,
    root: ValueId,
    memory_bytes: usize,
    wanted: Wanted,
) -> Result<Snapshot> {
    let mut decoder = Decoder { values, left: memory_bytes, frames: FrameReader::new(wanted) };
    // `_snapshot()` gave the bare list of segments before there was a history.
    if let Some(segments) = values.sequence(root) {
        let segments = decoder.list(segments, &Path::Root, Decoder::segment)?;
        let stacks = Arc::new(decoder.frames.stacks);
        return Ok(Snapshot { segments, stacks, ..Snapshot::default() });
    }
    let [segments, traces, settings] =
        decoder.fields(root, &Path::Root, ["segments", "device_traces", "allocator_settings"])?;
    let segments_path = Path::Root.key("segments");
    let segments =
        segments.ok_or_else(|| Path::Root.error("has no `segments`: this is not a memory snapshot"))?;
    let segments =
        decoder.list(decoder.sequence(segments, &segments_path)?, &segments_path, Decoder::segment)?;
    let traces_path = Path::Root.key("device_traces");
    let device_traces = match traces {
        Some(traces) => {
            decoder.list(decoder.sequence(traces, &traces_path)?, &traces_path, Decoder::trace)?
        }
        None => Vec::new(),
    };
    if device_traces.len() > MAX_DEVICES {
        return Err(
            traces_path.error(format!("has {} devices, more than {MAX_DEVICES}", device_traces.len()))
        );
    }
    let settings_path = Path::Root.key("allocator_settings");
    let allocator_settings = settings.map(|id| decoder.settings(id, &settings_path)).transpose()?;
    Ok(Snapshot { segments, device_traces, allocator_settings, stacks: Arc::new(decoder.frames.stacks) })
}

/// What was read of the frames.
struct FrameReader {
    wanted: Wanted,
    stacks: Stacks,
    /// By the numbers of the lists and dicts that they were read from.
    lists: HashMap<ValueId, Option<StackId>>,
    dicts: HashMap<ValueId, u32>,
}

impl FrameReader {
    fn new(wanted: Wanted) -> Self {
        Self { wanted, stacks: Stacks::default(), lists: HashMap::new(), dicts: HashMap::new() }
    }
}

struct Decoder<'v, 'a> {
    values: &'v Values<'a>,
    /// Bytes of memory that may still be taken: a list that the file shares is small there and large here.
    left: usize,
    frames: FrameReader,
}

impl<'v> Decoder<'v, '_> {
    fn segment(&mut self, id: ValueId, path: &Path<'_>) -> Result<Segment> {
        let names = [
            "device",
            "address",
            "total_size",
            "stream",
            "segment_type",
            "segment_pool_id",
            "is_expandable",
            "blocks",
        ];
        let [device, address, total_size, stream, segment_type, pool_id, is_expandable, blocks] =
            self.fields(id, path, names)?;
        let device = self.u64_or(device, &path.key("device"), 0)?;
        let device =
            usize::try_from(device).ok().filter(|&device| device < MAX_DEVICES).ok_or_else(|| {
                path.key("device").error(format!("is {device}; devices are numbered below {MAX_DEVICES}"))
            })?;
        let address = self.u64(address, &path.key("address"))?;
        let total_size = self.u64(total_size, &path.key("total_size"))?;
        let type_path = path.key("segment_type");
        let is_small = match segment_type.map(|id| self.text(id, &type_path)).transpose()? {
            None => total_size <= SMALL_SEGMENT_BYTES,
            Some("small") => true,
            Some("large") => false,
            Some(other) => {
                return Err(type_path.error(format!("is {}, neither \"small\" nor \"large\"", quote(other))));
            }
        };
        let blocks_path = path.key("blocks");
        let blocks = blocks.ok_or_else(|| blocks_path.error("is missing"))?;
        let mut next = Some(address);
        let blocks = self.list(self.sequence(blocks, &blocks_path)?, &blocks_path, |decoder, id, path| {
            let block = decoder.block(id, path, next)?;
            next = block.address.checked_add(block.size);
            Ok(block)
        })?;
        Ok(Segment {
            device,
            address,
            total_size,
            stream: self.u64_or(stream, &path.key("stream"), 0)?,
            is_small,
            pool_id: self.pool_id(pool_id, &path.key("segment_pool_id"))?.unwrap_or((0, 0)),
            is_expandable: self.bool_or(is_expandable, &path.key("is_expandable"), false)?,
            blocks,
        })
    }

    /// A block; `next` is the end of the one before it, where it lies in files that do not say.
    fn block(&mut self, id: ValueId, path: &Path<'_>, next: Option<u64>) -> Result<Block> {
        let names = ["address", "size", "requested_size", "state", "history", "frames"];
        let [address, size, requested_size, state, history, frames] = self.fields(id, path, names)?;
        let address_path = path.key("address");
        let address = match address {
            Some(_) => self.u64(address, &address_path)?,
            None => {
                next.ok_or_else(|| address_path.error("is missing, and its neighbour ends beyond 64 bits"))?
            }
        };
        let size = self.u64(size, &path.key("size"))?;
        let state_path = path.key("state");
        let state = state.ok_or_else(|| state_path.error("is missing"))?;
        let state = match self.text(state, &state_path)? {
            "active_allocated" => BlockState::Allocated,
            "active_pending_free" | "active_awaiting_free" => BlockState::PendingFree,
            "inactive" => BlockState::Inactive,
            other => {
                return Err(state_path.error(format!("is {}, which is no state of a block", quote(other))));
            }
        };
        let requested_size = match (state, requested_size, history) {
            (BlockState::Inactive, ..) => 0,
            (_, Some(_), _) => self.u64(requested_size, &path.key("requested_size"))?,
            (_, None, Some(history)) => self.real_size(history, &path.key("history"))?.unwrap_or(size),
            (_, None, None) => size,
        };
        let stack = self.stack(frames, &path.key("frames"))?;
        Ok(Block { address, size, requested_size, state, stack })
    }

    /// The requested size in files from before 2.0: that of the newest owner in a block's history.
    fn real_size(&self, history: ValueId, path: &Path<'_>) -> Result<Option<u64>> {
        let Some(&newest) = self.sequence(history, path)?.first() else { return Ok(None) };
        let path = path.index(0);
        let [real_size] = self.fields(newest, &path, ["real_size"])?;
        real_size.map(|id| self.u64(Some(id), &path.key("real_size"))).transpose()
    }

    fn trace(&mut self, id: ValueId, path: &Path<'_>) -> Result<Vec<Event>> {
        self.list(self.sequence(id, path)?, path, Self::event)
    }

    fn event(&mut self, id: ValueId, path: &Path<'_>) -> Result<Event> {
        let names = ["action", "addr", "device_free", "size", "stream", "time_us", "pool_id", "frames"];
        let [action, addr, device_free, size, stream, time_us, pool_id, frames] =
            self.fields(id, path, names)?;
        let action_path = path.key("action");
        let action = action.ok_or_else(|| action_path.error("is missing"))?;
        let action = self.text(action, &action_path)?;
        let action = Action::from_name(action).ok_or_else(|| {
            action_path.error(format!("is {}, which is no action of the allocator", quote(action)))
        })?;
        let (address, size) = if action.has_address() {
            (self.u64(addr, &path.key("addr"))?, self.u64(size, &path.key("size"))?)
        } else {
            let address = if action == Action::Oom { device_free } else { addr };
            (self.u64_or(address, &path.key("addr"), 0)?, self.u64_or(size, &path.key("size"), 0)?)
        };
        Ok(Event {
            action,
            address,
            size,
            stream: self.u64_or(stream, &path.key("stream"), 0)?,
            time_us: time_us.map(|id| self.u64(Some(id), &path.key("time_us"))).transpose()?,
            pool_id: self.pool_id(pool_id, &path.key("pool_id"))?,
            stack: self.stack(frames, &path.key("frames"))?,
        })
    }

    /// A list of frames. Lists that the file shares are read once.
    fn stack(&mut self, id: Option<ValueId>, path: &Path<'_>) -> Result<Option<StackId>> {
        let Some(id) = id.filter(|_| self.frames.wanted == Wanted::Stacks) else { return Ok(None) };
        if let Some(&stack) = self.frames.lists.get(&id) {
            return Ok(stack);
        }
        let frames = self.list(self.sequence(id, path)?, path, Self::frame)?;
        let stack = self.frames.stacks.add(frames);
        self.frames.lists.insert(id, stack);
        Ok(stack)
    }

    fn frame(&mut self, id: ValueId, path: &Path<'_>) -> Result<u32> {
        if let Some(&frame) = self.frames.dicts.get(&id) {
            return Ok(frame);
        }
        let [filename, name, line] = self.fields(id, path, ["filename", "name", "line"])?;
        let filename = filename.map(|id| self.text(id, &path.key("filename"))).transpose()?;
        let name = name.map(|id| self.text(id, &path.key("name"))).transpose()?;
        let line = self.u64_or(line, &path.key("line"), 0)?;
        let frame = Frame {
            filename: filename.unwrap_or_default(),
            name: name.unwrap_or_default(),
            line: u32::try_from(line).unwrap_or(0),
        };
        let frame = self.frames.stacks.add_frame(frame);
        self.frames.dicts.insert(id, frame);
        Ok(frame)
    }

    fn settings(&self, id: ValueId, path: &Path<'_>) -> Result<AllocatorSettings> {
        let names = [
            "PYTORCH_CUDA_ALLOC_CONF",
            "max_split_size",
            "garbage_collection_threshold",
            "expandable_segments",
            "roundup_power2_divisions",
        ];
        let [conf, max_split_size, threshold, expandable, divisions] = self.fields(id, path, names)?;
        let conf = conf.map(|id| self.text(id, &path.key(names[0]))).transpose()?.unwrap_or_default();
        let max_split_size = match max_split_size.map(|id| self.values.value(id)) {
            None | Some(Value::Int(-1)) => None,
            Some(_) => Some(self.u64(max_split_size, &path.key(names[1]))?),
        };
        let mut settings = AllocatorSettings {
            conf: conf.to_owned(),
            max_split_size,
            garbage_collection_threshold: self.fraction_or_zero(threshold, &path.key(names[2]))?,
            expandable_segments: self.bool_or(expandable, &path.key(names[3]), false)?,
            roundup_power2_divisions: [0; 16],
        };
        if let Some(divisions) = divisions {
            self.divisions(divisions, &path.key(names[4]), &mut settings.roundup_power2_divisions)?;
        }
        Ok(settings)
    }

    /// Entries such as `"256": 4`: from 256 MiB on, four steps to the next power of two.
    fn divisions(&self, id: ValueId, path: &Path<'_>, table: &mut [u64; 16]) -> Result<()> {
        let entries = self.values.dict(id).ok_or_else(|| self.wrong(id, path, "a dict"))?;
        for (key, value) in entries {
            let key = self.text(key, path)?;
            if key.len() > 5 {
                return Err(path.error(format!("has the key {}, which is no size in MiB", quote(key))));
            }
            let path = path.key(key);
            let megabytes = key.parse::<u64>().ok().filter(|&mb| mb.is_power_of_two() && mb < 1 << 16);
            let megabytes = megabytes.ok_or_else(|| path.error("is not a power of two up to 32768"))?;
            let divisions = self.u64(Some(value), &path)?;
            if divisions != 0 && !divisions.is_power_of_two() {
                return Err(path.error(format!("is {divisions}, not a power of two")));
            }
            table[megabytes.ilog2() as usize] = divisions;
        }
        Ok(())
    }

    fn pool_id(&self, id: Option<ValueId>, path: &Path<'_>) -> Result<Option<PoolId>> {
        let Some(id) = id else { return Ok(None) };
        match self.sequence(id, path)? {
            &[first, second] => {
                Ok(Some((self.u64(Some(first), &path.index(0))?, self.u64(Some(second), &path.index(1))?)))
            }
            other => Err(path.error(format!("has {} numbers, not two", other.len()))),
        }
    }

    /// The values of some keys of a dict; one that is `None` counts as missing.
    fn fields<const N: usize>(
        &self,
        id: ValueId,
        path: &Path<'_>,
        names: [&str; N],
    ) -> Result<[Option<ValueId>; N]> {
        let mut found = [None; N];
        for (key, value) in self.values.dict(id).ok_or_else(|| self.wrong(id, path, "a dict"))? {
            let Some(key) = self.values.text(key) else { continue };
            if let Some(index) = names.iter().position(|&name| name == key) {
                found[index] = (self.values.value(value) != Value::None).then_some(value);
            }
        }
        Ok(found)
    }

    fn sequence(&self, id: ValueId, path: &Path<'_>) -> Result<&'v [ValueId]> {
        self.values.sequence(id).ok_or_else(|| self.wrong(id, path, "a list"))
    }

    fn list<T>(
        &mut self,
        ids: &[ValueId],
        path: &Path<'_>,
        mut read: impl FnMut(&mut Self, ValueId, &Path<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let left = ids.len().checked_mul(size_of::<T>()).and_then(|bytes| self.left.checked_sub(bytes));
        self.left =
            left.ok_or_else(|| path.error("the file shares lists, and they need too much memory apart"))?;
        ids.iter().enumerate().map(|(index, &id)| read(self, id, &path.index(index))).collect()
    }

    fn text(&self, id: ValueId, path: &Path<'_>) -> Result<&'v str> {
        self.values.text(id).ok_or_else(|| self.wrong(id, path, "a string"))
    }

    fn u64(&self, id: Option<ValueId>, path: &Path<'_>) -> Result<u64> {
        let id = id.ok_or_else(|| path.error("is missing"))?;
        match self.values.value(id) {
            Value::Int(value) => {
                u64::try_from(value).map_err(|_| path.error(format!("is negative: {value}")))
            }
            Value::Uint(value) => Ok(value),
            Value::HugeInt => Err(path.error("is an integer of more than 64 bits")),
            _ => Err(self.wrong(id, path, "an integer")),
        }
    }

    fn u64_or(&self, id: Option<ValueId>, path: &Path<'_>, default: u64) -> Result<u64> {
        id.map_or(Ok(default), |id| self.u64(Some(id), path))
    }

    fn bool_or(&self, id: Option<ValueId>, path: &Path<'_>, default: bool) -> Result<bool> {
        match id.map(|id| (id, self.values.value(id))) {
            None => Ok(default),
            Some((_, Value::Bool(value))) => Ok(value),
            Some((id, _)) => Err(self.wrong(id, path, "a boolean")),
        }
    }

    fn fraction_or_zero(&self, id: Option<ValueId>, path: &Path<'_>) -> Result<f64> {
        let Some(id) = id else { return Ok(0.0) };
        let value = match self.values.value(id) {
            Value::Float(value) => value,
            Value::Int(value) => value as f64,
            _ => return Err(self.wrong(id, path, "a number")),
        };
        if (0.0..=1.0).contains(&value) {
            Ok(value)
        } else {
            Err(path.error(format!("is {value}, not in 0 to 1")))
        }
    }

    #[cold]
    fn wrong(&self, id: ValueId, path: &Path<'_>, wanted: &str) -> ReadError {
        path.error(format!("is {}, not {wanted}", self.values.value(id).noun()))
    }
}
