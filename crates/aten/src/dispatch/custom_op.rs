//! [`CustomOp`]: an operator of an outside crate, in a few lines (`torch.library.custom_op`).
//!
//! // Note [What a custom operator promises]
//! A custom operator is a black box: autograd, tracers and functional rewrites know of it what its schema says. So
//! it must say which arguments it writes, and what it returns is new memory. The first is served here: the versions
//! of written arguments are bumped, whether or not the kernel wrote through a counting access. The second is
//! checked, after each call.

use c10_core::DeviceType;

use super::dispatcher::Dispatcher;
use super::kernel::Kernel;
use super::key::DispatchKey;
use super::key_set::DispatchKeySet;
use super::library::Library;
use super::operator::OperatorHandle;
use super::registry::refused;
use super::schema::FunctionSchema;
use super::signature::IntoKernel;
use super::value::{self, Stack, Value};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An operator that was registered by [`CustomOp::builder`]. It goes when this is dropped, unless it is
/// [kept](Self::keep).
#[derive(Debug)]
#[must_use = "the operator goes when this is dropped"]
pub struct CustomOp<'d> {
    library: Library<'d>,
    operator: OperatorHandle,
}

/// An operator about to be registered.
#[derive(Debug)]
#[must_use = "nothing is registered before `register`"]
pub struct CustomOpBuilder {
    schema: Result<FunctionSchema>,
    kernels: Vec<(DispatchKey, Kernel)>,
}

impl<'d> CustomOp<'d> {
    /// An operator of this schema, with its namespace. Arguments that it writes are marked:
    /// `mylib::clip_(Tensor(a!) x, float limit) -> ()`.
    ///
    /// ```
    /// use aten::dispatch::{CustomOp, Dispatcher};
    /// use aten::{Result, Tensor};
    /// use c10_core::DeviceType;
    ///
    /// let double = CustomOp::builder("mylib::double(Tensor x) -> Tensor")
    ///     .kernel(DeviceType::Cpu, |x: &Tensor| -> Result<Tensor> {
    ///         let doubled: Vec<f32> = x.to_vec::<f32>()?.iter().map(|x| 2.0 * x).collect();
    ///         Tensor::from_slice(&doubled, &x.sizes())
    ///     })
    ///     .fake(|x: &Tensor| x.add(x))
    ///     .register(Dispatcher::global())?;
    ///
    /// let results = double.call(vec![Tensor::from_elements(&[1.0_f32, 2.0])?.into()])?;
    /// # let aten::dispatch::Value::Tensor(doubled) = &results[0] else { panic!("a tensor") };
    /// # assert_eq!(doubled.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    pub fn builder(schema: &str) -> CustomOpBuilder {
        CustomOpBuilder { schema: schema.parse(), kernels: Vec::new() }
    }

    /// The operator.
    pub fn operator(&self) -> OperatorHandle {
        self.operator
    }

    /// Calls it with arguments by position.
    ///
    /// # Errors
    /// As [`OperatorHandle::call_with`]. [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) too, after
    /// the kernel ran, when it returned an argument, or a tensor on memory of an argument or of another result.
    pub fn call(&self, arguments: Vec<Value>) -> Result<Stack> {
        self.operator.call_with(arguments, Vec::new())
    }

    /// The library of the operator: for kernels under more keys, as a formula for its derivative.
    pub fn library(&mut self) -> &mut Library<'d> {
        &mut self.library
    }

    /// Lets the operator stay for good.
    pub fn keep(self) -> OperatorHandle {
        self.library.keep();
        self.operator
    }
}

impl CustomOpBuilder {
    /// Adds the kernel for tensors on a type of device (`register_kernel`).
    #[track_caller]
    pub fn kernel<M>(self, device: DeviceType, kernel: impl IntoKernel<M>) -> Self {
        self.add(DispatchKey::of_device(device), kernel.into_kernel())
    }

    /// Adds a kernel for tensors on any device that has none of its own (`device_types=None`).
    #[track_caller]
    pub fn kernel_for_all<M>(self, kernel: impl IntoKernel<M>) -> Self {
        self.add(DispatchKey::CompositeExplicitAutograd, kernel.into_kernel())
    }

    /// Adds the kernel that makes of sizes and dtypes those of the results, without elements (`register_fake`).
    #[track_caller]
    pub fn fake<M>(self, kernel: impl IntoKernel<M>) -> Self {
        self.add(DispatchKey::Meta, kernel.into_kernel())
    }

    fn add(mut self, key: DispatchKey, kernel: Kernel) -> Self {
        self.kernels.push((key, kernel));
        self
    }

    /// Registers the operator with its kernels, or nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) when the schema is none;
    /// [`ErrorKind::Registration`](crate::ErrorKind::Registration) when it has no namespace or says that a result
    /// is a view of an argument, when it is defined already, or when the type of a kernel is another.
    #[track_caller]
    pub fn register(self, dispatcher: &Dispatcher) -> Result<CustomOp<'_>> {
        let schema = self.schema?;
        let name = schema.name().to_string();
        let Some(namespace) = schema.name().namespace() else {
            return Err(refused(format!("{name}: the name of a custom operator begins with a namespace")));
        };
        let is_view = |alias: &super::arg_type::AliasInfo| !alias.is_write;
        if schema.returns().iter().any(|result| result.alias.as_ref().is_some_and(is_view)) {
            return Err(refused(format!("{schema}: a custom operator returns no view of an argument")));
        }
        let mut library = Library::fragment(dispatcher, namespace);
        let operator = library.def(&schema.to_string())?;
        let has = |key| self.kernels.iter().any(|(of, _)| *of == key);
        let lacks_fake = has(DispatchKey::CompositeExplicitAutograd) && !has(DispatchKey::Meta);
        for (key, kernel) in self.kernels {
            library.impl_kernel(&name, &[key], kernel.checked(check_results))?;
        }
        if lacks_fake {
            // The kernel for all devices reads elements, which Meta tensors lack.
            let refuse = Kernel::boxed(no_fake).named("no fake kernel");
            library.impl_kernel(&name, &[DispatchKey::Meta], refuse)?;
        }
        if schema.is_mutable() {
            let bump = Kernel::boxed(bump_written).named("version counters of written arguments");
            library.impl_kernel(&name, &[DispatchKey::AdInplaceOrView], bump)?;
        }
        Ok(CustomOp { library, operator })
    }
}

fn no_fake(operator: OperatorHandle, _: DispatchKeySet, _: &mut Stack) -> Result<()> {
    Err(Error::not_implemented(format!(
        "There was no fake kernel registered for {}. It is called with Meta tensors, of which its other kernels cannot \
         tell sizes and dtypes. Add one with `fake`.",
        operator.name()
    )))
}

/// Calls what is below, and counts a write to each argument that the schema says is written.
fn bump_written(operator: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let arguments = operator.schema().map_or(&[][..], FunctionSchema::arguments);
    let mut written = Vec::new();
    for (value, _) in stack.iter().zip(arguments).filter(|(_, argument)| argument.is_write()) {
        value.for_each_tensor(&mut |tensor| written.push(tensor.clone()));
    }
    let below = keys & DispatchKeySet::full_after(DispatchKey::AdInplaceOrView);
    operator.redispatch_boxed(below, stack)?;
    written.iter().for_each(|tensor| tensor.storage().bump_version());
    Ok(())
}

/// Refuses results on memory of arguments or of each other, but for those that the schema says are written
/// arguments.
fn check_results(operator: OperatorHandle, arguments: &[Tensor], results: &[Value]) -> Result<()> {
    let declared = operator.schema().map_or(&[][..], FunctionSchema::returns);
    let mut seen = arguments.to_vec();
    for (value, _) in results.iter().zip(declared).filter(|(_, result)| result.alias.is_none()) {
        for tensor in value::tensors(std::slice::from_ref(value)) {
            if seen.iter().any(|other| other.is_alias_of(&tensor)) {
                return Err(Error::invalid_argument(
                    "The output of this custom operator (1) must not also be an input to this custom operator and (2) \
                     may not alias any inputs to this custom operator or other returns. Return a copy of it instead.",
                ));
            }
            seen.push(tensor);
        }
    }
    Ok(())
}
