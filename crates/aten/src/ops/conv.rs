//! Convolutions: sizes and memory formats.
//!
//! A transposed convolution of an input is the gradient of the input of the convolution that has the same
//! weight, so both are one [`ConvGeometry`], with input and output exchanged.

use c10_core::{MemoryFormat, ScalarType};

use crate::conv::geometry::{ConvGeometry, DIMS, Dims as ConvDims};
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::cpu;
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("convolution", convolution)?;
    lib.cpu_meta("convolution_backward", convolution_backward)
}

/// How a kernel moves: a number for each dimension that it moves over.
struct Moves {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    transposed: bool,
    groups: i64,
}

impl Moves {
    fn new(
        rank: usize,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        transposed: bool,
        output_padding: &[i64],
        groups: i64,
    ) -> Result<Self> {
        let moves = Self {
            stride: expanded("stride", stride, rank)?,
            padding: expanded("padding", padding, rank)?,
            dilation: expanded("dilation", dilation, rank)?,
            output_padding: expanded("output_padding", output_padding, rank)?,
            transposed,
            groups,
        };
        for (name, values, least) in [
            ("stride", &moves.stride, 1),
            ("padding", &moves.padding, 0),
            ("dilation", &moves.dilation, 1),
            ("output_padding", &moves.output_padding, 0),
        ] {
            if values.iter().any(|&value| value < least) {
                return Err(Error::invalid_argument(format!(
                    "{name} must be at least {least}, got {values:?}"
                )));
            }
        }
        if groups < 1 {
            return Err(Error::invalid_argument("non-positive groups is not supported"));
        }
        Ok(moves)
    }

    /// The length of the output along a dimension.
    fn output_len(&self, dim: usize, input: i64, kernel: i64) -> Result<i64> {
        let (stride, padding, dilation) = (self.stride[dim], self.padding[dim], self.dilation[dim]);
        let overflow = || Error::new(ErrorKind::Overflow, "the output's size overflows");
        let reach = kernel.checked_sub(1).and_then(|last| last.checked_mul(dilation)).ok_or_else(overflow)?;
        let around = padding.checked_mul(2).ok_or_else(overflow)?;
        if self.transposed {
            let extra = self.output_padding[dim];
            if extra >= stride && extra >= dilation {
                return Err(Error::invalid_argument(format!(
                    "output padding must be smaller than either stride or dilation, got {extra}"
                )));
            }
            let spread =
                input.checked_sub(1).and_then(|last| last.checked_mul(stride)).ok_or_else(overflow)?;
            let len =
                spread.checked_add(reach).and_then(|len| len.checked_add(extra + 1)).ok_or_else(overflow)?;
            return match len.checked_sub(around).filter(|&len| len >= 0) {
                Some(len) => Ok(len),
                None => Err(Error::shape(format!("the output would have {} elements", len - around))),
            };
        }
        let padded = input.checked_add(around).ok_or_else(overflow)?;
        if padded <= reach {
            return Err(Error::shape(format!(
                "the kernel reaches over {} elements of a padded input of {padded}",
                reach + 1
            )));
        }
        Ok((padded - reach - 1) / stride + 1)
    }
}

/// A number for each of `rank` dimensions; one alone stands for all.
fn expanded(name: &str, values: &[i64], rank: usize) -> Result<Vec<i64>> {
    match values {
        [one] => Ok(vec![*one; rank]),
        values if values.len() == rank => Ok(values.to_vec()),
        values => {
            Err(Error::invalid_argument(format!("{name} has {} numbers for {rank} dimensions", values.len())))
        }
    }
}

/// The sizes of a convolution, checked.
struct Plan {
    geometry: ConvGeometry,
    output: Dims,
    /// No products: a result is empty, or all zeros and bias.
    is_empty: bool,
}

/// The kernels pad an image, and read as far beyond it as the weights reach: that must be a size of memory, and
/// where it is a large one, there must be as much.
fn check_planes(geometry: &ConvGeometry) -> Result<()> {
    const LARGEST_SUM: usize = 16;
    const WORTH_ASKING: usize = 1 << 32;
    let reach = |dim: usize| geometry.dilation[dim].checked_mul(geometry.kernel[dim].saturating_sub(1));
    let product = |size: &dyn Fn(usize) -> Option<usize>| {
        let channels = geometry.channels_in.max(geometry.channels_out).max(1);
        (0..DIMS).try_fold(channels.checked_mul(LARGEST_SUM)?, |bytes, dim| {
            bytes.checked_mul(size(dim)?)?.checked_mul(geometry.kernel[dim].max(1))
        })
    };
    let widest = |dim: usize| geometry.input[dim].max(geometry.output[dim]).checked_add(reach(dim)?);
    if product(&widest).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Error::new(
            ErrorKind::Overflow,
            format!(
                "an image of {:?} padded for a kernel of {:?} with dilation {:?} is larger than the address space",
                geometry.input, geometry.kernel, geometry.dilation
            ),
        ));
    }
    let padded = |dim: usize| geometry.output[dim].checked_add(reach(dim)? / geometry.stride[dim].max(1));
    let bytes = product(&padded).unwrap_or(usize::MAX);
    if bytes > WORTH_ASKING && Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return Err(Error::new(
            ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes of padded images"),
        ));
    }
    Ok(())
}

fn plan(input: &Tensor, weight: &Tensor, bias: Option<&[i64]>, moves: &Moves) -> Result<Plan> {
    let (sizes, kernel) = (input.sizes(), weight.sizes());
    check_tensors(input, weight, bias, moves)?;
    let channels_out = if moves.transposed { kernel[1] * moves.groups } else { kernel[0] };
    let mut output = Dims::from([sizes[0], channels_out]);
    for dim in 0..sizes.len() - 2 {
        output.push(moves.output_len(dim, sizes[dim + 2], kernel[dim + 2])?);
    }
    c10_core::bytes::numel(&output)?;
    let (near, far) = if moves.transposed { (&output, &sizes) } else { (&sizes, &output) };
    let moved = |values: &[i64], default: usize| -> ConvDims {
        let lead = DIMS - values.len();
        std::array::from_fn(|dim| dim.checked_sub(lead).map_or(default, |dim| values[dim] as usize))
    };
    let geometry = ConvGeometry {
        batch: sizes[0] as usize,
        groups: moves.groups as usize,
        channels_in: kernel[1] as usize,
        channels_out: (kernel[0] / moves.groups) as usize,
        input: moved(&near[2..], 1),
        kernel: moved(&kernel[2..], 1),
        stride: moved(&moves.stride, 1),
        padding: moved(&moves.padding, 0),
        dilation: moved(&moves.dilation, 1),
        output: moved(&far[2..], 1),
    };
    check_planes(&geometry)?;
    let is_empty = [&sizes, &kernel, &output].iter().any(|sizes| sizes.contains(&0));
    Ok(Plan { geometry, output, is_empty })
}

fn check_tensors(input: &Tensor, weight: &Tensor, bias: Option<&[i64]>, moves: &Moves) -> Result<()> {
    let (sizes, kernel) = (input.sizes(), weight.sizes());
    let groups = moves.groups;
    if !(3..=DIMS + 2).contains(&kernel.len()) || sizes.len() != kernel.len() {
        return Err(Error::shape(format!(
            "Expected {}-dimensional input for {}-dimensional weight {kernel:?}, but got input of size {sizes:?} instead",
            kernel.len(),
            kernel.len()
        )));
    }
    if input.dtype() != weight.dtype() {
        return Err(Error::dtype(format!(
            "Input type ({}) and weight type ({}) should be the same",
            input.dtype().name(),
            weight.dtype().name()
        )));
    }
    if kernel[0] < groups || kernel[0] % groups != 0 {
        return Err(Error::shape(format!(
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0 and divisible by it, \
             but got weight of size {kernel:?} instead"
        )));
    }
    let expected = if moves.transposed { kernel[0] } else { kernel[1] * groups };
    if sizes[1] != expected {
        return Err(Error::shape(format!(
            "Given groups={groups}, weight of size {kernel:?}, expected input{sizes:?} to have {expected} channels, \
             but got {} channels instead",
            sizes[1]
        )));
    }
    let channels_out = if moves.transposed { kernel[1] * groups } else { kernel[0] };
    if let Some(bias) = bias.filter(|bias| **bias != [channels_out]) {
        return Err(Error::shape(format!(
            "Given weight of size {kernel:?}, expected bias to be 1-dimensional with {channels_out} elements, \
             but got bias of size {bias:?} instead"
        )));
    }
    Ok(())
}

/// The memory format of results: channels last where input or weight have it, as far as PyTorch's kernels do.
fn format(input: &Tensor, weight: &Tensor) -> MemoryFormat {
    let suggested = [input, weight].map(Tensor::suggest_memory_format);
    let has_3d = matches!(input.dtype(), ScalarType::Float32 | ScalarType::BFloat16 | ScalarType::Float16);
    if suggested.contains(&MemoryFormat::ChannelsLast) {
        MemoryFormat::ChannelsLast
    } else if has_3d && suggested.contains(&MemoryFormat::ChannelsLast3d) {
        MemoryFormat::ChannelsLast3d
    } else {
        MemoryFormat::Contiguous
    }
}

/// A new tensor in a memory format that `fill` has written row-major.
fn filled(
    sizes: Dims,
    like: &Tensor,
    format: MemoryFormat,
    fill: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    if like.is_meta() {
        let strides = crate::shape::strides_of_format(&sizes, format)?;
        return New::strided(sizes, strides, like.dtype(), like.device()).make();
    }
    let tensor = New::contiguous(sizes, like.dtype(), like.device()).make()?;
    fill(&tensor)?;
    tensor.to_format(format)
}

#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let rank = weight.rank().saturating_sub(2);
    let moves = Moves::new(rank, stride, padding, dilation, transposed, output_padding, groups)?;
    let plan = plan(input, weight, bias.map(Tensor::sizes).as_deref(), &moves)?;
    if let Some(bias) = bias.filter(|bias| bias.dtype() != input.dtype()) {
        return Err(Error::dtype(format!(
            "Input type ({}) and bias type ({}) should be the same",
            input.dtype().name(),
            bias.dtype().name()
        )));
    }
    cpu::conv::check_dtype(input.dtype(), "convolution")?;
    filled(plan.output.clone(), input, format(input, weight), |output| {
        let (input, weight) = (input.to_contiguous()?, weight.to_contiguous()?);
        let no_bias = bias.is_none();
        let bias = bias.map_or_else(|| Ok(weight.clone()), Tensor::to_contiguous)?;
        access([&input, &weight, &bias], [output], Fresh::Yes, |[input, weight, bias], [output]| {
            let bias = (!no_bias).then_some(&bias);
            cpu::conv::convolution(&plan.geometry, transposed, plan.is_empty, &input, &weight, bias, output)
        })
    })
}

/// The gradients of input, weight and bias, as far as they are asked for.
#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn convolution_backward(
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    output_mask: &[bool],
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let rank = weight.rank().saturating_sub(2);
    let moves = Moves::new(rank, stride, padding, dilation, transposed, output_padding, groups)?;
    let plan = plan(input, weight, None, &moves)?;
    if grad_output.dtype() != input.dtype() {
        return Err(Error::dtype("expected grad_output and input to have the same dtype"));
    }
    if grad_output.sizes() != plan.output {
        return Err(Error::shape(format!("expected grad_output of size {:?}", plan.output)));
    }
    let &[of_input, of_weight, of_bias] = output_mask else {
        return Err(Error::invalid_argument("output_mask must have three elements"));
    };
    let _ = bias_sizes;
    cpu::conv::check_dtype(input.dtype(), "convolution_backward")?;
    let format = format(input, weight);
    let (geometry, is_empty) = (&plan.geometry, plan.is_empty);
    let on = |asked: bool, sizes: Dims, format, a: &Tensor, b: &Tensor, kernel: cpu::conv::Gradient| {
        asked
            .then(|| {
                filled(sizes, input, format, |gradient| {
                    let (a, b) = (a.to_contiguous()?, b.to_contiguous()?);
                    access([&a, &b], [gradient], Fresh::Yes, |[a, b], [gradient]| {
                        kernel(geometry, transposed, is_empty, &a, &b, gradient)
                    })
                })
            })
            .transpose()
    };
    Ok((
        on(of_input, input.sizes(), format, grad_output, weight, cpu::conv::input_gradient)?,
        on(of_weight, weight.sizes(), format, grad_output, input, cpu::conv::weight_gradient)?,
        on(
            of_bias,
            Dims::from([plan.output[1]]),
            MemoryFormat::Contiguous,
            grad_output,
            grad_output,
            cpu::conv::bias_gradient,
        )?,
    ))
}
