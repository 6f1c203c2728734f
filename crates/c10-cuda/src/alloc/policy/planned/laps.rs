//! [`Laps`]: where a history that was cut off anywhere has been before.
//!
//! The last few requests also come earlier. From there back the two stretches are laid side by side, and skip what only
//! one of them has: a first iteration makes more requests than later ones. Layers of a model resemble each other
//! too, but not up to the beginning of the history.

use super::grams::{GRAM, Grams, hash};
use super::recording::Recorded;

/// How many earlier places are looked at.
const CANDIDATES: usize = 256;
/// How much one side may have that the other has not, at one place.
const SKIP: usize = 48;
/// How many requests in a row show that the sides are together again.
const TOGETHER: usize = 3;

/// A history that repeats itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Laps {
    /// The request that follows the last one.
    pub(super) from: usize,
    /// For each request the one that it was a lap before, where there is one.
    pub(super) before: Vec<Option<u32>>,
}

impl Laps {
    /// The laps of a history, if most of what comes before the last lap is found again.
    pub(super) fn find(requests: &[Recorded]) -> Option<Self> {
        let token = |request: &Recorded| (request.size, request.stream);
        let grams = Grams::new(requests.iter().map(token));
        let last = requests.last_chunk::<GRAM>()?;
        let places = grams.places(hash(last.iter().map(token)));
        // The nearest ones; the last is the history's own end.
        let nearest = places.iter().rev().skip(1).take(CANDIDATES).map(|(_, end)| *end as usize);
        let mut best: Option<(usize, Vec<(u32, u32)>)> = None;
        for from in nearest {
            let pairs = side_by_side(requests, from);
            let is_better = best.as_ref().is_none_or(|(other, most)| pairs.len() * other > most.len() * from);
            // Three in five, of which the beginning of the program is none.
            if pairs.len() * 5 >= from * 3 && is_better {
                best = Some((from, pairs));
            }
        }
        let (from, pairs) = best?;
        let mut before = vec![None; requests.len()];
        for (later, earlier) in pairs {
            before[later as usize] = Some(earlier);
        }
        Some(Self { from, before })
    }
}

/// Pairs of equal requests, going back from the end and from before `from`.
fn side_by_side(requests: &[Recorded], from: usize) -> Vec<(u32, u32)> {
    let (mut later, mut earlier) = (requests.len(), from);
    let distance = later - earlier;
    let mut pairs = Vec::new();
    // Sides that have come much nearer to each other are no laps: everything is equal to itself.
    while earlier > 0 && later - earlier > distance / 2 {
        if requests[later - 1] == requests[earlier - 1] {
            (later, earlier) = (later - 1, earlier - 1);
            pairs.push((later as u32, earlier as u32));
        } else if let Some((skip_later, skip_earlier)) = skip(&requests[..later], &requests[..earlier]) {
            (later, earlier) = (later - skip_later, earlier - skip_earlier);
            if later <= earlier {
                break;
            }
        } else {
            break;
        }
    }
    pairs
}

/// The least to skip at the ends of two stretches so that they are together again.
fn skip(later: &[Recorded], earlier: &[Recorded]) -> Option<(usize, usize)> {
    let are_together = |skip_later: usize, skip_earlier: usize| {
        let one = later.len().checked_sub(skip_later).and_then(|end| later[..end].last_chunk::<TOGETHER>());
        let other = earlier.len().checked_sub(skip_earlier).and_then(|end| earlier[..end].last_chunk());
        one.is_some() && one == other
    };
    let split = |sum: usize| (0..=sum).map(move |of_later| (of_later, sum - of_later));
    (1..=SKIP).flat_map(split).find(|&(one, other)| are_together(one, other))
}
