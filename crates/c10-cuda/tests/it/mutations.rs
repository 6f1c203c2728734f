//! Bytes that are nearly right, as parsers meet them: one mutator for all, which a seed decides.

use crate::rng::Rng;

/// A copy with one to four changes: a byte set, a bit turned, a byte gone or added, a piece of it again elsewhere.
pub(crate) fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            bytes.push(rng.below(256) as u8);
        }
        let at = rng.place(bytes.len());
        match rng.below(5) {
            0 => bytes[at] = rng.below(256) as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, rng.below(256) as u8),
            _ => {
                let end = (at + rng.place(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = rng.place(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}
