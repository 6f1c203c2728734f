//! Settings and queries.

use c10_cuda::ErrorKind;

use super::Stop;
use super::answer::Answer;
use super::machine::Machine;
use super::places::stand_in;
use crate::replay::number::general;

/// What PyTorch says of the base of memory in an expandable segment.
const NO_BASE_OF_EXPANDABLE: &str = "Tensors allocated with expandable_segments:True cannot be shared between \
    processes. Consider using expandable_segments:False in data loading workers via \
    torch.cuda.memory._set_allocator_settings('expandable_segments:False')";

impl Machine {
    pub(super) fn set_fraction(&mut self, fraction: f64) -> Result<Answer, Stop> {
        let text = general(fraction);
        match self.allocator.set_memory_fraction(fraction, self.runtime.current_device()) {
            Ok(()) => {
                self.capped.insert(self.runtime.current_device());
                Ok(Answer::Line(format!("memory_fraction {text}")))
            }
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                Ok(Answer::Refused(format!("invalid fraction:{text}. Please set within [0, 1].")))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn fraction(&self) -> Result<Answer, Stop> {
        let device = self.runtime.current_device();
        let fraction = if self.is_async() && !self.capped.contains(&device) {
            // Without a cap, PyTorch divides the largest number by the device's memory.
            u64::MAX as f64 / self.allocator.mem_get_info(device)?.total as f64
        } else {
            self.allocator.memory_fraction(device)?
        };
        Ok(Answer::Echo(format!(" {fraction:.6}")))
    }

    pub(super) fn base(&self, id: i64) -> Result<Answer, Stop> {
        let Some(ptr) = self.live.get(&id) else { return Ok(Answer::Skip) };
        match self.allocator.base_allocation(ptr) {
            Ok((base, bytes)) => Ok(Answer::Echo(format!(" {} size {bytes}", self.places.place(base.0)))),
            Err(error) if error.kind() == ErrorKind::NotImplemented => {
                Ok(Answer::Refused(NO_BASE_OF_EXPANDABLE.into()))
            }
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                let address = stand_in(ptr.as_ptr().addr() as u64);
                let address = if address == 0 { "0".to_owned() } else { format!("{address:#x}") };
                Ok(Answer::Refused(format!("invalid device pointer: {address}")))
            }
            Err(error) => Err(error.into()),
        }
    }
}
