//! Private pools, and `torch.cuda.MemPool`.

use super::program::Program;
use super::state::{Filter, Pool, Scope};

/// So many scopes are open at once on a device.
const SCOPES: usize = 4;

impl Program {
    pub(super) fn pool_command(&mut self) -> bool {
        match self.random.below(20) {
            0..6 => self.pool_begin(),
            6..11 => self.pool_end(),
            11..13 => self.pool_create(),
            13..15 => self.pool_release(),
            15 => self.pool_setting(),
            16 => self.about_a_pool("pool_empty"),
            17 => self.about_a_pool("pool_count"),
            _ => self.pool_live(),
        }
    }

    pub(super) fn mempool_command(&mut self) -> bool {
        match self.random.below(20) {
            0..4 => self.mempool(),
            4..10 => self.use_mempool(),
            10..15 => self.unuse(),
            15..17 => self.mempool_delete(),
            17 => self.about_a_pool("pool_count"),
            18 => self.about_a_pool("pool_empty"),
            _ => self.pool_live(),
        }
    }

    /// The name of a pool that never was.
    pub(super) fn new_pool(&mut self, graph: bool) -> String {
        self.next_pool += 1;
        let number = self.next_pool - 1;
        if graph { format!("{number}.0") } else { number.to_string() }
    }

    /// Notes one more use of a pool by the next command.
    pub(super) fn add_use(&mut self, name: &str, op: u32) {
        if let Some(pool) = self.device().pool(name) {
            pool.uses += 1;
            return;
        }
        let pool = Pool {
            name: name.to_owned(),
            op,
            uses: 1,
            is_mempool: false,
            use_on_oom: false,
            has_own_allocator: false,
        };
        self.device().pools.push(pool);
    }

    /// One of the device's pools.
    pub(super) fn any_pool(&mut self) -> Option<Pool> {
        let here = self.here();
        let pools = &self.devices[here].pools;
        if pools.is_empty() { None } else { Some(pools[self.random.index(pools.len())].clone()) }
    }

    /// A pool that no scope is open for: one that is there, or a new one; with what a command about it needs.
    pub(super) fn closed_pool(&mut self, new_percent: u64, graph: bool) -> (String, Vec<u32>) {
        let old = self.any_pool().filter(|pool| !self.devices[self.here()].is_open(&pool.name));
        match old {
            Some(pool) if !self.random.percent(new_percent) => (pool.name, vec![pool.op]),
            _ => (self.new_pool(graph), Vec::new()),
        }
    }

    fn pool_begin(&mut self) -> bool {
        if self.device().scopes.len() >= SCOPES {
            return false;
        }
        let graph = self.random.percent(20);
        let (name, needs) = self.closed_pool(40, graph);
        let (filter, text) = match self.random.below(4) {
            0 | 1 => (Filter::All, "all".to_owned()),
            2 => (Filter::Thread(self.thread), "thread".to_owned()),
            _ => {
                let stream = self.any_stream();
                (Filter::Stream(stream), stream.to_string())
            }
        };
        let old = self.device().pool(&name).cloned();
        if old.is_some_and(|pool| !self.may_open(&pool, filter)) {
            return false;
        }
        let op = self.say(format!("pool_begin {name} {text}"), &needs);
        self.add_use(&name, op);
        self.device().scopes.push(Scope { pool: name, filter, op, is_use: false });
        true
    }

    fn pool_end(&mut self) -> bool {
        let Some((place, scope)) = self.a_scope(|scope| !scope.is_use) else { return false };
        self.device().scopes.remove(place);
        self.say(format!("pool_end {}", scope.pool), &[scope.op]);
        true
    }

    /// The newest scope, most often, that fits and that no capture made.
    fn a_scope(&mut self, fits: impl Fn(&Scope) -> bool) -> Option<(usize, Scope)> {
        if self.switches.reuse && self.captures(self.current()) {
            // Fails an assertion (a defect of PyTorch's).
            return None;
        }
        let here = self.here();
        let scopes = self.devices[here].scopes.iter().enumerate();
        let ours: Vec<_> =
            scopes.filter(|(_, s)| fits(s) && !matches!(s.filter, Filter::Capture(_))).collect();
        let last = ours.len().checked_sub(1)?;
        let place = if self.random.percent(80) { last } else { self.random.index(ours.len()) };
        Some((ours[place].0, ours[place].1.clone()))
    }

    fn pool_create(&mut self) -> bool {
        let (name, needs) = match self.any_pool() {
            Some(pool) if self.random.percent(50) => (pool.name, vec![pool.op]),
            _ => (self.new_pool(false), Vec::new()),
        };
        let op = self.say(format!("pool_create {name}"), &needs);
        self.add_use(&name, op);
        true
    }

    fn pool_release(&mut self) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        // The last use goes when no scope is open.
        let open = self.devices[self.here()].is_open(&pool.name);
        if pool.is_mempool || (open && pool.uses == 1) {
            return false;
        }
        // A pool of growing segments would go while blocks of it live (a defect of PyTorch's).
        if self.switches.expandable && pool.uses == 1 && self.random.percent(90) {
            return false;
        }
        self.release(&pool)
    }

    pub(super) fn release(&mut self, pool: &Pool) -> bool {
        if pool.uses == 1 && pool.use_on_oom && self.random.percent(97) {
            // Out of memory would ask a pool that is not used any more, and fail an assertion.
            self.say(format!("pool_use_on_oom {} 0", pool.name), &[pool.op]);
        }
        self.say(format!("pool_release {}", pool.name), &[pool.op]);
        self.device().take_use(&pool.name);
        true
    }

    /// Whether allocations may go to a pool by a scope of this filter. Out of memory outside the scope a pool for
    /// that case cannot be asked (a defect of PyTorch's).
    fn may_open(&mut self, pool: &Pool, filter: Filter) -> bool {
        let for_all = filter == Filter::All || (filter == Filter::Thread(0) && self.threads.len() == 1);
        !pool.use_on_oom || for_all || self.random.percent(5)
    }

    fn pool_setting(&mut self) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        if self.random.percent(30) {
            self.say(format!("pool_no_split {}", pool.name), &[pool.op]);
        } else {
            let on = self.random.percent(70) && !self.devices[self.here()].is_open(&pool.name);
            self.say(format!("pool_use_on_oom {} {}", pool.name, u8::from(on)), &[pool.op]);
            if let Some(pool) = self.device().pool(&pool.name) {
                pool.use_on_oom = on;
            }
        }
        true
    }

    fn about_a_pool(&mut self, command: &str) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        if command == "pool_empty" && self.any_capture() {
            return false;
        }
        self.say(format!("{command} {}", pool.name), &[pool.op]);
        true
    }

    fn pool_live(&mut self) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        let here = self.here();
        let in_pool = self.live.iter().filter(|b| b.device == here && b.pool.as_ref() == Some(&pool.name));
        let mut needs = vec![pool.op];
        let mut ids = Vec::new();
        let leave_out = self.random.percent(15);
        for block in in_pool.skip(usize::from(leave_out)) {
            ids.push(format!(" {}", block.id));
            needs.push(block.op);
        }
        self.say(format!("pool_live {}{}", pool.name, ids.concat()), &needs);
        true
    }

    fn mempool(&mut self) -> bool {
        if self.device().pools.len() > 6 {
            return false;
        }
        let name = self.new_pool(false);
        let has = [25, 30, 20].map(|chance| self.random.percent(chance));
        let words: Vec<&str> = [" own", " use_on_oom", " no_split"]
            .into_iter()
            .zip(has)
            .filter(|(_, has)| *has)
            .map(|(w, _)| w)
            .collect();
        let op = self.say(format!("mempool {name}{}", words.concat()), &[]);
        let [has_own_allocator, use_on_oom, _] = has;
        let pool = Pool { name, op, uses: 1, is_mempool: true, use_on_oom, has_own_allocator };
        self.device().pools.push(pool);
        true
    }

    fn use_mempool(&mut self) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        if self.device().scopes.len() >= SCOPES || self.device().is_open(&pool.name) {
            return false;
        }
        let filter = Filter::Thread(self.thread);
        if !self.may_open(&pool, filter) {
            return false;
        }
        let op = self.say(format!("use {}", pool.name), &[pool.op]);
        self.add_use(&pool.name, op);
        self.device().scopes.push(Scope { pool: pool.name, filter, op, is_use: true });
        true
    }

    fn unuse(&mut self) -> bool {
        let Some((place, scope)) = self.a_scope(|scope| scope.is_use) else { return false };
        self.device().scopes.remove(place);
        self.say(format!("unuse {}", scope.pool), &[scope.op]);
        self.device().take_use(&scope.pool);
        true
    }

    fn mempool_delete(&mut self) -> bool {
        let Some(pool) = self.any_pool().filter(|pool| pool.is_mempool) else { return false };
        // Within a capture, or of a pool in use, it fails an assertion (a defect of PyTorch's).
        if self.device().is_open(&pool.name) || self.any_capture() {
            return false;
        }
        if self.switches.expandable && pool.uses == 1 && self.random.percent(90) {
            return false;
        }
        self.say(format!("mempool_del {}", pool.name), &[pool.op]);
        if let Some(pool) = self.device().pool(&pool.name) {
            pool.is_mempool = false;
        }
        self.device().take_use(&pool.name);
        true
    }
}
