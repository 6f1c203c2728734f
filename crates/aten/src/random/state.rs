//! The state of a generator as bytes, laid out as `torch.Generator.get_state` lays it out.
//!
//! Little-endian, from byte 0: the seed (`u64`), `left` and a flag that it was seeded (`i32` each), `next`
//! (`u64`), 624 words (`u64` each), three `f64` of which the second is the normal number kept for the next
//! draw, a flag that there is one (`i32`), four bytes of padding, then the same in `f32` with a flag of one
//! byte and three of padding.

use c10_core::{Error, Result};

use super::generator::CpuState;
use super::mt19937::{Mt19937, WORDS};

/// The length of a state, in bytes.
pub const STATE_BYTES: usize = 5056;

const LEFT_AT: usize = 8;
const SEEDED_AT: usize = 12;
const NEXT_AT: usize = 16;
const WORDS_AT: usize = 24;
const NORMAL_F64_AT: usize = WORDS_AT + 8 * WORDS + 8;
const HAS_NORMAL_F64_AT: usize = NORMAL_F64_AT + 16;
const NORMAL_F32_AT: usize = HAS_NORMAL_F64_AT + 8;
const HAS_NORMAL_F32_AT: usize = NORMAL_F32_AT + 4;

impl CpuState {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; STATE_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let (words, left, next) = self.engine.parts();
        put(0, &self.seed.to_le_bytes());
        put(LEFT_AT, &left.to_le_bytes());
        put(SEEDED_AT, &1_u32.to_le_bytes());
        put(NEXT_AT, &u64::from(next).to_le_bytes());
        for (i, &word) in words.iter().enumerate() {
            put(WORDS_AT + 8 * i, &u64::from(word).to_le_bytes());
        }
        if let Some(normal) = self.next_normal_f64 {
            put(NORMAL_F64_AT, &normal.to_le_bytes());
            put(HAS_NORMAL_F64_AT, &1_u32.to_le_bytes());
        }
        if let Some(normal) = self.next_normal_f32 {
            put(NORMAL_F32_AT, &normal.to_le_bytes());
            put(HAS_NORMAL_F32_AT, &[1]);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Ok(bytes) = <&[u8; STATE_BYTES]>::try_from(bytes) else {
            return Err(Error::invalid_argument(format!(
                "a state of a CPU generator has {STATE_BYTES} bytes, not {}",
                bytes.len()
            )));
        };
        let invalid = |what: &str| Error::invalid_argument(format!("no state of MT19937: {what}"));
        if u32_at(bytes, SEEDED_AT) != 1 {
            return Err(invalid("it was never seeded"));
        }
        let left = u32_at(bytes, LEFT_AT);
        let next = u32::try_from(u64_at(bytes, NEXT_AT))
            .map_err(|_| invalid("its next word lies beyond the last"))?;
        // As PyTorch does, of each word the lower 32 bits count.
        let words = std::array::from_fn(|i| u64_at(bytes, WORDS_AT + 8 * i) as u32);
        let engine = Mt19937::from_parts(words, left, next)
            .ok_or_else(|| invalid(&format!("{left} words left from word {next} on, of {WORDS}")))?;
        let next_normal_f64 =
            (u32_at(bytes, HAS_NORMAL_F64_AT) != 0).then(|| f64::from_bits(u64_at(bytes, NORMAL_F64_AT)));
        let next_normal_f32 =
            (bytes[HAS_NORMAL_F32_AT] != 0).then(|| f32::from_bits(u32_at(bytes, NORMAL_F32_AT)));
        Ok(Self { seed: u64_at(bytes, 0), engine, next_normal_f64, next_normal_f32 })
    }
}

fn u32_at(bytes: &[u8; STATE_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8; STATE_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
