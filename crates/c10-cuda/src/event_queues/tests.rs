//! Whether a pass over a queue takes out what is over, keeps the order, and looks at each once.

use super::{EventQueue, take_over};
use crate::driver::{DriverError, EventHandle, Status};

fn queue(len: u64) -> EventQueue<u64> {
    (0..len).map(|nth| (EventHandle { device: 0, raw: nth }, nth)).collect()
}

/// Were each moved away from where it lies, this would take minutes.
#[test]
fn what_lies_between_others_is_taken_out_in_one_pass() {
    let len = 1 << 20;
    let mut queue = queue(len);
    let mut looks = 0;
    let mut taken = Vec::new();
    take_over(&mut queue, |event, &nth| {
        looks += 1;
        let is_over = nth % 2 == 0;
        if is_over {
            taken.push(event.raw);
        }
        Ok(is_over)
    })
    .unwrap();
    assert_eq!(looks, len);
    assert!(taken.into_iter().eq((0..len).step_by(2)));
    assert!(queue.into_iter().map(|(_, nth)| nth).eq((1..len).step_by(2)));
}

#[test]
fn behind_an_error_nothing_is_looked_at() {
    let mut queue = queue(6);
    let error = DriverError::new("event_synchronize", Status::InvalidHandle, 0);
    let result = take_over(&mut queue, |_, &nth| match nth {
        3 => Err(error),
        _ => Ok(nth != 1),
    });
    assert_eq!(result, Err(error));
    assert!(queue.into_iter().map(|(_, nth)| nth).eq([1, 3, 4, 5]));
}
