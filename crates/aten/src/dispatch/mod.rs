//! How a call finds its kernel.
//!
//! An operator (`aten::add.Tensor`) has a [schema](FunctionSchema), and kernels, each for a [key](DispatchKey): for
//! a backend, for autograd on that backend, for a mode. Every tensor carries the [set](DispatchKeySet) of its keys,
//! and every thread a set that it [includes and one that it excludes](local). A call
//!
//! 1. unites the keys of its tensors, adds what the thread includes and takes away what it excludes;
//! 2. takes away the keys that have nothing to do for this operator: those whose kernel is *fallthrough*;
//! 3. takes the key of the highest priority, and with it the kernel out of the operator's table: one load;
//! 4. calls it. A kernel that is not the last (autograd, a tracer) does its work and *redispatches* to the keys below
//!    its own ([`DispatchKeySet::full_after`]).
//!
//! The table has a slot for each of the 137 runtime keys. It is filled when something is registered, and not when
//! something is called: a kernel may be registered for a key, for an alias that stands for many keys
//! (`CompositeImplicitAutograd`), or as the fallback of a key for all operators, and which of them serves a slot is
//! decided by rules of precedence (`table`).
//!
//! A [`Kernel`] is a typed function or closure, or a boxed one that takes a [`Stack`] of [`Value`]s; each is called as
//! the other. An [`Op`] is a typed handle for calls from Rust; an [`OperatorHandle`] is called boxed, with arguments
//! [bound](FunctionSchema::bind) by position and name as its schema says.
//!
//! A [`Library`] registers definitions and kernels, and takes them back when it is dropped. A [`CustomOp`] is an
//! operator of an outside crate in a few lines. The example `custom-device` is a backend from outside: kernels under
//! `PrivateUse1`, and a fallback that runs everything else on the host.
//!
//! ```
//! use aten::dispatch::{DispatchKey, Dispatcher, Library, Op};
//! use aten::{Result, Tensor};
//!
//! static SCALE: Op<fn(&'static Tensor, f64) -> Tensor> = Op::new("mine::scale", "");
//!
//! let mut library = Library::define(Dispatcher::global(), "mine")?;
//! library.def("scale(Tensor x, float by=2.0) -> Tensor")?;
//! library.impl_for("scale", &[DispatchKey::Cpu], |x: &Tensor, by: f64| -> Result<Tensor> {
//!     let scaled: Vec<f64> = x.to_vec::<f64>()?.iter().map(|x| x * by).collect();
//!     Tensor::from_slice(&scaled, &x.sizes())
//! })?;
//! let x = Tensor::from_elements(&[1.0_f64, 2.0])?;
//! assert_eq!(SCALE.call(&x, 3.0)?.to_vec::<f64>()?, [3.0, 6.0]);
//!
//! let scale = Dispatcher::global().require("mine::scale")?;
//! let results = scale.call_with(vec![x.into()], vec![])?; // `by` is 2
//! # assert_eq!(results.len(), 1);
//! # Ok::<(), aten::Error>(())
//! ```

pub mod key;
pub mod key_set;
pub mod local;
mod name;
mod arg_type;
mod schema;
mod schema_parse;
mod schema_default;
mod schema_lex;
mod value;
mod coerce;
mod bind;
mod arg;
mod around;
mod signature;
mod inferred;
mod kernel;
mod slot;
mod operator;
mod missing;
mod op;
mod table;
mod fallback;
mod registry;
mod dispatcher;
mod library;
mod custom_op;
mod dump;

pub use arg::{Arg, Ret};
pub use arg_type::{AliasInfo, AliasSet, ArgType};
pub use around::{Arguments, Around, Results};
pub use custom_op::{CustomOp, CustomOpBuilder};
pub use dispatcher::Dispatcher;
pub use kernel::{BoxedFunction, Kernel};
pub use key::{Backend, DispatchKey, Functionality};
pub use key_set::DispatchKeySet;
pub use library::Library;
pub use local::LocalDispatchKeySet;
pub use name::OperatorName;
pub use op::Op;
pub use operator::OperatorHandle;
pub use schema::{Argument, DefaultValue, FunctionSchema, Return};
pub use signature::{IntoKernel, Signature, WithKeys};
pub use table::KernelSource;
pub use value::{Stack, Value};
