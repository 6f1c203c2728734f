//! Operators of an outside crate: this one, which sees only what is public.

use aten::dispatch::{CustomOp, DispatchKey, Dispatcher, Kernel, Op, Value};
use aten::tensor::Access;
use aten::{ErrorKind, Result, Tensor};
use c10_core::{Device, DeviceType, ScalarType, Storage};

fn sin(x: &Tensor) -> Result<Tensor> {
    let sines: Vec<f32> = x.to_vec::<f32>()?.iter().map(|x| x.sin()).collect();
    Tensor::from_slice(&sines, &x.sizes())
}

fn clip_(x: &Tensor, limit: f64) -> Result<()> {
    let mut set = Access::acquire(&[], &[x])?;
    set.write_slice::<f32>(0)?.iter_mut().for_each(|x| *x = x.min(limit as f32));
    Ok(())
}

fn meta(sizes: &[i64]) -> Tensor {
    let bytes = 4 * sizes.iter().product::<i64>() as usize;
    let allocator = c10_core::allocator::get_allocator(DeviceType::Meta).unwrap();
    let storage = Storage::new(bytes, allocator.clone()).unwrap();
    Tensor::from_storage(storage, ScalarType::Float32, sizes, &[1], 0).unwrap()
}

fn tensor(results: &[Value]) -> &Tensor {
    match results {
        [Value::Tensor(tensor)] => tensor,
        other => panic!("one tensor, not {other:?}"),
    }
}

#[test]
fn a_kernel_and_a_fake_one() {
    static SIN: Op<fn(&'static Tensor) -> Tensor> = Op::new("custom_a::sin", "");
    let op = CustomOp::builder("custom_a::sin(Tensor x) -> Tensor")
        .kernel(DeviceType::Cpu, sin)
        .fake(|x: &Tensor| Ok(meta(&x.sizes())))
        .register(Dispatcher::global())
        .unwrap();
    let x = Tensor::from_elements(&[0.0_f32, 1.0]).unwrap();
    let expected = [0.0, 1.0_f32.sin()];
    assert_eq!(tensor(&op.call(vec![x.clone().into()]).unwrap()).to_vec::<f32>().unwrap(), expected);
    assert_eq!(SIN.call(&x).unwrap().to_vec::<f32>().unwrap(), expected);
    let shape = op.call(vec![meta(&[5]).into()]).unwrap();
    assert_eq!((&*tensor(&shape).sizes(), tensor(&shape).device()), (&[5_i64][..], Device::META));

    drop(op);
    assert!(Dispatcher::global().find("custom_a::sin").is_none());
    assert_eq!(SIN.call(&x).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn written_arguments_count_a_write() {
    let dispatcher = Dispatcher::new();
    let op = CustomOp::builder("custom::clip_(Tensor(a!) x, float limit=1.0) -> Tensor(a!)")
        .kernel(DeviceType::Cpu, clip_)
        .register(&dispatcher)
        .unwrap();
    let x = Tensor::from_elements(&[0.5_f32, 2.0]).unwrap();
    let results = op.call(vec![x.clone().into()]).unwrap();
    assert!(tensor(&results).is_same(&x));
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.5, 1.0]);
    // One by the access, one by the schema: as PyTorch counts an in-place call within a custom operator.
    assert_eq!(x.version(), 2);

    // A kernel that writes behind the counter's back is counted all the same, in lists too.
    let op = CustomOp::builder("custom::quiet_(Tensor(a!)[] xs, Tensor y) -> ()")
        .kernel(DeviceType::Cpu, |_xs: &[Tensor], _y: &Tensor| Ok(()))
        .register(&dispatcher)
        .unwrap();
    let y = Tensor::from_elements(&[1.0_f32]).unwrap();
    op.call(vec![vec![x.clone()].into(), y.clone().into()]).unwrap();
    assert_eq!((x.version(), y.version()), (3, 0));

    let op = CustomOp::builder("custom::fails_(Tensor(a!) x) -> ()")
        .kernel(DeviceType::Cpu, |_x: &Tensor| -> Result<()> { Err(aten::Error::invalid_argument("no")) })
        .register(&dispatcher)
        .unwrap();
    assert_eq!(op.call(vec![y.clone().into()]).unwrap_err().operator(), Some("custom::fails_"));
    assert_eq!(y.version(), 0);
}

#[test]
fn results_on_memory_of_others_are_refused() {
    let dispatcher = Dispatcher::new();
    let identity = CustomOp::builder("custom::identity(Tensor x) -> Tensor")
        .kernel(DeviceType::Cpu, |x: &Tensor| Ok(x.clone()))
        .register(&dispatcher)
        .unwrap();
    let x = Tensor::from_elements(&[1.0_f32, 2.0]).unwrap();
    let error = identity.call(vec![x.clone().into()]).unwrap_err();
    assert_eq!((error.kind(), error.operator()), (ErrorKind::InvalidArgument, Some("custom::identity")));
    assert!(error.message().starts_with("The output of this custom operator (1) must not also be an input"));

    let tail = CustomOp::builder("custom::tail(Tensor x) -> Tensor[]")
        .kernel(DeviceType::Cpu, |x: &Tensor| {
            Ok(vec![Tensor::from_storage(x.storage(), x.dtype(), &[1], &[1], 1)?])
        })
        .register(&dispatcher)
        .unwrap();
    assert_eq!(tail.call(vec![x.clone().into()]).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let twice = CustomOp::builder("custom::twice(Tensor x) -> (Tensor, Tensor)")
        .kernel(DeviceType::Cpu, |x: &Tensor| sin(x).map(|y| (y.clone(), y)))
        .register(&dispatcher)
        .unwrap();
    assert_eq!(twice.call(vec![x.into()]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_kernel_for_all_devices_needs_a_fake_one_for_meta() {
    let dispatcher = Dispatcher::new();
    let op = CustomOp::builder("custom::sin(Tensor x) -> Tensor")
        .kernel_for_all(sin)
        .register(&dispatcher)
        .unwrap();
    assert_eq!(tensor(&op.call(vec![Tensor::from_elements(&[0.0_f32]).unwrap().into()]).unwrap()).numel(), 1);
    let error = op.call(vec![meta(&[1]).into()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert!(error.message().starts_with("There was no fake kernel registered for custom::sin."), "{error}");
}

#[test]
fn what_is_refused_leaves_no_operator() {
    let dispatcher = Dispatcher::new();
    let kinds = [
        ("custom::f(Tensor x -> Tensor", ErrorKind::Parse),
        ("f(Tensor x) -> Tensor", ErrorKind::Registration),
        ("custom::f(Tensor(a) x) -> Tensor(a)", ErrorKind::Registration),
        ("custom::f(Tensor x, Tensor y) -> Tensor", ErrorKind::Registration),
    ];
    for (schema, kind) in kinds {
        let error = CustomOp::builder(schema).kernel(DeviceType::Cpu, sin).register(&dispatcher).unwrap_err();
        assert_eq!(error.kind(), kind, "{schema}");
        assert!(dispatcher.operators().is_empty() && dispatcher.dangling_impls().is_empty());
    }
    let op =
        CustomOp::builder("custom::f(Tensor x) -> Tensor").kernel(DeviceType::Cpu, sin).register(&dispatcher);
    let mut op = op.unwrap();
    let again = CustomOp::builder("custom::f(Tensor x) -> Tensor").register(&dispatcher).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Registration);
    let autograd = Kernel::fallthrough().named("formula");
    op.library().impl_kernel("f", &[DispatchKey::Autograd], autograd).unwrap();
    assert!(
        dispatcher
            .dump_computed_table("custom::f")
            .unwrap()
            .contains("AutogradCPU: fallthrough formula [autograd kernel]")
    );
    let operator = op.keep();
    assert_eq!(dispatcher.find("custom::f").map(|found| found.name()), Some(operator.name()));
}
