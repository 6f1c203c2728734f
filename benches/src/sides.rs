//! [`Sides`]: several implementations of one operator, timed in turn, and the table of their ratios.

use std::fmt;
use std::time::{Duration, Instant};

/// The rounds of a comparison.
pub const ROUNDS: usize = 11;

/// One implementation: gives the nanoseconds of a call.
pub type Side<'a> = (&'static str, Box<dyn FnMut() -> Option<f64> + 'a>);

/// The implementations of one operator. The first is ours.
pub struct Sides<'a> {
    name: String,
    /// What a call does so many times; a time is for one of them.
    parts: f64,
    sides: Vec<Side<'a>>,
}

/// What came out of [`Sides::compare`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The operator.
    pub name: String,
    /// For each side its name and its nanoseconds a call, the median over the rounds; `None` where it has no such
    /// operator.
    pub ns: Vec<(&'static str, Option<f64>)>,
    /// For each side beside the first, the median over the rounds of the first's time divided by its time.
    pub ratios: Vec<Option<f64>>,
}

impl<'a> Sides<'a> {
    /// Of no implementation yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self::per(name, 1.0)
    }

    /// As [`new`](Self::new), of calls that have so many parts: times are for one.
    pub fn per(name: impl Into<String>, parts: f64) -> Self {
        Self { name: name.into(), parts, sides: Vec::new() }
    }

    /// Adds an implementation that runs here.
    pub fn side<R>(&mut self, name: &'static str, mut call: impl FnMut() -> R + 'a) {
        let calls = calls_for(&mut call, Duration::from_millis(20));
        self.given(name, move || Some(ns_per_call(&mut call, calls)));
    }

    /// Adds an implementation that times itself.
    pub fn given(&mut self, name: &'static str, time: impl FnMut() -> Option<f64> + 'a) {
        self.sides.push((name, Box::new(time)));
    }

    /// Times all of them in turn, so many times.
    pub fn compare(mut self, rounds: usize) -> Row {
        let mut times: Vec<Vec<Option<f64>>> = vec![Vec::new(); self.sides.len()];
        for _ in 0..rounds {
            for ((_, time), times) in self.sides.iter_mut().zip(&mut times) {
                times.push(time().map(|ns| ns / self.parts));
            }
        }
        let ratio = |times_of: &Vec<Option<f64>>| {
            median(times[0].iter().zip(times_of).filter_map(|(ours, other)| Some((*ours)? / (*other)?)))
        };
        Row {
            name: self.name,
            ratios: times[1..].iter().map(ratio).collect(),
            ns: self
                .sides
                .iter()
                .zip(&times)
                .map(|((name, _), times)| (*name, median(times.iter().flatten().copied())))
                .collect(),
        }
    }
}

impl fmt::Debug for Sides<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sides").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Row {
    /// The heading of a table of rows with these sides.
    pub fn heading(&self) -> String {
        let names = self.ns.iter().map(|(name, _)| format!(" {:>12}", format!("{name}, ns")));
        let ratios = self.ns.iter().skip(1).map(|(name, _)| format!(" {:>12}", format!("ours/{name}")));
        format!("{:36}{}", "", names.chain(ratios).collect::<String>())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:36}", self.name)?;
        for (_, ns) in &self.ns {
            match ns {
                Some(ns) => write!(f, " {ns:12.1}")?,
                None => write!(f, " {:>12}", "-")?,
            }
        }
        for ratio in &self.ratios {
            match ratio {
                Some(ratio) => write!(f, " {ratio:12.3}")?,
                None => write!(f, " {:>12}", "-")?,
            }
        }
        Ok(())
    }
}

/// How many calls take about so long, after some to warm up.
fn calls_for<R>(call: &mut impl FnMut() -> R, time: Duration) -> u32 {
    let mut calls = 1_u32;
    loop {
        let begun = Instant::now();
        (0..calls).for_each(|_| drop(std::hint::black_box(call())));
        let took = begun.elapsed();
        if took >= time || calls >= 1 << 24 {
            return calls.max(1);
        }
        calls = calls.saturating_mul(if took * 4 < time { 4 } else { 2 });
    }
}

fn ns_per_call<R>(call: &mut impl FnMut() -> R, calls: u32) -> f64 {
    let begun = Instant::now();
    (0..calls).for_each(|_| drop(std::hint::black_box(call())));
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// The middle of what there is.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{Sides, median};

    #[test]
    fn ratios_are_of_pairs() {
        let mut sides = Sides::new("add");
        let mut ours = [10.0, 30.0, 20.0].into_iter();
        let mut other = [20.0, 60.0, 10.0].into_iter();
        sides.given("ours", move || ours.next());
        sides.given("other", move || other.next());
        sides.given("none", || None);
        let row = sides.compare(3);
        assert_eq!(row.ratios, [Some(0.5), None]);
        assert_eq!(row.ns, [("ours", Some(20.0)), ("other", Some(20.0)), ("none", None)]);
        assert_eq!(median([]), None);
    }
}
