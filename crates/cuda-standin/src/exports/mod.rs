//! The entry points, by subject, under the names and with the arguments of CUDA's driver.

mod absent;
mod captures;
mod contexts;
mod control;
mod copies;
mod devices;
mod events;
mod fills;
mod functions;
mod graphs;
mod ipc;
mod launches;
mod library;
mod memory;
mod modules;
mod pointers;
mod pools;
mod streams;
mod virtual_memory;

/// An entry point: its name and where it is.
pub(crate) type Symbol = (&'static str, *const ());

/// All of them.
const TABLES: &[&[Symbol]] = &[
    library::TABLE,
    devices::TABLE,
    contexts::TABLE,
    memory::TABLE,
    copies::TABLE,
    fills::TABLE,
    virtual_memory::TABLE,
    pools::TABLE,
    pointers::TABLE,
    streams::TABLE,
    events::TABLE,
    events::WAITING,
    captures::TABLE,
    graphs::TABLE,
    modules::TABLE,
    functions::TABLE,
    launches::TABLE,
    ipc::TABLE,
    absent::TABLE,
];

/// Where an entry point is, by its full name.
fn symbol(name: &str) -> Option<*const ()> {
    TABLES.iter().copied().flatten().find(|(known, _)| *known == name).map(|(_, at)| *at)
}
