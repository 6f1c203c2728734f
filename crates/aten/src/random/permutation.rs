//! Random permutations.

use super::element::Discrete;
use super::generator::Draws;

/// From this length on a remainder of 32 bits would be too far from uniform.
const LONG: usize = (u32::MAX / 20) as usize;

impl Draws<'_> {
    /// Fills `out` with the integers from 0 to its length in random order (`randperm`).
    pub fn fill_permutation<T: Discrete>(&mut self, out: &mut [T]) {
        let len = out.len();
        if len < LONG {
            for (i, element) in out.iter_mut().enumerate() {
                *element = T::from_integer(i as i64);
            }
            for i in 0..len.saturating_sub(1) {
                let ahead = self.random() as usize % (len - i);
                out.swap(i, i + ahead);
            }
            return;
        }
        for i in 0..len {
            let at = (self.random64() % (i as u64 + 1)) as usize;
            out[i] = out[at];
            out[at] = T::from_integer(i as i64);
        }
    }
}
