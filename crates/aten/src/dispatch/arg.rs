//! [`Arg`] and [`Ret`]: the Rust types that typed kernels take and return, and how they are boxed.

use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

use super::key_set::DispatchKeySet;
use super::value::{Stack, Value};
use crate::error::{Error, Result};
use crate::random::Generator;
use crate::tensor::Tensor;

mod sealed {
    pub trait Sealed {}
}
pub(super) use sealed::Sealed;

/// A type that a kernel takes. Borrowed ones are named with `'static` here, and lent for any lifetime.
pub trait Arg: Sealed + 'static {
    /// What the kernel is given.
    type Item<'a>: Copy;
    /// What a boxed argument becomes before it is lent.
    type Owned;
    /// The name in the schema grammar; several have more than one.
    const NAMES: &'static [&'static str];

    /// The boxed argument as its own type.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it is of another.
    fn unbox(value: Value) -> Result<Self::Owned>;

    /// What the kernel is given.
    fn lend(owned: &Self::Owned) -> Self::Item<'_>;

    /// A boxed copy.
    fn boxed(item: Self::Item<'_>) -> Value;

    /// The keys of the tensors in it.
    #[inline]
    fn keys(_item: Self::Item<'_>) -> DispatchKeySet {
        DispatchKeySet::EMPTY
    }

    /// Calls `f` with each tensor in it.
    #[inline]
    fn for_each_tensor(_item: Self::Item<'_>, _f: &mut dyn FnMut(&Tensor)) {}

    /// The tensor that it is, or that is there; `None` of a list.
    #[inline]
    fn tensor<'a>(_item: Self::Item<'a>) -> Option<&'a Tensor> {
        None
    }

    /// Whether a tensor in it is [followed](Tensor::is_followed).
    #[inline]
    fn is_followed(item: Self::Item<'_>) -> bool {
        let mut any = false;
        Self::for_each_tensor(item, &mut |tensor| any |= tensor.is_followed());
        any
    }
}

/// A type that a kernel returns. `()` stands for no results, and for results that are arguments which were
/// written.
pub trait Ret: Sealed + Sized + 'static {
    /// The types of the results it makes, each by its names in the schema grammar; `None` for any number of
    /// written arguments.
    fn names() -> Option<Vec<&'static [&'static str]>>;

    /// Puts the results on the stack.
    fn push(self, stack: &mut Stack);

    /// Calls `f` with each tensor, in order: those of lists one by one, and with `None` for a result that is
    /// undefined or no tensor.
    fn tensors<'a>(&'a mut self, f: &mut dyn FnMut(Option<&'a mut Tensor>));

    /// Takes them off again.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when they are of other types.
    fn pop(results: Stack) -> Result<Self>;
}

#[cold]
fn expected(what: &str, found: &Value) -> Error {
    Error::invalid_argument(format!(
        "Expected a value of type '{what}' but instead found type '{}'",
        found.kind()
    ))
}

/// Types that are lent as they are.
macro_rules! copied {
    ($($type:ty, [$($name:literal),*], $value:ident => $unbox:expr;)*) => {$(
        impl Sealed for $type {}

        impl Arg for $type {
            type Item<'a> = $type;
            type Owned = $type;
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn unbox($value: Value) -> Result<$type> {
                $unbox
            }

            fn lend(owned: &$type) -> $type {
                *owned
            }

            fn boxed(item: $type) -> Value {
                item.into()
            }
        }

        impl Sealed for Option<$type> {}

        impl Arg for Option<$type> {
            type Item<'a> = Option<$type>;
            type Owned = Option<$type>;
            const NAMES: &'static [&'static str] = &[$(concat!($name, "?")),*];

            fn unbox(value: Value) -> Result<Option<$type>> {
                if matches!(value, Value::None) { Ok(None) } else { <$type as Arg>::unbox(value).map(Some) }
            }

            fn lend(owned: &Option<$type>) -> Option<$type> {
                *owned
            }

            fn boxed(item: Option<$type>) -> Value {
                item.into()
            }
        }
    )*};
}

fn unbox_int(value: &Value) -> Result<i64> {
    match value {
        Value::Scalar(Scalar::Int(value)) => Ok(*value),
        Value::Scalar(Scalar::Bool(value)) => Ok((*value).into()),
        // `int? dtype`: a dtype is its number in schemas of old.
        Value::ScalarType(dtype) => Ok(dtype.number().into()),
        _ => Err(expected("int", value)),
    }
}

fn unbox_float(value: &Value) -> Result<f64> {
    match value {
        Value::Scalar(scalar) if !scalar.is_complex() => Ok(scalar.to::<f64>()?),
        _ => Err(expected("float", value)),
    }
}

fn unbox_bool(value: &Value) -> Result<bool> {
    match value {
        Value::Scalar(Scalar::Bool(value)) => Ok(*value),
        Value::Scalar(Scalar::Int(value)) => Ok(*value != 0),
        _ => Err(expected("bool", value)),
    }
}

fn unbox_scalar(value: &Value) -> Result<Scalar> {
    match value {
        Value::Scalar(scalar) => Ok(*scalar),
        Value::Tensor(tensor) if tensor.rank() == 0 => tensor.item(),
        _ => Err(expected("number", value)),
    }
}

macro_rules! unbox_variant {
    ($value:ident, $variant:ident) => {
        match $value {
            Value::$variant(value) => Ok(value),
            other => Err(expected(stringify!($variant), &other)),
        }
    };
}

copied! {
    i64, ["int", "SymInt"], value => unbox_int(&value);
    f64, ["float"], value => unbox_float(&value);
    bool, ["bool", "SymBool"], value => unbox_bool(&value);
    Scalar, ["Scalar"], value => unbox_scalar(&value);
    ScalarType, ["ScalarType"], value => unbox_variant!(value, ScalarType);
    Layout, ["Layout"], value => unbox_variant!(value, Layout);
    MemoryFormat, ["MemoryFormat"], value => unbox_variant!(value, MemoryFormat);
    Device, ["Device"], value => unbox_variant!(value, Device);
}

impl Sealed for &'static Tensor {}

impl Arg for &'static Tensor {
    type Item<'a> = &'a Tensor;
    type Owned = Tensor;
    const NAMES: &'static [&'static str] = &["Tensor"];

    fn unbox(value: Value) -> Result<Tensor> {
        unbox_variant!(value, Tensor)
    }

    fn lend(owned: &Tensor) -> &Tensor {
        owned
    }

    fn boxed(item: &Tensor) -> Value {
        Value::Tensor(item.clone())
    }

    #[inline]
    fn keys(item: &Tensor) -> DispatchKeySet {
        item.key_set()
    }

    #[inline]
    fn for_each_tensor(item: &Tensor, f: &mut dyn FnMut(&Tensor)) {
        f(item);
    }

    #[inline]
    fn tensor<'a>(item: Self::Item<'a>) -> Option<&'a Tensor> {
        Some(item)
    }
}

impl Sealed for Option<&'static Tensor> {}

impl Arg for Option<&'static Tensor> {
    type Item<'a> = Option<&'a Tensor>;
    type Owned = Option<Tensor>;
    const NAMES: &'static [&'static str] = &["Tensor?"];

    fn unbox(value: Value) -> Result<Option<Tensor>> {
        match value {
            Value::None => Ok(None),
            value => <&'static Tensor>::unbox(value).map(Some),
        }
    }

    fn lend(owned: &Option<Tensor>) -> Option<&Tensor> {
        owned.as_ref()
    }

    fn boxed(item: Option<&Tensor>) -> Value {
        item.cloned().into()
    }

    #[inline]
    fn keys(item: Option<&Tensor>) -> DispatchKeySet {
        item.map_or(DispatchKeySet::EMPTY, Tensor::key_set)
    }

    #[inline]
    fn for_each_tensor(item: Option<&Tensor>, f: &mut dyn FnMut(&Tensor)) {
        item.into_iter().for_each(f);
    }

    #[inline]
    fn tensor<'a>(item: Self::Item<'a>) -> Option<&'a Tensor> {
        item
    }
}

fn unbox_list<T>(value: Value, of: &str, unbox: impl Fn(Value) -> Result<T>) -> Result<Vec<T>> {
    match value {
        Value::List(values) => values.into_iter().map(unbox).collect(),
        // A number stands for a list of it (`int[2] x=1`); the kernel sees one element.
        value @ Value::Scalar(_) => Ok(vec![unbox(value)?]),
        other => Err(expected(&format!("List[{of}]"), &other)),
    }
}

/// Lists, lent as slices.
macro_rules! lists {
    ($($type:ty, $of:literal, [$($name:literal),*], $value:ident => $unbox:expr, $item:ident => $boxed:expr, $keys:expr, $tensors:expr;)*) => {$(
        impl Sealed for &'static [$type] {}

        impl Arg for &'static [$type] {
            type Item<'a> = &'a [$type];
            type Owned = Vec<$type>;
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn unbox(value: Value) -> Result<Vec<$type>> {
                unbox_list(value, $of, |$value| $unbox)
            }

            fn lend(owned: &Vec<$type>) -> &[$type] {
                owned
            }

            fn boxed(item: &[$type]) -> Value {
                Value::List(item.iter().map(|$item| $boxed).collect())
            }

            #[inline]
            fn keys(item: &[$type]) -> DispatchKeySet {
                let keys: fn(&[$type]) -> DispatchKeySet = $keys;
                keys(item)
            }

            fn for_each_tensor(item: &[$type], f: &mut dyn FnMut(&Tensor)) {
                let tensors: fn(&[$type], &mut dyn FnMut(&Tensor)) = $tensors;
                tensors(item, f);
            }
        }

        impl Sealed for Option<&'static [$type]> {}

        impl Arg for Option<&'static [$type]> {
            type Item<'a> = Option<&'a [$type]>;
            type Owned = Option<Vec<$type>>;
            const NAMES: &'static [&'static str] = &[$(concat!($name, "?")),*];

            fn unbox(value: Value) -> Result<Option<Vec<$type>>> {
                match value {
                    Value::None => Ok(None),
                    value => <&'static [$type]>::unbox(value).map(Some),
                }
            }

            fn lend(owned: &Option<Vec<$type>>) -> Option<&[$type]> {
                owned.as_deref()
            }

            fn boxed(item: Option<&[$type]>) -> Value {
                item.map_or(Value::None, <&'static [$type]>::boxed)
            }

            fn keys(item: Option<&[$type]>) -> DispatchKeySet {
                item.map_or(DispatchKeySet::EMPTY, <&'static [$type]>::keys)
            }

            fn for_each_tensor(item: Option<&[$type]>, f: &mut dyn FnMut(&Tensor)) {
                if let Some(item) = item {
                    <&'static [$type]>::for_each_tensor(item, f);
                }
            }
        }
    )*};
}

lists! {
    i64, "int", ["int[]", "SymInt[]"], value => unbox_int(&value), item => (*item).into(),
        |_| DispatchKeySet::EMPTY, |_, _| {};
    f64, "float", ["float[]"], value => unbox_float(&value), item => (*item).into(),
        |_| DispatchKeySet::EMPTY, |_, _| {};
    bool, "bool", ["bool[]"], value => unbox_bool(&value), item => (*item).into(),
        |_| DispatchKeySet::EMPTY, |_, _| {};
    Scalar, "number", ["Scalar[]"], value => unbox_scalar(&value), item => (*item).into(),
        |_| DispatchKeySet::EMPTY, |_, _| {};
    Tensor, "Tensor", ["Tensor[]"], value => <&'static Tensor>::unbox(value), item => item.clone().into(),
        |item| item.iter().fold(DispatchKeySet::EMPTY, |keys, tensor| keys.union(tensor.key_set())),
        |item, f| item.iter().for_each(f);
    Option<Tensor>, "Optional[Tensor]", ["Tensor?[]"], value => <Option<&'static Tensor>>::unbox(value),
        item => item.clone().into(),
        |item| item.iter().flatten().fold(DispatchKeySet::EMPTY, |keys, tensor| keys.union(tensor.key_set())),
        |item, f| item.iter().flatten().for_each(f);
}

impl Sealed for &'static str {}

impl Arg for &'static str {
    type Item<'a> = &'a str;
    type Owned = String;
    const NAMES: &'static [&'static str] = &["str"];

    fn unbox(value: Value) -> Result<String> {
        unbox_variant!(value, Str)
    }

    fn lend(owned: &String) -> &str {
        owned
    }

    fn boxed(item: &str) -> Value {
        item.into()
    }
}

impl Sealed for Option<&'static str> {}

impl Arg for Option<&'static str> {
    type Item<'a> = Option<&'a str>;
    type Owned = Option<String>;
    const NAMES: &'static [&'static str] = &["str?"];

    fn unbox(value: Value) -> Result<Option<String>> {
        if matches!(value, Value::None) { Ok(None) } else { unbox_variant!(value, Str).map(Some) }
    }

    fn lend(owned: &Option<String>) -> Option<&str> {
        owned.as_deref()
    }

    fn boxed(item: Option<&str>) -> Value {
        item.into()
    }
}

impl Sealed for Option<&'static Generator> {}

impl Arg for Option<&'static Generator> {
    type Item<'a> = Option<&'a Generator>;
    type Owned = Option<Generator>;
    const NAMES: &'static [&'static str] = &["Generator?"];

    fn unbox(value: Value) -> Result<Option<Generator>> {
        if matches!(value, Value::None) { Ok(None) } else { unbox_variant!(value, Generator).map(Some) }
    }

    fn lend(owned: &Option<Generator>) -> Option<&Generator> {
        owned.as_ref()
    }

    fn boxed(item: Option<&Generator>) -> Value {
        item.cloned().into()
    }
}

impl Sealed for () {}

impl Ret for () {
    fn names() -> Option<Vec<&'static [&'static str]>> {
        None
    }

    fn push(self, _stack: &mut Stack) {}

    fn tensors<'a>(&'a mut self, _f: &mut dyn FnMut(Option<&'a mut Tensor>)) {}

    fn pop(_results: Stack) -> Result<()> {
        Ok(())
    }
}

/// One result.
macro_rules! returned {
    ($($type:ty, $name:ty, $value:ident => $unbox:expr, $result:ident, $f:ident => $tensors:expr;)*) => {
        $(returned!(@names $type, <$name as Arg>::NAMES, $value => $unbox, $result, $f => $tensors);)*
    };
    (@names $type:ty, $names:expr, $value:ident => $unbox:expr, $result:ident, $f:ident => $tensors:expr) => {
        impl Ret for $type {
            fn names() -> Option<Vec<&'static [&'static str]>> {
                Some(vec![$names])
            }

            fn push(self, stack: &mut Stack) {
                stack.push(self.into());
            }

            #[inline]
            fn tensors<'a>(&'a mut self, $f: &mut dyn FnMut(Option<&'a mut Tensor>)) {
                let $result = self;
                $tensors
            }

            fn pop(mut results: Stack) -> Result<Self> {
                let $value = results.pop().unwrap_or_default();
                $unbox
            }
        }
    };
}

impl Sealed for Tensor {}
impl Sealed for Option<Tensor> {}
impl Sealed for Vec<Tensor> {}
impl Sealed for Vec<i64> {}

// A result that nobody asked for is undefined, though its schema says `Tensor`.
returned!(@names Option<Tensor>, &["Tensor?", "Tensor"], value => <Option<&'static Tensor>>::unbox(value),
    result, f => f(result.as_mut()));

returned! {
    Tensor, &'static Tensor, value => <&'static Tensor>::unbox(value), result, f => f(Some(result));
    Vec<Tensor>, &'static [Tensor], value => <&'static [Tensor]>::unbox(value),
        result, f => result.iter_mut().for_each(|tensor| f(Some(tensor)));
    Vec<i64>, &'static [i64], value => <&'static [i64]>::unbox(value), _result, f => f(None);
    ScalarType, ScalarType, value => <ScalarType as Arg>::unbox(value), _result, f => f(None);
    Scalar, Scalar, value => unbox_scalar(&value), _result, f => f(None);
    i64, i64, value => unbox_int(&value), _result, f => f(None);
    f64, f64, value => unbox_float(&value), _result, f => f(None);
    bool, bool, value => unbox_bool(&value), _result, f => f(None);
}

/// Several results.
macro_rules! tuples {
    ($($($type:ident)*;)*) => {$(
        impl<$($type: Ret),*> Sealed for ($($type,)*) {}

        impl<$($type: Ret),*> Ret for ($($type,)*) {
            fn names() -> Option<Vec<&'static [&'static str]>> {
                Some([$($type::names()?),*].concat())
            }

            #[expect(non_snake_case, reason = "a value is named as its type")]
            fn push(self, stack: &mut Stack) {
                let ($($type,)*) = self;
                $($type.push(stack);)*
            }

            #[expect(non_snake_case, reason = "a value is named as its type")]
            fn tensors<'a>(&'a mut self, f: &mut dyn FnMut(Option<&'a mut Tensor>)) {
                let ($($type,)*) = self;
                $($type.tensors(f);)*
            }

            fn pop(results: Stack) -> Result<Self> {
                let mut results = results.into_iter();
                Ok(($($type::pop(results.next().into_iter().collect())?,)*))
            }
        }
    )*};
}
tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
}
