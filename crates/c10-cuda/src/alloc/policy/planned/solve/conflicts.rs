//! [`Conflicts`]: which requests are live together with one, with no list of pairs.
//!
//! A long history has more pairs than memory has room for. In order of their starts, the pieces that meet a piece
//! are those after it that start before it ends, which stand in one stretch, and those before it that have not
//! ended. The latter are kept at every [`EVERY`]th piece only.

use super::problem::{Piece, Problem};

/// How many pieces lie between two lists of what is live.
const EVERY: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct Conflicts<'a> {
    pieces: &'a [Piece],
    /// The pieces of each request, as places in `pieces`: request `r` has `own[firsts[r]..firsts[r + 1]]`.
    firsts: Vec<u32>,
    own: Vec<u32>,
    /// What is live before each `EVERY`th piece, likewise.
    live_firsts: Vec<usize>,
    live: Vec<u32>,
    /// Whether a request may be met twice.
    has_several: bool,
}

impl<'a> Conflicts<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let pieces = problem.pieces();
        let mut firsts = vec![0_u32; problem.len() + 1];
        for piece in pieces {
            firsts[piece.request as usize + 1] += 1;
        }
        for at in 1..firsts.len() {
            firsts[at] += firsts[at - 1];
        }
        let mut next = firsts.clone();
        let mut own = vec![0; pieces.len()];
        for (at, piece) in pieces.iter().enumerate() {
            let slot = &mut next[piece.request as usize];
            own[*slot as usize] = at as u32;
            *slot += 1;
        }
        let has_several = pieces.len() > problem.len();
        let (live_firsts, live) = live_lists(pieces);
        Self { pieces, firsts, own, live_firsts, live, has_several }
    }

    /// Whether [`visit`](Self::visit) may name a request twice.
    pub(super) fn has_several(&self) -> bool {
        self.has_several
    }

    /// Calls `visit` with each other request that is live together with `request`.
    pub(super) fn visit(&self, request: u32, mut visit: impl FnMut(u32)) {
        let own = self.firsts[request as usize] as usize..self.firsts[request as usize + 1] as usize;
        for &at in &self.own[own] {
            let at = at as usize;
            let piece = self.pieces[at];
            let list = at / EVERY;
            let earlier = &self.live[self.live_firsts[list]..self.live_firsts[list + 1]];
            for &other in earlier {
                let other = self.pieces[other as usize];
                if other.end > piece.start && other.request != request {
                    visit(other.request);
                }
            }
            for other in &self.pieces[list * EVERY..at] {
                if other.end > piece.start && other.request != request {
                    visit(other.request);
                }
            }
            for other in &self.pieces[at + 1..] {
                if other.start >= piece.end {
                    break;
                }
                if other.request != request {
                    visit(other.request);
                }
            }
        }
    }
}

fn live_lists(pieces: &[Piece]) -> (Vec<usize>, Vec<u32>) {
    let (mut firsts, mut lists) = (vec![0], Vec::new());
    let mut live: Vec<u32> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at % EVERY == 0 {
            live.retain(|other| pieces[*other as usize].end > piece.start);
            lists.extend_from_slice(&live);
            firsts.push(lists.len());
        }
        live.push(at as u32);
    }
    (firsts, lists)
}
