//! New tensors of random numbers: `rand`, `randn`, `randint`, `randperm` and kin.

use c10_core::{Device, Layout, MemoryFormat, ScalarType, bf16, f16};

use super::factory::options;
use super::handles;
use super::new_options::{Options, checked_sizes};
use super::random::or_default;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::random::Generator;
use crate::shape;
use crate::tensor::{Fresh, New, Tensor, access};

type Dtype = Option<ScalarType>;
type Lay = Option<Layout>;
type Dev = Option<Device>;
type Pin = Option<bool>;
type Format = Option<MemoryFormat>;
type Gen<'a> = Option<&'a Generator>;

/// How new elements are drawn.
#[derive(Clone, Copy)]
enum Law {
    Uniform,
    Normal,
    Integers { low: i64, high: i64 },
}

impl Law {
    fn fill(self, tensor: &Tensor, generator: Gen<'_>) -> Result<()> {
        match self {
            Self::Uniform => handles::UNIFORM_.call(tensor, 0.0, 1.0, generator),
            Self::Normal => handles::NORMAL_.call(tensor, 0.0, 1.0, generator),
            Self::Integers { low, high } => handles::RANDOM__FROM.call(tensor, low, Some(high), generator),
        }
    }

    fn make(self, sizes: &[i64], options: Options, generator: Gen<'_>) -> Result<Tensor> {
        let default = match self {
            Self::Integers { .. } => Some(ScalarType::Int64),
            _ => None,
        };
        let tensor = Options { dtype: options.dtype.or(default), ..options }.empty(sizes)?;
        self.fill(&tensor, generator)?;
        Ok(tensor)
    }

    fn like(self, tensor: &Tensor, options: Options, format: Format) -> Result<Tensor> {
        let made = options.empty_like(tensor, format)?;
        self.fill(&made, None)?;
        Ok(made)
    }

    fn out(self, sizes: &[i64], generator: Gen<'_>, out: &Tensor) -> Result<()> {
        let sizes = checked_sizes(sizes)?;
        if out.sizes() != sizes {
            out.resize_for_output(&sizes, &shape::contiguous_strides(&sizes)?)?;
        }
        self.fill(out, generator)
    }
}

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_real(lib)?;
    register_integers(lib)?;
    register_randperm(lib)
}

fn register_real(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! law {
        ($law:expr, $plain:literal, $generator:literal, $like:literal, $out:literal, $generator_out:literal) => {
            lib.all_backends($plain, |size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                $law.make(size, options!(dtype, layout, device, pin), None)
            })?;
            lib.all_backends(
                $generator,
                |size: &[i64], generator: Gen<'_>, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                    $law.make(size, options!(dtype, layout, device, pin), generator)
                },
            )?;
            lib.all_backends(
                $like,
                |this: &Tensor, dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
                    $law.like(this, options!(dtype, layout, device, pin), format)
                },
            )?;
            lib.all_backends($out, |size: &[i64], out: &Tensor| $law.out(size, None, out))?;
            lib.all_backends($generator_out, |size: &[i64], generator: Gen<'_>, out: &Tensor| {
                $law.out(size, generator, out)
            })?;
        };
    }
    law!(Law::Uniform, "rand", "rand.generator", "rand_like", "rand.out", "rand.generator_out");
    law!(Law::Normal, "randn", "randn.generator", "randn_like", "randn.out", "randn.generator_out");
    Ok(())
}

fn register_integers(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! bounds {
        (
            ($($arg:ident: $type:ty),*) => $law:expr,
            $plain:literal, $generator:literal, $like:literal, $out:literal, $generator_out:literal
        ) => {
            lib.all_backends(
                $plain,
                |$($arg: $type,)* size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                    $law.make(size, options!(dtype, layout, device, pin), None)
                },
            )?;
            lib.all_backends(
                $generator,
                |$($arg: $type,)* size: &[i64], generator: Gen<'_>, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                    $law.make(size, options!(dtype, layout, device, pin), generator)
                },
            )?;
            lib.all_backends(
                $like,
                |this: &Tensor, $($arg: $type,)* dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
                    $law.like(this, options!(dtype, layout, device, pin), format)
                },
            )?;
            lib.all_backends($out, |$($arg: $type,)* size: &[i64], out: &Tensor| $law.out(size, None, out))?;
            lib.all_backends($generator_out, |$($arg: $type,)* size: &[i64], generator: Gen<'_>, out: &Tensor| {
                $law.out(size, generator, out)
            })?;
        };
    }
    bounds!((high: i64) => Law::Integers { low: 0, high },
        "randint", "randint.generator", "randint_like", "randint.out", "randint.generator_out");
    bounds!((low: i64, high: i64) => Law::Integers { low, high },
        "randint.low", "randint.low_generator", "randint_like.low_dtype", "randint.low_out",
        "randint.low_generator_out");
    Ok(())
}

fn register_randperm(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("randperm", |n: i64, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
        randperm(n, None, options!(dtype, layout, device, pin))
    })?;
    lib.all_backends(
        "randperm.generator",
        |n: i64, generator: Gen<'_>, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            randperm(n, generator, options!(dtype, layout, device, pin))
        },
    )?;
    lib.cpu_meta("randperm.out", |n: i64, out: &Tensor| randperm_to(n, None, out))?;
    lib.cpu_meta("randperm.generator_out", |n: i64, generator: Gen<'_>, out: &Tensor| {
        randperm_to(n, generator, out)
    })
}

fn randperm(n: i64, generator: Gen<'_>, options: Options) -> Result<Tensor> {
    check_length(n)?;
    let (dtype, device) = options.or(ScalarType::Int64, Device::CPU)?;
    check_holds(n, dtype)?;
    let made = New::contiguous([n], dtype, device).make()?;
    if device.is_cpu() || made.is_meta() {
        permute(&made, Fresh::Yes, generator)?;
    } else {
        handles::RANDPERM_GENERATOR_OUT.call(n, generator, &made)?;
    }
    Ok(made)
}

fn randperm_to(n: i64, generator: Gen<'_>, out: &Tensor) -> Result<()> {
    check_length(n)?;
    check_holds(n, out.dtype())?;
    let made = super::Dest::Out(out).output(New::contiguous([n], out.dtype(), out.device()), &[])?;
    permute(made.tensor(), made.fresh(), generator)?;
    made.finish().map(drop)
}

fn check_length(n: i64) -> Result<()> {
    if n >= 0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("n must be non-negative, got{n}")))
}

/// Every integer below `n` must be one of the dtype, exactly.
fn check_holds(n: i64, dtype: ScalarType) -> Result<()> {
    let most = match dtype {
        ScalarType::UInt8 => i64::from(u8::MAX) + 1,
        ScalarType::Int8 => i64::from(i8::MAX) + 1,
        ScalarType::Int16 => i64::from(i16::MAX) + 1,
        ScalarType::Int32 => i64::from(i32::MAX) + 1,
        ScalarType::Float16 => (1 << f16::MANTISSA_DIGITS) + 1,
        ScalarType::BFloat16 => (1 << bf16::MANTISSA_DIGITS) + 1,
        ScalarType::Float32 => (1 << f32::MANTISSA_DIGITS) + 1,
        ScalarType::Float64 => (1 << f64::MANTISSA_DIGITS) + 1,
        _ => i64::MAX,
    };
    if n <= most {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("n is too large for result tensor type: {}: {n}", dtype.name())))
}

fn permute(tensor: &Tensor, fresh: Fresh, generator: Gen<'_>) -> Result<()> {
    dispatch!(tensor.dtype(), "randperm", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        if tensor.is_meta() {
            return Ok(());
        }
        access([], [tensor], fresh, |[], [out]| {
            let out = out.slice::<T>()?;
            or_default(generator).draw(|draws| draws.fill_permutation(out));
            Ok(())
        })
    })
}
