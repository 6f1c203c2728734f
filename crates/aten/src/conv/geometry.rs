//! [`ConvGeometry`]: the sizes of a convolution.

/// The dimensions over which the kernel moves.
pub(crate) const DIMS: usize = 3;

/// One number for each dimension over which the kernel moves: depth, height, width.
pub(crate) type Dims = [usize; DIMS];

/// The sizes of a convolution of images `[batch, groups * channels_in, input...]` with a weight
/// `[groups * channels_out, channels_in, kernel...]`. Channels are counted in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConvGeometry {
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    pub(crate) channels_in: usize,
    pub(crate) channels_out: usize,
    pub(crate) input: Dims,
    pub(crate) kernel: Dims,
    pub(crate) stride: Dims,
    pub(crate) padding: Dims,
    pub(crate) dilation: Dims,
    pub(crate) output: Dims,
}

/// The length of the output along a dimension, or none where the kernel does not fit.
pub(crate) fn output_len(
    input: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
) -> Option<usize> {
    let span = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
    let padded = input.checked_add(padding.checked_mul(2)?)?;
    Some(padded.checked_sub(span)?.checked_div(stride)? + 1)
}

impl ConvGeometry {
    /// The number of weights that one output of one group is the sum of.
    pub(crate) fn depth(&self) -> usize {
        self.channels_in * self.taps()
    }

    /// The number of places of the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    pub(crate) fn input_len(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn output_len(&self) -> usize {
        self.output.iter().product()
    }

    /// The place of the kernel that comes `tap`th in the weight.
    pub(crate) fn tap(&self, tap: usize) -> Dims {
        let [_, height, width] = self.kernel;
        [tap / (height * width), tap / width % height, tap % width]
    }

    /// Whether the slices that a caller brings have the sizes that are named here.
    pub(crate) fn assert_lens(&self, input: usize, weight: usize, output: usize) {
        let images = self.batch * self.groups;
        assert_eq!(input, images * self.channels_in * self.input_len(), "input of {self:?}");
        assert_eq!(weight, self.groups * self.channels_out * self.depth(), "weight of {self:?}");
        assert_eq!(output, images * self.channels_out * self.output_len(), "output of {self:?}");
    }
}
