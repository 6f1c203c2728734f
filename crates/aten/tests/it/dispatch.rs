//! The dispatcher: what is registered, in every order, and what a call finds.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aten::dispatch::local::{AutoDispatchBelowAutograd, ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard};
use aten::dispatch::{
    Arguments, Around, DispatchKey, DispatchKeySet, Dispatcher, IntoKernel, Kernel, Library, Op,
    OperatorHandle, Stack, Value,
};
use aten::tensor::AutogradMeta;
use aten::{ErrorKind, Result, Tensor};
use c10_core::shared::Shared;
use proptest::prelude::*;

/// A kernel that returns its argument, and has a name.
fn named(name: &str) -> Kernel {
    (|x: &Tensor| -> Result<Tensor> { Ok(x.clone()) }).into_kernel().named(name)
}

/// The text without the places of this file, which move.
fn placeless(text: &str) -> String {
    let mut parts = text.split("crates/aten/tests/it/dispatch.rs:");
    let mut stable = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        stable.push_str("HERE");
        stable.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'));
    }
    stable
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registration);
    placeless(error.message())
}

fn one() -> Tensor {
    Tensor::from_elements(&[1.0_f32]).unwrap()
}

#[test]
fn tables_are_pytorchs() {
    let mut labels = std::collections::BTreeSet::new();
    for (at, line) in include_str!("../../testdata/dispatch_tables.txt").lines().enumerate() {
        let dispatcher = Dispatcher::new();
        let mut library = Library::fragment(&dispatcher, "t");
        library.def("f(Tensor x) -> Tensor").unwrap();
        let mut parts = line.split(" | ");
        for key in parts.next().unwrap().split(' ') {
            library.impl_kernel("f", &[key.parse().unwrap()], named(key)).unwrap();
        }
        let mut expected = vec![String::new(); aten::dispatch::key::NUM_RUNTIME_ENTRIES];
        for part in parts {
            let (kernel, slots) = part.rsplit_once(' ').unwrap();
            let kernel = kernel.replace("- [", "ambiguous_autogradother [");
            labels.insert(kernel.split_once('[').unwrap().1.to_owned());
            for range in slots.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let slots = first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap();
                expected[slots].fill(kernel.clone());
            }
        }
        let table = dispatcher.dump_computed_table("t::f").unwrap();
        let mut found = vec![String::new(); expected.len()];
        for row in table.lines().filter(|row| !row.ends_with("[backend fallback]")) {
            let (key, kernel) = row.split_once(": ").unwrap();
            found[key.parse::<DispatchKey>().unwrap().table_index().unwrap()] = kernel.to_owned();
        }
        assert_eq!(found, expected, "line {at}: {line}");
        dispatcher.check_invariants().unwrap();
    }
    assert_eq!(labels.len(), 7, "{labels:?}");
}

/// Registrations that do not override, each with a library of its own.
type Step = fn(&Dispatcher) -> Result<Library<'_>>;

const STEPS: [Step; 6] = [
    |dispatcher| {
        let mut library = Library::define(dispatcher, "t")?;
        library.def("f(Tensor x) -> Tensor")?;
        Ok(library)
    },
    |dispatcher| {
        let mut library = Library::implementing(dispatcher, "t", DispatchKey::Cpu);
        library.impl_kernel("f", &[DispatchKey::Cpu, DispatchKey::Cuda], named("fn_cpu"))?;
        Ok(library)
    },
    |dispatcher| {
        let mut library = Library::fragment(dispatcher, "t");
        library.impl_kernel("f", &[DispatchKey::Autograd], named("fn_autograd"))?;
        Ok(library)
    },
    |dispatcher| {
        let mut library = Library::fragment(dispatcher, "t");
        library.impl_kernel("f", &[DispatchKey::CompositeImplicitAutograd], named("fn_math"))?;
        Ok(library)
    },
    |dispatcher| {
        let mut library = Library::fallbacks(dispatcher);
        let kernel = Kernel::boxed(|_, _, _| Ok(())).named("fallback");
        library.fallback(&[DispatchKey::PrivateUse1, DispatchKey::AutogradMeta], kernel)?;
        Ok(library)
    },
    |dispatcher| {
        let mut library = Library::fragment(dispatcher, "t");
        let kernel = (|x: &Tensor| -> Result<Tensor> { Ok(x.clone()) }).into_kernel().named("fn_override");
        library.override_for("f", &[DispatchKey::Cpu], kernel)?;
        Ok(library)
    },
];

fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for next in 0..n {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=next).map(move |at| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn dump(dispatcher: &Dispatcher) -> (Option<String>, Option<String>) {
    (dispatcher.dump_state("t::f").map(|state| placeless(&state)), dispatcher.dump_computed_table("t::f"))
}

#[test]
fn every_order_of_registrations_gives_the_same() {
    let mut all = None;
    let mut by_subset = std::collections::HashMap::new();
    for order in permutations(STEPS.len()) {
        let dispatcher = Dispatcher::new();
        let mut libraries: Vec<Option<Library<'_>>> = STEPS.iter().map(|_| None).collect();
        let mut registered = 0_u32;
        let mut same = |registered: u32, dispatcher: &Dispatcher| {
            let dump = dump(dispatcher);
            assert_eq!(by_subset.entry(registered).or_insert_with(|| dump.clone()), &dump, "{order:?}");
            dump
        };
        for &step in &order {
            libraries[step] = Some(STEPS[step](&dispatcher).unwrap());
            registered |= 1 << step;
            let dump = same(registered, &dispatcher);
            if libraries.iter().all(Option::is_some) {
                all = Some(dump);
            }
        }
        dispatcher.check_invariants().unwrap();
        // They go in another order than they came.
        for &step in order.iter().skip(3).chain(&order[..3]) {
            libraries[step] = None;
            registered &= !(1 << step);
            same(registered, &dispatcher);
        }
        dispatcher.check_invariants().unwrap();
        assert!(dispatcher.operators().is_empty() && dispatcher.find("t::f").is_none());
    }
    assert_eq!(by_subset.len(), 1 << STEPS.len());
    assert_eq!(by_subset[&0], (None, None));
    let (state, table) = all.unwrap();
    insta::assert_snapshot!(state.unwrap());
    insta::assert_snapshot!(table.unwrap());
}

#[test]
fn of_several_that_override_the_newest_counts() {
    let dispatcher = Dispatcher::new();
    let mut plain = Library::fragment(&dispatcher, "t");
    plain.def("f(Tensor x) -> Tensor").unwrap();
    plain.impl_kernel("f", &[DispatchKey::Cpu], named("plain")).unwrap();
    let over = |name| {
        let mut library = Library::fragment(&dispatcher, "t");
        library.override_for("f", &[DispatchKey::Cpu], named(name)).unwrap();
        library
    };
    let (first, second) = (over("first"), over("second"));
    insta::assert_snapshot!(dump(&dispatcher).0.unwrap(), @r"
    name: t::f
    schema: t::f(Tensor x) -> Tensor
    debug: registered at HERE
    alias analysis kind: FROM_SCHEMA
    CPU: second :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
    CPU (inactive): first :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
    CPU (inactive): plain :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
    ");
    drop(second);
    assert!(dump(&dispatcher).1.unwrap().contains("CPU: first [kernel]"));
    first.deregister();
    assert!(dump(&dispatcher).1.unwrap().contains("CPU: plain [kernel]"));
}

#[test]
fn what_is_refused_says_where_the_other_is() {
    let dispatcher = Dispatcher::new();
    let mut library = Library::define(&dispatcher, "t").unwrap();
    insta::assert_snapshot!(refused(Library::define(&dispatcher, "t")), @"Only a single library can define the namespace t; put all its definitions there. To add kernels use Library::implementing, which can be had many times; to define operators of one namespace in several places use Library::fragment. Previous registration of the library was registered at HERE; latest registration was registered at HERE");
    library.def("f(Tensor x) -> Tensor").unwrap();
    insta::assert_snapshot!(refused(library.def("t::f(Tensor y, int n) -> Tensor")), @"Tried to register an operator (t::f(Tensor y, int n) -> Tensor) with the same name and overload name multiple times. Each overload's schema should only be registered with a single call to def(). Duplicate registration: registered at HERE. Original registration: registered at HERE");
    library.impl_kernel("f", &[DispatchKey::Cpu], named("first")).unwrap();
    let mut other = Library::fragment(&dispatcher, "t");
    insta::assert_snapshot!(refused(other.impl_kernel("f", &[DispatchKey::Cpu], named("second"))), @"Tried to register a kernel for the operator t::f and the dispatch key CPU, which has one already. To override it say so (Library::override_for). Previous kernel: registered at HERE; new kernel: registered at HERE");
    insta::assert_snapshot!(refused(other.def("u::g() -> ()")), @"def(u::g): Explicitly provided namespace (u) in operator name does not match namespace of enclosing library (t). (Library at HERE)");
    insta::assert_snapshot!(refused(other.fallback(&[DispatchKey::Cpu], Kernel::fallthrough())), @"a fallback is for the operators of all namespaces, and this library is of t: use Library::fallbacks");
    let mut implementing = Library::implementing(&dispatcher, "t", DispatchKey::Cuda);
    insta::assert_snapshot!(refused(implementing.def("g() -> ()")), @"g: a library that implements defines no operators; use Library::define or Library::fragment");
    let mut fallbacks = Library::fallbacks(&dispatcher);
    fallbacks.fallback(&[DispatchKey::Cuda], Kernel::fallthrough()).unwrap();
    insta::assert_snapshot!(refused(fallbacks.fallback(&[DispatchKey::Cuda], Kernel::fallthrough())), @"Tried to register multiple backend fallbacks for the same dispatch key CUDA; previous registration registered at HERE, new registration registered at HERE");
    insta::assert_snapshot!(refused(fallbacks.fallback(&[DispatchKey::Autograd], Kernel::fallthrough())), @"a fallback is for a runtime key, and Autograd stands for many");
    insta::assert_snapshot!(refused(fallbacks.impl_kernel("f", &[DispatchKey::Cuda], named("x"))), @"impl(f): a library of fallbacks has no namespace, and registers for all operators alone");
    let half = DispatchKey::functionality_only(aten::dispatch::Functionality::Sparse);
    insta::assert_snapshot!(refused(library.impl_kernel("f", &[half], named("half"))), @"Sparse is no key for a kernel: it wants a backend");
    assert_eq!(library.def("f(Foo x) -> ()").unwrap_err().kind(), ErrorKind::Parse);
    assert_eq!(library.implement("a b", |x: &Tensor| Ok(x.clone())).unwrap_err().kind(), ErrorKind::Parse);
    dispatcher.check_invariants().unwrap();
}

#[test]
fn a_kernel_of_another_type_is_refused_whichever_came_first() {
    let dispatcher = Dispatcher::new();
    let mut library = Library::fragment(&dispatcher, "t");
    library.def("f(Tensor x, int[2] n=1, *, Scalar? s=None) -> (Tensor, Tensor)").unwrap();
    library
        .implement("f", |x: &Tensor, _n: &[i64], _s: Option<c10_core::Scalar>| Ok((x.clone(), x.clone())))
        .unwrap();
    insta::assert_snapshot!(refused(library.impl_for("f", &[DispatchKey::Cpu], |x: &Tensor| Ok(x.clone()))), @"
    Inferred operator schema for a kernel function doesn't match the expected function schema.
      operator: t::f
      expected schema: t::f(Tensor x, int[2] n=1, *, Scalar? s=None) -> (Tensor, Tensor)
        registered at HERE
      inferred schema: (Tensor _0) -> Tensor _0
        registered at HERE
      reason: The number of arguments is different. 3 vs 1.
    ");
    let wrong = |x: &Tensor, _n: &[f64], _s: Option<c10_core::Scalar>| Ok((x.clone(), x.clone()));
    assert!(
        refused(library.impl_for("f", &[DispatchKey::Cpu], wrong))
            .ends_with("reason: Type mismatch in argument 2: int[2] vs float[].")
    );
    let wrong = |x: &Tensor, _n: &[i64], _s: Option<c10_core::Scalar>| Ok((x.clone(), 1.0));
    assert!(
        refused(library.impl_for("f", &[DispatchKey::Cpu], wrong))
            .ends_with("reason: Type mismatch in return 2: Tensor vs float.")
    );
    let wrong = |_x: &Tensor, _n: &[i64], _s: Option<c10_core::Scalar>| Ok(());
    assert!(
        refused(library.impl_for("f", &[DispatchKey::Cpu], wrong))
            .ends_with("reason: The number of returns is different. 2 vs 0.")
    );

    library.impl_for("g", &[DispatchKey::Cpu], |x: &Tensor| Ok(x.clone())).unwrap();
    assert_eq!(dispatcher.dangling_impls().len(), 1);
    assert!(refused(library.def("g(Tensor x, Tensor y) -> Tensor")).contains("2 vs 1"));
    assert!(dispatcher.find("t::g").is_none());
    insta::assert_snapshot!(placeless(&dispatcher.dangling_impls()[0]), @"
    name: t::g
    schema: (none)
    CPU: registered at HERE :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
    ");
    library.def("g(Tensor x) -> Tensor").unwrap();
    assert!(dispatcher.dangling_impls().is_empty());

    let inferred =
        library.def_inferred("h.o", |_a: &Tensor, _b: Option<i64>, _c: &[Tensor]| Ok(1.5)).unwrap();
    assert_eq!(inferred.schema().unwrap().to_string(), "t::h.o(Tensor _0, int? _1, Tensor[] _2) -> float _0");
    assert!(dispatcher.dump_state("t::h.o").unwrap().contains("alias analysis kind: CONSERVATIVE"));
    assert!(refused(library.def_with("i(Tensor x) -> Tensor", |x: i64| Ok(x))).contains("Tensor vs int"));
    assert!(dispatcher.find("t::i").is_none());
}

#[test]
fn a_registration_that_fails_leaves_nothing() {
    let dispatcher = Dispatcher::new();
    let mut owner = Library::fragment(&dispatcher, "t");
    owner.def("f(Tensor x) -> Tensor").unwrap();
    owner.impl_kernel("f", &[DispatchKey::Cuda], named("owner")).unwrap();
    let before = (dump(&dispatcher), dispatcher.operators().len());

    // One call for several keys.
    let mut library = Library::fragment(&dispatcher, "t");
    refused(library.impl_kernel("f", &[DispatchKey::Cpu, DispatchKey::Cuda], named("both")));
    refused(library.impl_kernel("f", &[DispatchKey::Cpu, DispatchKey::Cpu], named("twice")));
    let mut fallbacks = Library::fallbacks(&dispatcher);
    refused(
        fallbacks
            .fallback(&[DispatchKey::Meta, DispatchKey::CompositeImplicitAutograd], Kernel::fallthrough()),
    );
    assert_eq!((dump(&dispatcher), dispatcher.operators().len()), before);

    // Several calls of one function, the second of which fails once.
    let register = |fail: bool| -> Result<Library<'_>> {
        let mut library = Library::define(&dispatcher, "t")?;
        library.def("g(Tensor x) -> Tensor")?;
        library.impl_kernel("f", &[if fail { DispatchKey::Cuda } else { DispatchKey::Cpu }], named("g"))?;
        Ok(library)
    };
    refused(register(true));
    assert_eq!((dump(&dispatcher), dispatcher.operators().len()), before);
    let library = register(false).unwrap();
    assert!(dispatcher.find("t::g").is_some());
    drop(library);
    assert_eq!((dump(&dispatcher), dispatcher.operators().len()), before);
}

#[test]
fn a_missing_kernel_says_what_there_is() {
    let dispatcher = Dispatcher::new();
    let mut library = Library::fragment(&dispatcher, "t");
    let f = library.def("f(Tensor x) -> Tensor").unwrap();
    library.impl_kernel("f", &[DispatchKey::Cuda], named("fn_cuda")).unwrap();
    let g = library.def("g(int x) -> int").unwrap();
    let error = f.call_boxed(&mut vec![one().into()]).unwrap_err();
    assert_eq!((error.kind(), error.operator()), (ErrorKind::NotImplemented, Some("t::f")));
    insta::assert_snapshot!(error.message());
    let error = g.call_boxed(&mut vec![1_i64.into()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert!(error.message().starts_with("There were no tensor arguments to this function"), "{error}");
    assert!(!f.has_kernel_for(DispatchKey::Cpu) && f.has_kernel_for(DispatchKey::Cuda));

    drop(library);
    let error = f.call_boxed(&mut vec![one().into()]).unwrap_err();
    assert!(error.message().starts_with("Could not find schema for t::f."), "{error}");
    assert_eq!(dispatcher.require("t::f").unwrap_err().message(), "Could not find schema for t::f.");
}

/// What the kernels of a call noted, in order.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A kernel that notes its key and calls what is below.
    fn around(&self, key: DispatchKey) -> Kernel {
        let log = self.clone();
        Kernel::boxed(move |operator, keys, stack| {
            log.note(key.to_string());
            operator.redispatch_boxed(keys & DispatchKeySet::full_after(key), stack)
        })
    }

    fn end(&self, name: &'static str) -> Kernel {
        let log = self.clone();
        Kernel::boxed(move |operator: OperatorHandle, _, _: &mut Stack| {
            log.note(format!("{name} of {}", operator.name()));
            Ok(())
        })
    }
}

/// `narrow` is a `slice`, and makes the view itself only where `slice` would do nothing else.
#[test]
fn a_narrow_is_seen_by_who_stands_before_slices() {
    let (dispatcher, log) = (Dispatcher::global(), Log::default());
    let x = Tensor::zeros(&[4, 6], c10_core::ScalarType::Float32).unwrap();
    let narrow = || x.narrow(0, 1, 2).unwrap();
    let alone = narrow();
    let mut library = Library::fragment(dispatcher, "aten");
    library.impl_kernel("slice.Tensor", &[DispatchKey::Tracer], log.around(DispatchKey::Tracer)).unwrap();
    assert!(alone.is_alias_of(&narrow()) && log.take().is_empty());
    let seen = IncludeDispatchKeyGuard::scope(DispatchKey::Tracer.into(), narrow);
    assert_eq!(log.take(), ["Tracer"]);
    assert_eq!((seen.sizes(), seen.strides(), seen.storage_offset()), (alone.sizes(), alone.strides(), 6));
    assert!(x.narrow(0, 3, 2).is_err() && x.narrow(0, 5, 0).is_err() && x.narrow(2, 0, 1).is_err());
}

#[test]
fn a_call_goes_down_the_keys() {
    let (dispatcher, log) = (Dispatcher::new(), Log::default());
    let mut library = Library::fragment(&dispatcher, "t");
    let f = library.def("f(Tensor x) -> Tensor").unwrap();
    library.impl_kernel("f", &[DispatchKey::Cpu], log.end("cpu")).unwrap();
    library.impl_kernel("f", &[DispatchKey::Autograd], log.around(DispatchKey::AutogradCpu)).unwrap();
    library.impl_kernel("f", &[DispatchKey::AutocastCpu], log.around(DispatchKey::AutocastCpu)).unwrap();
    library.impl_kernel("f", &[DispatchKey::Tracer], log.around(DispatchKey::Tracer)).unwrap();
    let call = || f.call_boxed(&mut vec![one().into()]).map(|()| log.take()).unwrap();
    assert_eq!(call(), ["AutogradCPU", "cpu of t::f"]);
    assert_eq!(AutoDispatchBelowAutograd::scope(call), ["cpu of t::f"]);
    assert_eq!(
        IncludeDispatchKeyGuard::scope(DispatchKey::Tracer.into(), call),
        ["Tracer", "AutogradCPU", "cpu of t::f"]
    );
    assert_eq!(ExcludeDispatchKeyGuard::scope(DispatchKey::AutogradCpu.into(), call), ["cpu of t::f"]);

    library
        .impl_kernel("f", &[DispatchKey::AdInplaceOrView], log.around(DispatchKey::AdInplaceOrView))
        .unwrap();
    assert_eq!(call(), ["AutogradCPU", "ADInplaceOrView", "cpu of t::f"]);

    // What is fallthrough for one backend is not for another.
    let mut over = Library::fragment(&dispatcher, "t");
    over.override_for("f", &[DispatchKey::AutogradCpu], Kernel::fallthrough()).unwrap();
    assert_eq!(call(), ["ADInplaceOrView", "cpu of t::f"]);
    let meta = DispatchKeySet::of(&[DispatchKey::Meta, DispatchKey::AutogradMeta]);
    library.impl_kernel("f", &[DispatchKey::Meta], log.end("meta")).unwrap();
    f.redispatch_boxed(meta, &mut vec![one().into()]).unwrap();
    assert_eq!(log.take(), ["AutogradCPU", "meta of t::f"]);
    dispatcher.check_invariants().unwrap();

    // A fallback serves every operator that has nothing else there.
    let mut fallbacks = Library::fallbacks(&dispatcher);
    fallbacks.fallback(&[DispatchKey::PrivateUse1], log.end("fallback")).unwrap();
    f.redispatch_boxed(DispatchKey::PrivateUse1.into(), &mut Stack::new()).unwrap();
    assert_eq!(log.take(), ["fallback of t::f"]);
    let g = library.def("g() -> ()").unwrap();
    g.redispatch_boxed(DispatchKey::PrivateUse1.into(), &mut Stack::new()).unwrap();
    assert_eq!(log.take(), ["fallback of t::g"]);
}

#[test]
fn typed_and_boxed_kernels_are_each_called_as_the_other() {
    static TYPED: Op<fn(&'static Tensor, i64) -> Tensor> = Op::new("typed_and_boxed::f", "");
    static WRITES: Op<fn(&'static Tensor) -> ()> = Op::new("typed_and_boxed::g_", "");
    static WRONG: Op<fn(&'static Tensor) -> Tensor> = Op::new("typed_and_boxed::f", "");
    static ABSENT: Op<fn()> = Op::new("typed_and_boxed::absent", "");

    let mut library = Library::fragment(Dispatcher::global(), "typed_and_boxed");
    let f = library.def("f(Tensor x, int n) -> Tensor").unwrap();
    let over = |library: &mut Library<'_>, kernel: Kernel| {
        library.override_for("f", &[DispatchKey::CompositeExplicitAutograd], kernel).unwrap();
    };
    let mut typed = Library::fragment(Dispatcher::global(), "typed_and_boxed");
    typed
        .impl_for("f", &[DispatchKey::CompositeExplicitAutograd], |x: &Tensor, n: i64| {
            Tensor::from_slice(&vec![n; x.numel() as usize], &x.sizes())
        })
        .unwrap();
    let results = |stack: Stack| match &stack[..] {
        [Value::Tensor(result)] => result.to_vec::<i64>().unwrap(),
        other => panic!("one tensor, not {other:?}"),
    };
    assert_eq!(TYPED.call(&one(), 7).unwrap().to_vec::<i64>().unwrap(), [7]);
    assert_eq!(results(f.call_with(vec![one().into(), 8_i64.into()], vec![]).unwrap()), [8]);

    over(
        &mut library,
        Kernel::boxed(|_, _, stack: &mut Stack| {
            let [Value::Tensor(_), n @ Value::Scalar(_)] = &stack[..] else { panic!("as the schema says") };
            let Value::Scalar(n) = n else { panic!("a number") };
            *stack = vec![Tensor::from_elements(&[n.to::<i64>()? + 1])?.into()];
            Ok(())
        }),
    );
    assert_eq!(TYPED.call(&one(), 7).unwrap().to_vec::<i64>().unwrap(), [8]);
    assert_eq!(results(f.call_with(vec![one().into(), 8_i64.into()], vec![]).unwrap()), [9]);

    let g = library.def("g_(Tensor(a!) x) -> Tensor(a!)").unwrap();
    library.impl_for("g_", &[DispatchKey::Cpu], |x: &Tensor| x.add_(x).map(drop)).unwrap();
    let x = one();
    WRITES.call(&x).unwrap();
    let mut stack = vec![x.clone().into()];
    g.call_boxed(&mut stack).unwrap();
    let [Value::Tensor(result)] = &stack[..] else { panic!("the written argument") };
    assert!(result.is_same(&x));
    assert_eq!(x.to_vec::<f32>().unwrap(), [4.0]);

    let error = WRONG.call(&one()).unwrap_err();
    insta::assert_snapshot!(error.message(), @"
    Tried to access or call an operator with a wrong signature.
      operator: typed_and_boxed::f(Tensor x, int n) -> Tensor
      accessed/called as: (Tensor _0) -> Tensor _0
      reason: The number of arguments is different. 2 vs 1.
    ");
    assert_eq!(ABSENT.call().unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn arguments_are_bound_as_the_schema_says() {
    let dispatcher = Dispatcher::new();
    let mut library = Library::fragment(&dispatcher, "t");
    let f = library
        .def("f(Tensor x, int n=1, *, float f=2.0, int[2] s=1, str? t=None, ScalarType d=long, Tensor[]? l=None) -> ()")
        .unwrap();
    library.impl_kernel("f", &[DispatchKey::Cpu], Kernel::boxed(|_, _, _| Ok(()))).unwrap();
    let call = |positional: Vec<Value>, keywords: &[(&str, Value)]| {
        f.call_with(
            positional,
            keywords.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        )
    };
    let bound = call(
        vec![one().into()],
        &[("f", 1_i64.into()), ("s", 3_i64.into()), ("d", 6_i64.into()), ("l", vec![one(), one()].into())],
    )
    .unwrap();
    let [
        _,
        Value::Scalar(n),
        Value::Scalar(f),
        Value::List(s),
        Value::None,
        Value::ScalarType(d),
        Value::List(_),
    ] = &bound[..]
    else {
        panic!("{bound:?}")
    };
    assert_eq!((n.to::<i64>().unwrap(), *f, s.len()), (1, c10_core::Scalar::Double(1.0), 2));
    assert_eq!(*d, c10_core::ScalarType::Float32);
    assert!(matches!(call(vec![2.5.into()], &[]).unwrap()[0], Value::Tensor(ref x) if x.is_wrapped_number()));

    let text = |positional: Vec<Value>, keywords: &[(&str, Value)]| {
        let error = call(positional, keywords).unwrap_err();
        assert_eq!((error.kind(), error.operator()), (ErrorKind::InvalidArgument, Some("t::f")));
        error.message().replace(&f_schema(), "SCHEMA")
    };
    let mut texts = vec![
        text(vec![], &[]),
        text(vec!["a".into()], &[]),
        text(vec![one().into(), 1.5.into()], &[]),
        text(vec![one().into(), 1_i64.into(), 2.0.into()], &[]),
        text(vec![Value::None; 8], &[]),
        text(vec![one().into()], &[("f", "a".into())]),
        text(vec![one().into()], &[("s", 1.5.into())]),
        text(vec![one().into()], &[("s", vec![1.5, 2.0].into())]),
        text(vec![one().into()], &[("n", Value::None)]),
        text(vec![one().into()], &[("l", vec![Value::None].into())]),
        text(vec![one().into()], &[("zz", 1_i64.into())]),
        text(vec![one().into(), 1_i64.into()], &[("n", 1_i64.into())]),
    ];
    texts.push(String::new());
    insta::assert_snapshot!(texts.join("\n---\n"));
}

fn f_schema() -> String {
    "t::f(Tensor x, int n=1, *, float f=2., int[2] s=1, str? t=None, ScalarType d=4, Tensor[]? l=None) -> ()"
        .to_owned()
}

#[test]
fn calls_go_on_while_others_register() {
    let dispatcher = Dispatcher::new();
    let mut library = Library::fragment(&dispatcher, "t");
    let f = library.def("f(Tensor x) -> Tensor").unwrap();
    library.impl_kernel("f", &[DispatchKey::Cpu], named("cpu")).unwrap();
    let (done, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) || calls.load(Ordering::Relaxed) < 100 {
                    f.call_boxed(&mut vec![one().into()]).unwrap();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..200 {
            let mut other = Library::fragment(&dispatcher, "t");
            let around = Kernel::boxed(|operator, keys, stack| {
                operator.redispatch_boxed(keys & DispatchKeySet::full_after(DispatchKey::AutogradCpu), stack)
            });
            other.impl_kernel("f", &[DispatchKey::Autograd], around).unwrap();
            other.override_for("f", &[DispatchKey::Cpu], named("other")).unwrap();
            other.override_for("f", &[DispatchKey::AutogradCpu], Kernel::fallthrough()).unwrap();
            other.def("g(Tensor x) -> Tensor").unwrap();
            let mut fallbacks = Library::fallbacks(&dispatcher);
            fallbacks.fallback(&[DispatchKey::AdInplaceOrView], Kernel::fallthrough()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    dispatcher.check_invariants().unwrap();
}

#[derive(Clone, Debug)]
enum Action {
    Define(usize),
    Implement(usize, Vec<DispatchKey>, bool, bool),
    Fallback(DispatchKey),
    Drop(prop::sample::Index),
}

fn action() -> impl Strategy<Value = Action> {
    let key = || {
        let keys = [
            "CPU",
            "CUDA",
            "Meta",
            "SparseCPU",
            "AutogradCPU",
            "AutogradOther",
            "ADInplaceOrView",
            "Autograd",
        ];
        let composites =
            ["CompositeImplicitAutograd", "CompositeExplicitAutograd", "QuantizedCPU", "NestedTensorCPU"];
        prop::sample::select([keys.as_slice(), composites.as_slice()].concat())
            .prop_map(|name| name.parse::<DispatchKey>().unwrap())
    };
    prop_oneof![
        (0..2_usize).prop_map(Action::Define),
        (0..2_usize, prop::collection::vec(key(), 1..3), any::<bool>(), any::<bool>())
            .prop_map(|(op, keys, overrides, falls)| Action::Implement(op, keys, overrides, falls)),
        key().prop_map(Action::Fallback),
        any::<prop::sample::Index>().prop_map(Action::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rules_hold_after_any_actions(actions in prop::collection::vec(action(), 1..24)) {
        let dispatcher = Dispatcher::new();
        let mut libraries = Vec::new();
        for action in actions {
            let mut library = match action {
                Action::Fallback(_) => Library::fallbacks(&dispatcher),
                _ => Library::fragment(&dispatcher, "t"),
            };
            let result = match action {
                Action::Define(op) => library.def(&format!("f{op}(Tensor x) -> Tensor")).map(drop),
                Action::Implement(op, keys, overrides, falls) => {
                    let kernel = if falls { Kernel::fallthrough() } else { named("k") };
                    let name = format!("f{op}");
                    match overrides {
                        true => library.override_for(&name, &keys, kernel),
                        false => library.impl_kernel(&name, &keys, kernel),
                    }
                }
                Action::Fallback(key) => library.fallback(&[key], named("fallback")),
                Action::Drop(index) => {
                    if !libraries.is_empty() {
                        let at = index.index(libraries.len());
                        drop::<Library<'_>>(libraries.remove(at));
                    }
                    Ok(())
                }
            };
            if result.is_ok() {
                libraries.push(library);
            }
            if let Err(error) = dispatcher.check_invariants() {
                prop_assert!(false, "{}", error);
            }
        }
        libraries.clear();
        prop_assert!(dispatcher.check_invariants().is_ok());
        prop_assert!(dispatcher.dump_state("t::f0").is_none() && dispatcher.dump_state("t::f1").is_none());
    }
}

/// Of a tensor that is followed.
#[derive(Debug)]
struct Followed;

impl AutogradMeta for Followed {
    fn requires_grad(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn followed() -> Tensor {
    let tensor = one();
    tensor.autograd_meta_or_init(|| Box::new(Followed));
    tensor
}

/// Of a tensor that was said to be this result of something.
fn made_by(output: u32) -> Tensor {
    let mut tensor = one();
    tensor.set_made_by(Shared::new(|| "node").into_any(), output).unwrap();
    tensor
}

#[test]
fn what_made_a_tensor_is_said_once_while_nobody_has_it() {
    let node = || Shared::new(|| "other").into_any();
    let mut made = made_by(3);
    let (own, output) = made.made_by().unwrap();
    assert_eq!((*own.downcast::<&str>().unwrap(), output), ("node", 3));
    assert_eq!(*made.set_made_by(node(), 0).unwrap_err().downcast::<&str>().unwrap(), "other");
    assert_eq!(made.made_by().map(|(_, output)| output), Some(3));
    let (mut own, mut kept) = (one(), followed());
    let shared = own.clone();
    assert!(own.set_made_by(node(), 0).is_err() && kept.set_made_by(node(), 0).is_err());
    assert!(!shared.is_followed() && kept.made_by().is_none());
}

/// Notes which calls come by, and whose results are marked.
struct Follows<const MARKS: bool>(Log);

impl<const MARKS: bool> Around for Follows<MARKS> {
    type Record = ();
    const BELOW: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AutogradOther);
    const PASSED_BY: bool = true;
    const MARKS: bool = MARKS;

    fn before(&self, (): &mut (), _: Arguments<'_>) -> Result<bool> {
        self.0.note("before");
        Ok(false)
    }

    fn mark(&self, _: &Tensor, _: &mut Tensor) {
        self.0.note("mark");
    }
}

#[test]
fn calls_that_nobody_follows_are_led_past_kernels_that_follow() {
    type Plain = fn(&'static Tensor, Option<&'static Tensor>, &'static [Tensor]) -> Tensor;
    static PLAIN: Op<Plain> = Op::new("passed_by::f", "");
    static VIEW: Op<fn(&'static Tensor) -> Tensor> = Op::new("passed_by::view", "");

    let log = Log::default();
    let mut library = Library::fragment(Dispatcher::global(), "passed_by");
    library.def("f(Tensor x, Tensor? y, Tensor[] z) -> Tensor").unwrap();
    library.def("view(Tensor(a) x) -> Tensor(a)").unwrap();
    let noted = log.clone();
    library
        .impl_for(
            "f",
            &[DispatchKey::Cpu],
            move |keys: DispatchKeySet, x: &Tensor, _: Option<&Tensor>, _: &[Tensor]| {
                noted.note(if keys.has(DispatchKey::AutogradCpu) { "all keys" } else { "keys below" });
                Ok(x.clone())
            },
        )
        .unwrap();
    library.impl_for("view", &[DispatchKey::Cpu], |x: &Tensor| Ok(x.clone())).unwrap();
    let mut autograd = Library::fragment(Dispatcher::global(), "passed_by");
    let keys = [DispatchKey::Autograd];
    autograd.impl_kernel("f", &keys, PLAIN.around(Follows::<false>(log.clone()))).unwrap();
    autograd.impl_kernel("view", &keys, VIEW.around(Follows::<true>(log.clone()))).unwrap();
    Dispatcher::global().check_invariants().unwrap();

    let call = |x: &Tensor, y: Option<&Tensor>, z: &[Tensor]| {
        PLAIN.call(x, y, z).unwrap();
        log.take()
    };
    let (plain, of_concern) = (one(), followed());
    let view_of_followed = {
        let mut view = one();
        assert!(view.set_view_base(of_concern.clone(), 0) && view.is_followed());
        view
    };
    assert_eq!(call(&plain, Some(&plain), std::slice::from_ref(&plain)), ["keys below"]);
    assert_eq!(call(&of_concern, None, &[]), ["before", "keys below"]);
    assert_eq!(call(&plain, Some(&of_concern), &[]), ["before", "keys below"]);
    assert_eq!(call(&plain, None, &[plain.clone(), of_concern.clone()]), ["before", "keys below"]);
    assert_eq!(call(&view_of_followed, None, &[]), ["before", "keys below"]);
    assert_eq!(call(&made_by(3), None, &[]), ["before", "keys below"]);

    // The kernel below does not link views: those that nobody follows are marked all the same.
    VIEW.call(&plain).unwrap();
    assert_eq!(log.take(), ["mark"]);
    VIEW.call(&of_concern).unwrap();
    assert_eq!(log.take(), ["before"]);

    drop(autograd);
    assert_eq!(call(&of_concern, None, &[]), ["keys below"]);
}
