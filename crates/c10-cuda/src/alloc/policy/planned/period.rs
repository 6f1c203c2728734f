//! After how many requests a program repeats itself.

use std::collections::HashMap;

use super::grams::{GRAM, Grams};
use super::recording::Recorded;

/// How many candidates are looked at closely.
const CANDIDATES: usize = 32;

/// The number of requests after which the end of a history is as it was before, if there is one: four in five of the
/// requests must be equal over a half of the history, or over what there is of a second lap.
///
/// Layers within an iteration repeat themselves too, but not for as long.
pub(super) fn of(requests: &[Recorded]) -> Option<usize> {
    let count = requests.len();
    // Of the second lap there should be enough to tell.
    let longest = count - count / 8;
    let matches = |period: usize| {
        let window = (count - period).min(count / 2);
        let equal = (count - window..count).filter(|at| requests[*at] == requests[*at - period]).count();
        (equal as u64, window as u64)
    };
    let mut best: Option<(u64, u64, usize)> = None;
    for period in candidates(requests).into_iter().filter(|period| *period <= longest) {
        let (equal, window) = matches(period);
        let is_good = equal * 5 >= window * 4;
        // The better part, and of equals the shorter.
        let is_better = best.is_none_or(|(best, of, other)| {
            (equal * of).cmp(&(best * window)).then(other.cmp(&period)).is_gt()
        });
        if window > 0 && is_good && is_better {
            best = Some((equal, window, period));
        }
    }
    best.map(|(.., period)| period)
}

/// The distances at which short runs of requests come again, the most frequent first.
fn candidates(requests: &[Recorded]) -> Vec<usize> {
    let grams = Grams::new(requests.iter().map(|request| (request.size, request.stream)));
    let mut last: HashMap<u64, usize> = HashMap::new();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for end in GRAM..=requests.len() {
        if let Some(gram) = grams.ending_at(end)
            && let Some(before) = last.insert(gram, end)
        {
            *counts.entry(end - before).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // The order of the map is no order.
    counts.sort_unstable_by_key(|(distance, count)| (std::cmp::Reverse(*count), *distance));
    counts.truncate(CANDIDATES);
    counts.into_iter().map(|(distance, _)| distance).collect()
}
