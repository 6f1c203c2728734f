//! [`Problem`]: requests with their sizes and lifetimes.

use std::fmt;
use std::ops::Range;

/// The largest sum of sizes, so that no place and no sum of places overflows.
const LARGEST_SUM: u64 = 1 << 60;

/// One stretch of time in which a request is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) request: u32,
}

/// Requests to be packed. Times are places in a history: any unit, as long as frees and allocations keep their order.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    sizes: Vec<u64>,
    /// By start.
    pieces: Vec<Piece>,
}

/// Why a list of requests is no problem to solve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemError {
    /// The request is of 0 bytes, or all together are more than 2^60.
    Size {
        /// Its number.
        request: usize,
        /// Its bytes.
        size: u64,
    },
    /// The request is never live, or its lifetimes are empty, overlap or go backwards.
    Lifetime {
        /// Its number.
        request: usize,
    },
    /// There are more than 2^31 requests or lifetimes.
    TooMany,
}

/// A problem without the requests that are always live.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) always: Vec<u32>,
    /// The requests that are in `problem`, in its order.
    pub(super) rest: Vec<u32>,
    pub(super) problem: Problem,
}

impl Problem {
    /// A problem of no requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// The problem of a list of requests: bytes, and the times at which each is live, in order. A request with
    /// several lifetimes has one place in all of them.
    ///
    /// # Errors
    /// The first request that is not one.
    pub fn of<'a>(requests: impl IntoIterator<Item = (u64, &'a [Range<u32>])>) -> Result<Self, ProblemError> {
        let mut problem = Self::new();
        let mut sum = 0_u64;
        for (request, (size, lifetimes)) in requests.into_iter().enumerate() {
            sum = sum.saturating_add(size);
            if size == 0 || sum > LARGEST_SUM {
                return Err(ProblemError::Size { request, size });
            }
            if problem.sizes.len().max(problem.pieces.len() + lifetimes.len()) > i32::MAX as usize {
                return Err(ProblemError::TooMany);
            }
            let in_order = lifetimes.windows(2).all(|pair| pair[0].end <= pair[1].start);
            if lifetimes.is_empty() || !in_order || lifetimes.iter().any(Range::is_empty) {
                return Err(ProblemError::Lifetime { request });
            }
            problem.sizes.push(size);
            let piece =
                |life: &Range<u32>| Piece { start: life.start, end: life.end, request: request as u32 };
            problem.pieces.extend(lifetimes.iter().map(piece));
        }
        problem.pieces.sort_unstable_by_key(|piece| (piece.start, piece.end, piece.request));
        Ok(problem)
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The most bytes that are live at one time: no packing is lower.
    pub fn peak_live(&self) -> u64 {
        let mut ends: Vec<_> = self.pieces.iter().collect();
        ends.sort_unstable_by_key(|piece| piece.end);
        let mut ends = ends.into_iter().peekable();
        let (mut live, mut peak) = (0, 0);
        for piece in &self.pieces {
            while let Some(ended) = ends.next_if(|ended| ended.end <= piece.start) {
                live -= self.size(ended.request);
            }
            live += self.size(piece.request);
            peak = peak.max(live);
        }
        peak
    }

    pub(super) fn size(&self, request: u32) -> u64 {
        self.sizes[request as usize]
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Takes out the requests that are live from the first start to the last end.
    pub(super) fn split_always(&self) -> Split {
        let durations = self.durations();
        let span = self.span();
        let is_always = |request: &u32| durations[*request as usize] == span;
        let (always, rest): (Vec<_>, Vec<_>) = (0..self.len() as u32).partition(is_always);
        let mut problem =
            Self { sizes: rest.iter().map(|request| self.size(*request)).collect(), pieces: Vec::new() };
        let mut names = vec![0; self.len()];
        for (name, request) in rest.iter().enumerate() {
            names[*request as usize] = name as u32;
        }
        let moving = self.pieces.iter().filter(|piece| !is_always(&piece.request));
        let renamed = moving.map(|piece| Piece { request: names[piece.request as usize], ..*piece });
        problem.pieces = renamed.collect();
        Split { always, rest, problem }
    }

    /// For how long each request is live, in all.
    pub(super) fn durations(&self) -> Vec<u64> {
        let mut durations = vec![0; self.len()];
        for piece in &self.pieces {
            durations[piece.request as usize] += u64::from(piece.end - piece.start);
        }
        durations
    }

    /// From the first start to the last end.
    fn span(&self) -> u64 {
        let first = self.pieces.first().map_or(0, |piece| piece.start);
        let last = self.pieces.iter().map(|piece| piece.end).max().unwrap_or(0);
        u64::from(last - first)
    }
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { request, size } => {
                write!(f, "request {request} is of {size} bytes: each has some, and all at most 2^60")
            }
            Self::Lifetime { request } => {
                write!(f, "request {request} has no lifetime, or lifetimes that are not one after another")
            }
            Self::TooMany => f.write_str("there are more than 2^31 requests"),
        }
    }
}

impl std::error::Error for ProblemError {}
