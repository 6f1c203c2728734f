//! [`Signature`]: a function type that stands for the arguments and results of an operator, and what can be
//! done with kernels of that type.
//!
//! It is written `fn(&'static Tensor, Scalar) -> Tensor`: the type alone says what a kernel takes
//! (`&Tensor` of any lifetime) and that it returns `Result<Tensor>`.

use std::sync::Arc;

use super::arg::{Arg, Ret};
use super::around::{Arguments, Around, Lent, Results};
use super::kernel::{Kernel, PassedBy};
use super::key_set::DispatchKeySet;
use super::op::Op;
use super::operator::{Led, OperatorHandle};
use super::value::Stack;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Arguments and results of an operator, as a function type. Implemented for up to 16 arguments.
pub trait Signature: 'static {
    /// What a typed kernel is.
    type Function: ?Sized + Send + Sync + 'static;

    /// The types of the arguments, each by its names in the schema grammar.
    fn argument_names() -> Vec<&'static [&'static str]>;

    /// The types of the results, each by its names in the schema grammar; see [`Ret::names`].
    fn return_names() -> Option<Vec<&'static [&'static str]>>;

    /// Calls a typed kernel with boxed arguments, and puts its results in their place.
    ///
    /// # Errors
    /// When the arguments are of other types or numbers; else what the kernel returns.
    fn call_boxed(function: &Self::Function, keys: DispatchKeySet, stack: &mut Stack) -> Result<()>;
}

/// A function or closure that can be a kernel: of the arguments alone, or with the key set before them, by
/// which it can redispatch. `M` is found by the compiler.
pub trait IntoKernel<M> {
    /// The kernel, made where this is called.
    #[track_caller]
    fn into_kernel(self) -> Kernel;
}

/// Marks the form that takes the key set.
#[derive(Debug)]
pub struct WithKeys<S>(std::marker::PhantomData<S>);

/// A kernel is one already.
impl IntoKernel<Kernel> for Kernel {
    fn into_kernel(self) -> Kernel {
        self
    }
}

/// Calls a kernel that is no typed one.
#[cold]
#[inline(never)]
fn boxed<R: Ret>(
    kernel: &Kernel,
    operator: OperatorHandle,
    keys: DispatchKeySet,
    arguments: impl FnOnce() -> Stack,
) -> Result<R> {
    let mut stack = arguments();
    kernel.call_boxed(operator, keys, &mut stack).and_then(|()| R::pop(stack))
}

/// The error with the operator's name and its tensors'. The arguments come by value: those of a call that succeeds
/// then need no place in memory.
#[cold]
#[inline(never)]
fn annotated(operator: OperatorHandle, error: Error, tensors: impl Fn(&mut dyn FnMut(&Tensor))) -> Error {
    operator.annotate(error, &tensors)
}

macro_rules! signatures {
    ($($count:literal: $($P:ident $p:ident)*;)*) => {$(
        impl<$($P: Arg,)* R: Ret> Signature for fn($($P),*) -> R {
            type Function = dyn for<'a> Fn(DispatchKeySet, $($P::Item<'a>),*) -> Result<R> + Send + Sync;

            fn argument_names() -> Vec<&'static [&'static str]> {
                vec![$($P::NAMES),*]
            }

            fn return_names() -> Option<Vec<&'static [&'static str]>> {
                R::names()
            }

            fn call_boxed(function: &Self::Function, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
                if stack.len() != $count {
                    return Err(Error::invalid_argument(format!(
                        "expected {} argument(s) but received {}", $count, stack.len()
                    )));
                }
                #[allow(unused_mut, unused_variables, reason = "there may be no argument")]
                let mut arguments = stack.drain(..);
                $(let $p = $P::unbox(arguments.next().unwrap_or_default())?;)*
                drop(arguments);
                function(keys, $($P::lend(&$p)),*)?.push(stack);
                Ok(())
            }
        }

        impl<F, $($P: Arg,)* R: Ret> IntoKernel<fn($($P),*) -> R> for F
        where
            F: Fn($($P),*) -> Result<R> + for<'a> Fn($($P::Item<'a>),*) -> Result<R> + Send + Sync + 'static,
        {
            fn into_kernel(self) -> Kernel {
                /// Says that the closure takes arguments of any one lifetime.
                fn of_any<$($P: Arg,)* R, F>(function: F) -> F
                where
                    F: for<'a> Fn(DispatchKeySet, $($P::Item<'a>),*) -> Result<R>,
                {
                    function
                }
                let function = of_any::<$($P,)* R, _>(move |_, $($p),*| self($($p),*));
                Kernel::typed::<fn($($P),*) -> R>(Arc::new(function))
            }
        }

        impl<F, $($P: Arg,)* R: Ret> IntoKernel<WithKeys<fn($($P),*) -> R>> for F
        where
            F: Fn(DispatchKeySet, $($P),*) -> Result<R>
                + for<'a> Fn(DispatchKeySet, $($P::Item<'a>),*) -> Result<R>
                + Send
                + Sync
                + 'static,
        {
            fn into_kernel(self) -> Kernel {
                Kernel::typed::<fn($($P),*) -> R>(Arc::new(self))
            }
        }

        impl<$($P: Arg,)* R: Ret> Op<fn($($P),*) -> R> {
            /// Calls the operator on what the arguments' keys and the thread's lead to (`op.call`).
            ///
            /// # Errors
            /// What the kernel refuses, with the operator's name, the shapes and the dtypes; or that there is no
            /// kernel.
            #[inline]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes, reason = "as many as the operator has")]
            pub fn call<'a>(&self, $($p: $P::Item<'a>),*) -> Result<R> {
                let operator = self.operator()?;
                let keys = DispatchKeySet::EMPTY $(.union($P::keys($p)))*;
                let is_followed = || false $(|| $P::is_followed($p))*;
                self.call_with(operator, operator.lead_call(keys, is_followed), $($p),*)
            }

            /// Calls the kernel of the highest of `keys`, whatever the arguments and the thread say
            /// (`op.redispatch`).
            ///
            /// # Errors
            /// As [`call`](Self::call).
            #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes, reason = "as many as the operator has")]
            pub fn redispatch<'a>(&self, keys: DispatchKeySet, $($p: $P::Item<'a>),*) -> Result<R> {
                let operator = self.operator()?;
                self.call_with(operator, operator.lead_redispatch(keys), $($p),*)
            }

            /// A kernel that stands before the operator's others, and passes calls on to the keys below.
            #[track_caller]
            pub fn around<W: Around>(&'static self, around: W) -> Kernel {
                /// Says that the closure takes arguments of any one lifetime.
                fn of_any<$($P: Arg,)* R, F>(function: F) -> F
                where
                    F: for<'a> Fn(DispatchKeySet, $($P::Item<'a>),*) -> Result<R>,
                {
                    function
                }
                let function = of_any::<$($P,)* R, _>(move |keys, $($p),*| {
                    let below = keys & W::BELOW;
                    #[allow(unused_mut, reason = "there may be no argument")]
                    let mut concerned = false;
                    $($P::for_each_tensor($p, &mut |tensor| concerned |= W::concerns(tensor));)*
                    if !concerned {
                        #[allow(unused_mut, reason = "not all results can be marked")]
                        let mut result = self.redispatch(below, $($p),*)?;
                        if W::MARKS {
                            #[allow(unused_mut, unused_variables, reason = "there may be no argument")]
                            result.tensors(&mut |made| {
                                let Some(made) = made else { return };
                                let mut arguments = 0;
                                $(if arguments == 0 {
                                    $P::for_each_tensor($p, &mut |of| around.mark(of, made));
                                }
                                arguments += 1;)*
                                let _ = arguments;
                            });
                        }
                        return Ok(result);
                    }
                    let lent = ($(Lent::<$P>($p),)*);
                    let ($($p,)*) = &lent;
                    let arguments = Arguments(&[$($p),*]);
                    let mut record = W::Record::default();
                    let is_recorded = around.before(&mut record, arguments)?;
                    let mut result = around.pass_on(|| self.redispatch(below, $($p.0),*))?;
                    if is_recorded {
                        around.after(&mut record, arguments, &mut Results::of(&mut result))?;
                    }
                    Ok(result)
                });
                let passed_by = W::PASSED_BY.then_some(PassedBy { below: W::BELOW, marks: W::MARKS });
                Kernel::typed::<fn($($P),*) -> R>(Arc::new(function)).with_passed_by(passed_by)
            }

            #[inline]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_lifetimes, reason = "as many as the operator has")]
            fn call_with<'a>(
                &self,
                operator: OperatorHandle,
                led: Result<Led>,
                $($p: $P::Item<'a>),*
            ) -> Result<R> {
                let result = match led {
                    Ok((keys, kernel)) => match kernel.as_typed::<fn($($P),*) -> R>() {
                        Some(function) => function(keys, $($p),*),
                        None => boxed(kernel, operator, keys, move || vec![$($P::boxed($p)),*]),
                    },
                    Err(error) => Err(error),
                };
                match result {
                    Ok(result) => Ok(result),
                    Err(error) => Err(annotated(operator, error, move |_f| { $($P::for_each_tensor($p, _f);)* })),
                }
            }
        }
    )*};
}

signatures! {
    0: ;
    1: A a;
    2: A a B b;
    3: A a B b C c;
    4: A a B b C c D d;
    5: A a B b C c D d E e;
    6: A a B b C c D d E e F2 f;
    7: A a B b C c D d E e F2 f G g;
    8: A a B b C c D d E e F2 f G g H h;
    9: A a B b C c D d E e F2 f G g H h I i;
    10: A a B b C c D d E e F2 f G g H h I i J j;
    11: A a B b C c D d E e F2 f G g H h I i J j K k;
    12: A a B b C c D d E e F2 f G g H h I i J j K k L l;
    13: A a B b C c D d E e F2 f G g H h I i J j K k L l M2 m;
    14: A a B b C c D d E e F2 f G g H h I i J j K k L l M2 m N n;
    15: A a B b C c D d E e F2 f G g H h I i J j K k L l M2 m N n O o;
    16: A a B b C c D d E e F2 f G g H h I i J j K k L l M2 m N n O o P2 p;
}
