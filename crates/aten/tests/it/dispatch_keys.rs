//! Keys, key sets and a thread's sets, against what PyTorch 2.15 says of them.

use aten::dispatch::key::NUM_RUNTIME_ENTRIES;
use aten::dispatch::local::{
    AutoDispatchBelowADInplaceOrView, AutoDispatchBelowAutograd, ExcludeDispatchKeyGuard,
    ForceDispatchKeyGuard, IncludeDispatchKeyGuard,
};
use aten::dispatch::{Backend, DispatchKey, DispatchKeySet, Functionality, LocalDispatchKeySet};
use c10_core::DeviceType;
use proptest::prelude::*;

#[test]
fn numbers_are_pytorchs() {
    let numbers = [
        (DispatchKey::Undefined, 0, "Undefined"),
        (DispatchKey::BackendSelect, 11, "BackendSelect"),
        (DispatchKey::AdInplaceOrView, 19, "ADInplaceOrView"),
        (DispatchKey::AutocastCuda, 32, "AutocastCUDA"),
        (DispatchKey::PythonDispatcher, 46, "PythonDispatcher"),
        (DispatchKey::Cpu, 49, "CPU"),
        (DispatchKey::Cuda, 50, "CUDA"),
        (DispatchKey::PrivateUse1, 61, "PrivateUse1"),
        (DispatchKey::Meta, 64, "Meta"),
        (DispatchKey::new(Functionality::Quantized, Backend::Cpu), 66, "QuantizedCPU"),
        (DispatchKey::new(Functionality::SparseCsr, Backend::Meta), 115, "SparseCsrMeta"),
        (DispatchKey::new(Functionality::NestedTensor, Backend::Cpu), 117, "NestedTensorCPU"),
        (DispatchKey::AutogradCpu, 134, "AutogradCPU"),
        (DispatchKey::AutogradMeta, 149, "AutogradMeta"),
        (DispatchKey::Autograd, 150, "Autograd"),
        (DispatchKey::CompositeExplicitAutogradNonFunctional, 155, "CompositeExplicitAutogradNonFunctional"),
    ];
    for (key, number, name) in numbers {
        assert_eq!((key.number(), key.to_string().as_str()), (number, name));
        assert_eq!(name.parse::<DispatchKey>().unwrap(), key);
    }
    assert_eq!("Foo".parse::<DispatchKey>().unwrap_err().kind(), aten::ErrorKind::Parse);
}

#[test]
fn slots_are_pytorchs() {
    assert_eq!(NUM_RUNTIME_ENTRIES, 137);
    let slots = [
        (DispatchKey::Undefined, 0),
        (DispatchKey::Cpu, 1),
        (DispatchKey::Cuda, 2),
        (DispatchKey::Meta, 16),
        (DispatchKey::new(Functionality::Sparse, Backend::Cuda), 39),
        (DispatchKey::BackendSelect, 86),
        (DispatchKey::AdInplaceOrView, 94),
        (DispatchKey::AutogradOther, 95),
        (DispatchKey::AutogradCpu, 96),
        (DispatchKey::AutogradCuda, 97),
        (DispatchKey::PythonDispatcher, 136),
    ];
    for (key, slot) in slots {
        assert_eq!(key.table_index(), Some(slot), "{key}");
    }
    for (slot, key) in DispatchKey::runtime_keys().enumerate() {
        assert_eq!(key.table_index(), Some(slot));
        assert_eq!(DispatchKey::from_table_index(slot), key);
        assert!(key.is_runtime() && !key.is_alias());
        assert_eq!(key.to_string().parse::<DispatchKey>().unwrap(), key);
    }
    for key in DispatchKey::ALIASES {
        assert_eq!(key.table_index(), None);
        assert!(DispatchKeySet::new(key).is_empty());
    }
    assert_eq!(DispatchKey::functionality_only(Functionality::Autograd).table_index(), None);
}

#[test]
fn every_type_of_device_has_its_keys() {
    for device in DeviceType::ALL {
        let (kernels, autograd) = (DispatchKey::of_device(device), DispatchKey::autograd_of_device(device));
        assert_eq!(autograd.to_string(), format!("Autograd{kernels}"));
        assert_eq!(DispatchKeySet::backends_of_autograd(autograd), DispatchKeySet::new(kernels));
    }
}

#[test]
fn bits_are_pytorchs() {
    let bits = [
        (DispatchKeySet::new(DispatchKey::Cpu), 0x10001),
        (DispatchKeySet::new(DispatchKey::Cuda), 0x10002),
        (DispatchKeySet::new(DispatchKey::Meta), 0x18000),
        (DispatchKeySet::new(DispatchKey::AdInplaceOrView), 0x4_0000_0000),
        (DispatchKeySet::new(DispatchKey::AutogradCpu), 0x10_0000_0001),
        (DispatchKeySet::FULL, 0x3fff_ffff_ffff_ffff),
        (DispatchKeySet::AUTOGRAD_OTHER_BACKENDS, 0x1fe_ffff),
        (DispatchKeySet::full_after(DispatchKey::Undefined), 0x2000_0000_0000_7fff),
        (DispatchKeySet::full_after(DispatchKey::Cpu), 0x2000_0000_0000_ffff),
        (DispatchKeySet::full_after(DispatchKey::AutogradCpu), 0x2000_000f_ffff_ffff),
        (DispatchKeySet::full_after(DispatchKey::AdInplaceOrView), 0x2000_0003_ffff_ffff),
        (DispatchKeySet::backends_of_autograd(DispatchKey::AutogradNestedTensor), 0x200_ffff),
        (DispatchKeySet::backends_of_autograd(DispatchKey::AutogradPrivateUse1), 0x11000),
        (DispatchKeySet::backends_of_autograd(DispatchKey::Cpu), 0),
    ];
    for (set, raw) in bits {
        assert_eq!(set.raw_repr(), raw, "{set}");
        assert_eq!(DispatchKeySet::from_raw_repr(raw), set);
    }
}

#[test]
fn a_backend_bit_belongs_to_every_functionality() {
    let mixed = DispatchKeySet::of(&[DispatchKey::Cpu, DispatchKey::AutogradCuda]);
    assert_eq!(mixed.to_string(), "DispatchKeySet(CPU, CUDA, AutogradCPU, AutogradCUDA)");
    assert!(mixed.has(DispatchKey::Cuda) && mixed.has(DispatchKey::AutogradCpu));
    assert_eq!(mixed.highest_priority_key(), DispatchKey::AutogradCuda);
    assert_eq!((mixed - DispatchKeySet::new(DispatchKey::Cpu)).raw_repr(), 0x10_0000_0003);
    assert_eq!(mixed.remove(DispatchKey::Cpu).raw_repr(), 0x10_0000_0003);
    assert_eq!(mixed.remove_backend(Backend::Cuda).to_string(), "DispatchKeySet(CPU, AutogradCPU)");
    assert_eq!(mixed.add(DispatchKey::Meta).highest_backend(), Some(Backend::Meta));
    assert_eq!(DispatchKeySet::EMPTY.to_string(), "DispatchKeySet()");
    assert_eq!(DispatchKeySet::BACKENDS.highest_priority_key(), DispatchKey::Undefined);
    assert_eq!(DispatchKeySet::BACKENDS.table_index(), 0);
    assert_eq!(DispatchKeySet::from_raw_repr(u64::MAX).table_index(), NUM_RUNTIME_ENTRIES - 1);
}

#[test]
fn aliases_stand_for_pytorchs_keys() {
    let counts = [
        (DispatchKey::Autograd, 18),
        (DispatchKey::CompositeImplicitAutograd, 103),
        (DispatchKey::FuncTorchBatchedDecomposition, 1),
        (DispatchKey::CompositeImplicitAutogradNestedTensor, 17),
        (DispatchKey::CompositeExplicitAutograd, 69),
        (DispatchKey::CompositeExplicitAutogradNonFunctional, 47),
    ];
    for (alias, count) in counts {
        assert_eq!(DispatchKeySet::runtime_of(alias).iter().count(), count, "{alias}");
    }
    let explicit = DispatchKeySet::runtime_of(DispatchKey::CompositeExplicitAutograd);
    assert!(explicit.has(DispatchKey::new(Functionality::Sparse, Backend::Lazy)));
    assert!(!explicit.has(DispatchKey::AutogradCpu));
    assert!(!explicit.has(DispatchKey::new(Functionality::NestedTensor, Backend::Cpu)));
    let functional = DispatchKeySet::runtime_of(DispatchKey::CompositeExplicitAutogradNonFunctional);
    assert!(!functional.has(DispatchKey::new(Functionality::Dense, Backend::Xla)));
    assert_eq!(DispatchKeySet::runtime_of(DispatchKey::Cpu).to_string(), "DispatchKeySet(CPU)");
}

#[test]
fn a_thread_begins_with_pytorchs_sets() {
    let local = LocalDispatchKeySet::current();
    assert_eq!(local, LocalDispatchKeySet::default());
    assert_eq!(local.included.to_string(), "DispatchKeySet(BackendSelect, ADInplaceOrView)");
    assert_eq!(
        local.excluded.to_string(),
        "DispatchKeySet(AutocastCPU, AutocastMTIA, AutocastMAIA, AutocastXPU, AutocastIPU, AutocastHPU, AutocastXLA, \
         AutocastMPS, AutocastCUDA, AutocastPrivateUse1)"
    );
    let tensor = DispatchKeySet::of(&[DispatchKey::Cpu, DispatchKey::AutogradCpu, DispatchKey::AutocastCpu]);
    assert_eq!(local.apply(tensor).highest_priority_key(), DispatchKey::AutogradCpu);
    let below = AutoDispatchBelowAutograd::scope(LocalDispatchKeySet::current).apply(tensor);
    assert_eq!(below.highest_priority_key(), DispatchKey::AdInplaceOrView);
    let below = AutoDispatchBelowADInplaceOrView::scope(LocalDispatchKeySet::current).apply(tensor);
    assert_eq!(below.highest_priority_key(), DispatchKey::BackendSelect);
    assert_eq!(LocalDispatchKeySet::current(), local);
}

#[test]
fn a_thread_gets_only_what_is_carried_to_it() {
    let _guard = IncludeDispatchKeyGuard::new(DispatchKey::Tracer.into());
    let captured = LocalDispatchKeySet::current();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(LocalDispatchKeySet::current(), LocalDispatchKeySet::DEFAULT);
            assert_eq!(captured.scope(LocalDispatchKeySet::current), captured);
            assert_eq!(LocalDispatchKeySet::current(), LocalDispatchKeySet::DEFAULT);
        });
    });
}

#[test]
fn a_panic_restores_the_sets() {
    let caught = std::panic::catch_unwind(|| {
        AutoDispatchBelowAutograd::scope(|| std::panic::resume_unwind(Box::new("expected")));
    });
    assert!(caught.is_err());
    assert_eq!(LocalDispatchKeySet::current(), LocalDispatchKeySet::DEFAULT);
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Include(u64),
    Exclude(u64),
    Force(u64, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let bits = || any::<u64>().prop_map(|bits| bits & DispatchKeySet::FULL.raw_repr());
    prop_oneof![
        bits().prop_map(Change::Include),
        bits().prop_map(Change::Exclude),
        (bits(), bits()).prop_map(|(included, excluded)| Change::Force(included, excluded)),
    ]
}

fn enter(change: Change) -> Box<dyn std::fmt::Debug> {
    match change {
        Change::Include(bits) => Box::new(IncludeDispatchKeyGuard::new(DispatchKeySet::from_raw_repr(bits))),
        Change::Exclude(bits) => Box::new(ExcludeDispatchKeyGuard::new(DispatchKeySet::from_raw_repr(bits))),
        Change::Force(included, excluded) => Box::new(ForceDispatchKeyGuard::new(LocalDispatchKeySet {
            included: DispatchKeySet::from_raw_repr(included),
            excluded: DispatchKeySet::from_raw_repr(excluded),
        })),
    }
}

proptest! {
    #[test]
    fn guards_restore_in_any_order(
        changes in proptest::collection::vec((change(), any::<prop::sample::Index>()), 0..12),
    ) {
        let mut guards: Vec<_> = changes.iter().map(|(change, _)| enter(*change)).collect();
        for (_, index) in &changes {
            drop(guards.swap_remove(index.index(guards.len())));
        }
        prop_assert_eq!(LocalDispatchKeySet::current(), LocalDispatchKeySet::DEFAULT);
    }

    #[test]
    fn nested_guards_restore_each_step(changes in proptest::collection::vec(change(), 0..12)) {
        let mut steps = Vec::new();
        for change in changes {
            let before = LocalDispatchKeySet::current();
            steps.push((before, enter(change)));
            let now = LocalDispatchKeySet::current();
            match change {
                Change::Include(bits) => prop_assert!(now.included.has_all(DispatchKeySet::from_raw_repr(bits))),
                Change::Exclude(bits) => prop_assert!(now.excluded.has_all(DispatchKeySet::from_raw_repr(bits))),
                Change::Force(included, _) => prop_assert_eq!(now.included.raw_repr(), included),
            }
        }
        while let Some((before, guard)) = steps.pop() {
            drop(guard);
            prop_assert_eq!(LocalDispatchKeySet::current(), before);
        }
    }

    #[test]
    fn a_set_is_its_keys(bits in any::<u64>(), other in any::<u64>()) {
        let (set, other) = (DispatchKeySet::from_raw_repr(bits), DispatchKeySet::from_raw_repr(other));
        let keys: Vec<_> = set.iter().collect();
        for key in DispatchKey::runtime_keys() {
            prop_assert_eq!(set.has(key), keys.contains(&key), "{}", key);
            prop_assert!(!set.remove(key).has(key));
            prop_assert!(key == DispatchKey::Undefined || set.add(key).has(key));
        }
        if !keys.is_empty() && !other.intersection(DispatchKeySet::BACKENDS).is_empty() {
            let shared = other.iter().any(|key| set.has(key));
            prop_assert!(!shared || set.has_any(other));
        }
        if let Some(index) = set.highest_priority_key().table_index() {
            prop_assert_eq!(set.table_index(), index);
        }
    }
}
