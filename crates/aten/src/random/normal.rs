//! Normal numbers for a whole run of memory, sixteen at a time.

use c10_core::Element;

use super::element::{Continuous, Discrete, Real};
use super::generator::Draws;

const BLOCK: usize = 16;

impl Draws<'_> {
    /// Fills elements that lie in a row with normal numbers (`normal_`, `randn`).
    ///
    /// Sixteen elements and more are made in blocks, which leave alone the number that waits in the
    /// generator; the last sixteen are made anew when a block would end beyond them. Fewer are drawn
    /// [one by one](Self::normal), as all elements are that do not lie in a row.
    pub fn fill_normal<T: Continuous>(&mut self, out: &mut [T], mean: f64, std: f64) {
        if out.len() < BLOCK {
            out.fill_with(|| T::from_real(self.normal(mean, std)));
            return;
        }
        let (mean, std) = (T::Op::from_real(mean), T::Op::from_real(std));
        let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
        for block in blocks {
            self.fill_block(block, mean, std);
        }
        if rest.is_empty() {
            return;
        }
        // Where the uniform numbers stand in the output itself, PyTorch draws some for the rest too, and
        // then draws the last block over them.
        if T::SCALAR_TYPE == T::Op::SCALAR_TYPE {
            for _ in 0..rest.len() {
                T::Op::unit(self);
            }
        }
        let last = out.last_chunk_mut::<BLOCK>().expect("the length is at least that of a block");
        self.fill_block(last, mean, std);
    }

    fn fill_block<T: Continuous>(&mut self, out: &mut [T; BLOCK], mean: T::Op, std: T::Op) {
        let mut block = std::array::from_fn(|_| T::Op::unit(self));
        T::Op::box_muller(&mut block, mean, std);
        *out = block.map(T::from_op);
    }
}
