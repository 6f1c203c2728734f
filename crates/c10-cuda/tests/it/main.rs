//! Behaviour of `c10-cuda` at its edge.

mod decorators;
mod driver_rules;
mod events;
mod guards;
mod hooks;
mod machine;
mod sim_faults;
mod sim_memory;
mod storages;
mod summary;
mod sim_placement;
mod sim_schedule;
mod sim_work;
mod support;
