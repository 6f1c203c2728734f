//! [`InputBuffer`]: the gradients that a node has so far (`torch::autograd::InputBuffer`).

use aten::{Result, Tensor};
use c10_core::Stream;
use c10_core::guard::StreamGuard;

use super::streams;
use crate::accumulate::is_sole;
use crate::gradients::{Gradients, undefined};
use crate::mode::is_grad_enabled;

/// A slot for each gradient that the node takes.
#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    gradients: Gradients,
    /// The streams on which gradients of devices may be used, by slot.
    #[expect(clippy::box_collection, reason = "almost all buffers have none, and there may be millions")]
    streams: Option<Box<Vec<(usize, Stream)>>>,
}

/// A gradient on its way into a buffer.
#[derive(Debug)]
pub(super) struct Held {
    tensor: Tensor,
    /// For one that is on a device, the stream on which it may be used.
    stream: Option<Stream>,
}

impl InputBuffer {
    #[inline]
    pub(super) fn new(count: usize) -> Self {
        Self { gradients: undefined(count), streams: None }
    }

    /// With all that comes: one gradient, which may be undefined.
    #[inline]
    pub(super) fn of(count: usize, input: usize, held: Option<Held>) -> Self {
        let mut buffer = Self::new(count);
        if let Some(held) = held {
            buffer.put(input, held);
        }
        buffer
    }

    /// Takes out what is in a slot.
    pub(super) fn take(&mut self, input: usize) -> Option<Held> {
        let tensor = self.gradients[input].take()?;
        let mut stream = None;
        if let Some(streams) = &mut self.streams {
            let at = streams.iter().position(|(of, _)| *of == input);
            stream = at.map(|at| streams.swap_remove(at).1);
        }
        Some(Held { tensor, stream })
    }

    /// Fills a slot that is empty.
    #[inline]
    pub(super) fn put(&mut self, input: usize, held: Held) {
        self.gradients[input] = Some(held.tensor);
        if let Some(stream) = held.stream {
            self.streams.get_or_insert_default().push((input, stream));
        }
    }

    /// The gradients, for a node that is about to run on `consumer`.
    #[inline]
    pub(super) fn hand_over(self, consumer: Option<Stream>) -> Result<Gradients> {
        if let Some(streams) = self.streams {
            for (input, stream) in *streams {
                if let Some(gradient) = &self.gradients[input] {
                    streams::hand_over(gradient, stream, consumer)?;
                }
            }
        }
        Ok(self.gradients)
    }
}

impl Held {
    /// What a node on `producer` gave, for one on `consumer`. Of gradients on a device: see Note [Streams of
    /// gradients].
    #[inline]
    pub(super) fn new(tensor: Tensor, producer: Option<Stream>, consumer: Option<Stream>) -> Result<Self> {
        let stream = match streams::has_streams(tensor.device()) {
            false => None,
            true => Some(streams::bring(&tensor, producer, consumer)?),
        };
        Ok(Self { tensor, stream })
    }

    /// The sum of what was in the slot and what comes.
    pub(super) fn add(self, gradient: Self) -> Result<Self> {
        let Some(stream) = self.stream else {
            return Ok(Self { tensor: sum(self.tensor, gradient.tensor)?, stream: None });
        };
        if let Some(other) = gradient.stream {
            streams::move_to(&gradient.tensor, other, stream)?;
        }
        let _current = StreamGuard::new(stream)?;
        Ok(Self { tensor: sum(self.tensor, gradient.tensor)?, stream: Some(stream) })
    }
}

/// The sum, in the memory of one of them where nobody else has that.
fn sum(before: Tensor, gradient: Tensor) -> Result<Tensor> {
    let may_be_written = |tensor: &Tensor| tensor.is_non_overlapping_and_dense() && is_sole(tensor);
    if !is_grad_enabled() {
        for (own, other) in [(&before, &gradient), (&gradient, &before)] {
            if may_be_written(own) {
                own.add_(other)?;
                return Ok(own.clone());
            }
        }
    }
    before.add(&gradient)
}
