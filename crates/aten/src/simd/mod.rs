//! The same loop compiled for several instruction sets, picked when it runs.
//!
//! A loop is written once, as ordinary code over slices. [`dispatch`] holds three copies of it, in functions
//! that are compiled for plain x86-64, for AVX2 with FMA and for AVX-512, and calls the best that the machine
//! has; elsewhere there is the plain one alone. Nothing here changes what is computed: `mul_add` rounds once
//! in each copy, and the compiler contracts nothing by itself, so all copies give the same bits.
//!
//! For that to work all of the loop must be inlined into the copies: the closure and what it calls are
//! `#[inline(always)]`. What is not inlined stays right, and slow.
#![expect(
    unsafe_code,
    reason = "a function compiled for an instruction set is called only where it was detected"
)]

use std::sync::atomic::{AtomicU8, Ordering};

/// What was [detected](InstructionSet::detected): one of those below, or 0 before that.
static DETECTED: AtomicU8 = AtomicU8::new(0);
const BASELINE: u8 = InstructionSet::Baseline as u8 + 1;
const AVX2: u8 = InstructionSet::Avx2 as u8 + 1;
const AVX512: u8 = InstructionSet::Avx512 as u8 + 1;

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InstructionSet {
    /// What every machine of this architecture has.
    Baseline,
    /// AVX2 and FMA: 8 `f32` at a time.
    Avx2,
    /// AVX-512 F, BW, DQ and VL: 16 `f32` at a time.
    Avx512,
}

impl InstructionSet {
    /// The best one that this machine has.
    #[inline]
    pub fn detected() -> Self {
        match DETECTED.load(Ordering::Relaxed) {
            BASELINE => Self::Baseline,
            AVX2 => Self::Avx2,
            AVX512 => Self::Avx512,
            _ => Self::detect(),
        }
    }

    #[cold]
    fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let detected = {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Self::Avx512,
                (true, false) => Self::Avx2,
                (false, _) => Self::Baseline,
            }
        };
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let detected = Self::Baseline;
        DETECTED.store(detected as u8 + 1, Ordering::Relaxed);
        detected
    }
}

/// Runs `body` as compiled for the best instruction set of this machine.
///
/// Mark the closure `#[inline(always)]`, and everything in it that matters.
#[inline]
pub fn dispatch<R>(body: impl FnOnce() -> R) -> R {
    run(InstructionSet::detected(), body)
}

/// [`dispatch`], of a loop over `len` elements: for few the choice takes longer than it saves.
#[inline]
pub fn dispatch_for<R>(len: usize, body: impl FnOnce() -> R) -> R {
    const FEW: usize = 8;
    if len < FEW { body() } else { dispatch_apart(body) }
}

/// [`dispatch`], as a call of its own: what it needs room for is not needed for few elements.
#[inline(never)]
fn dispatch_apart<R>(body: impl FnOnce() -> R) -> R {
    dispatch(body)
}

/// Runs `body` as compiled for an instruction set, which was detected.
#[inline]
fn run<R>(set: InstructionSet, body: impl FnOnce() -> R) -> R {
    // Builds for tests have one vector copy of each loop, to be built in bearable time.
    #[cfg(debug_assertions)]
    return match set {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: each of the two has AVX2 and FMA.
        InstructionSet::Avx2 | InstructionSet::Avx512 => unsafe { avx2(body) },
        _ => body(),
    };
    #[cfg(not(debug_assertions))]
    dispatch_at_most(set, body)
}

/// [`dispatch`], with no better instruction set than `most`: for tests that compare them.
#[inline]
pub fn dispatch_at_most<R>(most: InstructionSet, body: impl FnOnce() -> R) -> R {
    let set = if most == InstructionSet::Baseline { most } else { InstructionSet::detected().min(most) };
    match set {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `detected` found every feature that this copy is compiled for.
        InstructionSet::Avx512 => unsafe { avx512(body) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        InstructionSet::Avx2 => unsafe { avx2(body) },
        _ => body(),
    }
}

/// Compiled for AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Compiled for AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<R>(body: impl FnOnce() -> R) -> R {
    body()
}
