//! What the program of a trace knows of itself: blocks, pools, scopes, captures. It is not told how its requests
//! end, so that blocks that were refused are among those that it takes to be live.

/// A block asked for and not freed.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) id: u32,
    pub(super) bytes: u64,
    pub(super) device: usize,
    pub(super) stream: u32,
    /// The private pool that it is in.
    pub(super) pool: Option<String>,
    /// The command that made it.
    pub(super) op: u32,
    /// Other streams that use it.
    pub(super) users: Vec<u32>,
}

/// A thread of the program.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) device: usize,
    /// The current stream of each device.
    pub(super) current: Vec<u32>,
    /// The command that made it so.
    pub(super) current_since: Vec<Option<u32>>,
}

impl Thread {
    pub(super) fn new(devices: usize) -> Self {
        Thread { device: 0, current: vec![0; devices], current_since: vec![None; devices] }
    }
}

/// What is on a device.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) pools: Vec<Pool>,
    /// The newest last.
    pub(super) scopes: Vec<Scope>,
    pub(super) captures: Vec<Capture>,
    /// Blocks freed in a capture that other streams use: an allocation outside would let them through too early
    /// (a defect of PyTorch's).
    pub(super) has_deferred: bool,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) has_checkpoints: bool,
    /// Pools without uses may hold memory: inside a capture the driver may not take it back.
    pub(super) has_freeable: bool,
}

/// A pool with uses left.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: String,
    /// The command that made it.
    pub(super) op: u32,
    pub(super) uses: u32,
    pub(super) is_mempool: bool,
    pub(super) use_on_oom: bool,
    pub(super) has_own_allocator: bool,
}

/// Where allocations go to a pool.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) pool: String,
    pub(super) filter: Filter,
    pub(super) op: u32,
    /// By `use`, and not by `pool_begin`.
    pub(super) is_use: bool,
}

/// Whose allocations a scope takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    All,
    Thread(u32),
    Stream(u32),
    /// Those of the capture that this command began.
    Capture(u32),
}

/// A capture under way.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    /// The command that began it.
    pub(super) op: u32,
    pub(super) thread: u32,
    pub(super) mode: Mode,
    /// Its streams, the first that which began it; each with the command that brought it in.
    pub(super) members: Vec<(u32, u32)>,
    /// Members other than the first with nodes that it has not joined.
    pub(super) unjoined: Vec<u32>,
}

/// What calls that a capture may not stand beside it forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

/// A stored state of a pool.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    pub(super) name: String,
    pub(super) op: u32,
    pub(super) pool: String,
    pub(super) blocks: Vec<Block>,
}

impl Device {
    /// The capture that a stream takes part in.
    pub(super) fn capture_of(&self, stream: u32) -> Option<usize> {
        self.captures.iter().position(|capture| capture.members.iter().any(|(member, _)| *member == stream))
    }

    /// The pool that a thread's request on a stream goes to.
    pub(super) fn pool_for(&self, thread: u32, stream: u32) -> Option<&str> {
        let capture = self.capture_of(stream).map(|place| self.captures[place].op);
        let takes = |scope: &&Scope| match scope.filter {
            Filter::All => true,
            Filter::Thread(only) => only == thread,
            Filter::Stream(only) => only == stream,
            Filter::Capture(only) => capture == Some(only),
        };
        self.scopes.iter().rev().find(takes).map(|scope| scope.pool.as_str())
    }

    pub(super) fn pool(&mut self, name: &str) -> Option<&mut Pool> {
        self.pools.iter_mut().find(|pool| pool.name == name)
    }

    /// Whether allocations go to a pool now.
    pub(super) fn is_open(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.pool == name)
    }

    /// One use less; a pool without uses is forgotten.
    pub(super) fn take_use(&mut self, name: &str) {
        if let Some(pool) = self.pool(name) {
            pool.uses -= 1;
        }
        let before = self.pools.len();
        self.pools.retain(|pool| pool.uses > 0);
        self.has_freeable |= self.pools.len() < before;
    }
}
