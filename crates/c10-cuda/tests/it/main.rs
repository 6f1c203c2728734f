//! Behaviour of `c10-cuda` at its edge.
#![expect(clippy::unwrap_used, reason = "what a test's helpers do not expect stops the test")]

mod machine;
mod model;
mod oracle_trace;
mod own_memory;
mod program;
mod rig;
mod support;
mod torch;

mod alloc_basic;
mod alloc_config;
mod alloc_contexts;
mod alloc_faults;
mod alloc_hot;
mod alloc_model;
mod alloc_oom;
mod alloc_raw;
mod alloc_restore;
mod alloc_snapshot;
mod alloc_streams;
mod alloc_threads;
mod decorators;
mod driver_rules;
mod events;
mod expandable;
mod guards;
mod hooks;
mod pinned;
mod pool_rules;
mod races;
mod races_alloc;
mod runtime;
mod sim_faults;
mod sim_memory;
mod sim_placement;
mod sim_schedule;
mod sim_work;
mod snapshot_file;
mod pools;
mod storages;
mod summary;
