//! The operators that nobody has a formula for.

use aten::dispatch::{Backend, DispatchKey, Dispatcher, Functionality, KernelSource};

/// Those whose calls the fallback passes on: each takes tensors, has a kernel of its own, is no composite, and has
/// neither a formula nor a word in a table that it has no gradient.
#[test]
fn operators_without_a_formula() {
    tensorplay_autograd::init().unwrap();
    let key = DispatchKey::new(Functionality::Autograd, Backend::Cpu);
    let mut names: Vec<&str> = Dispatcher::global()
        .operators()
        .into_iter()
        .filter(|operator| operator.name().starts_with("aten::"))
        .filter(|operator| {
            let schema = operator.schema();
            schema.is_some_and(|schema| {
                schema.arguments().iter().any(|argument| argument.arg_type.holds_tensors())
            })
        })
        .filter(|operator| operator.kernel_source(key) == KernelSource::BackendFallback)
        .map(|operator| operator.name())
        .collect();
    names.sort_unstable();
    insta::assert_snapshot!(format!("{} operators\n{}", names.len(), names.join("\n")));
}
