//! Every operator that has no kernel here runs on the host: arguments go there, the operator is called, results
//! come back. One boxed kernel does it for all of them, by their schemas.

use std::sync::Mutex;
use std::sync::PoisonError;

use aten::dispatch::{Kernel, Library, OperatorHandle, Value};
use aten::{Error, Result, Tensor};
use c10_core::Device;

use crate::{KEY, TYPE};

static CALLS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// The operators that ran on the host since this was asked for last, in order.
pub fn calls_on_the_host() -> Vec<&'static str> {
    std::mem::take(&mut *CALLS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Registers the fallback.
pub(crate) fn register(library: &mut Library<'_>) -> Result<()> {
    let kernel = Kernel::boxed(|operator, _, stack| call(&operator, stack));
    library.fallback(&[KEY], kernel.named("the host"))
}

/// Calls an operator on the host with arguments of the device, which its results replace.
pub(crate) fn call(operator: &OperatorHandle, stack: &mut Vec<Value>) -> Result<()> {
    let Some(schema) = operator.schema() else {
        return Err(Error::not_implemented(format!("{} is not defined", operator.name())));
    };
    let is_view = |alias: &aten::dispatch::AliasInfo| !alias.is_write;
    if schema.returns().iter().any(|result| result.alias.as_ref().is_some_and(is_view)) {
        return Err(Error::not_implemented(format!(
            "{} returns a view, which cannot be made in another memory",
            operator.name()
        )));
    }
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).push(operator.name());

    let device = device_of(stack).unwrap_or(Device::current(TYPE));
    let mut moved = Vec::new();
    let mut host = Vec::with_capacity(stack.len());
    for (value, argument) in stack.iter().zip(schema.arguments()) {
        host.push(to_host(value, argument.is_write(), &mut moved)?);
    }
    operator.call_boxed(&mut host)?;
    for Moved { there, here, is_written } in &moved {
        if *is_written {
            if there.sizes() != here.sizes() {
                there.resize_(&here.sizes())?;
            }
            there.copy_(here)?;
        }
    }
    *stack = host.into_iter().map(|value| to_device(value, device, &moved)).collect::<Result<_>>()?;
    Ok(())
}

/// A tensor of the device and the one that stands for it on the host.
struct Moved {
    there: Tensor,
    here: Tensor,
    is_written: bool,
}

fn is_here(tensor: &Tensor) -> bool {
    tensor.device().device_type() != TYPE
}

fn device_of(stack: &[Value]) -> Option<Device> {
    let mut device = None;
    stack.iter().for_each(|value| {
        value.for_each_tensor(&mut |tensor| {
            if !is_here(tensor) {
                device.get_or_insert(tensor.device());
            }
        });
    });
    device
}

fn to_host(value: &Value, is_written: bool, moved: &mut Vec<Moved>) -> Result<Value> {
    Ok(match value {
        Value::Tensor(there) if !is_here(there) => {
            // One tensor given twice is one on the host, so that what is written is seen by both.
            if let Some(known) = moved.iter_mut().find(|known| known.there.is_same(there)) {
                known.is_written |= is_written;
                return Ok(known.here.clone().into());
            }
            let here = there.to(Device::CPU)?;
            moved.push(Moved { there: there.clone(), here: here.clone(), is_written });
            here.into()
        }
        Value::List(values) => {
            Value::List(values.iter().map(|value| to_host(value, is_written, moved)).collect::<Result<_>>()?)
        }
        Value::Device(device) if device.device_type() == TYPE => Value::Device(Device::CPU),
        other => other.clone(),
    })
}

fn to_device(value: Value, device: Device, moved: &[Moved]) -> Result<Value> {
    Ok(match value {
        Value::Tensor(here) => match moved.iter().find(|known| known.here.is_same(&here)) {
            Some(known) => known.there.clone().into(),
            None => here.to(device)?.into(),
        },
        Value::List(values) => Value::List(
            values.into_iter().map(|value| to_device(value, device, moved)).collect::<Result<_>>()?,
        ),
        other => other,
    })
}
