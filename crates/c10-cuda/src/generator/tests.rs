//! What is given back of a generator.

use super::{DEFAULT_SEED, SharedState};
use crate::sync::lock;

#[test]
fn what_others_have_drawn_since_is_not_given_back() {
    let state = SharedState::default();
    let offset = || lock(&state.0).offset;
    let before = state.advance(8).unwrap();
    assert_eq!(before, [DEFAULT_SEED, 0]);
    state.go_back(before, 8);
    assert_eq!(offset(), 0);
    let before = state.advance(8).unwrap();
    let others = state.advance(4).unwrap();
    state.go_back(before, 8);
    assert_eq!(offset(), 12, "the next draw repeats nothing of {others:?}");
    let before = state.advance(8).unwrap();
    lock(&state.0).seed = 1;
    state.go_back(before, 8);
    assert_eq!(offset(), 20, "it has begun anew");
}
