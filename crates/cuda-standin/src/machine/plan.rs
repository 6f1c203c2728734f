//! [`Plan`]: which calls fail next, as a test asked.

use crate::abi::Code;

/// Calls that will fail, by their C names.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    due: Vec<Due>,
}

#[derive(Debug)]
struct Due {
    call: String,
    /// How many calls there are to go; 1 is the next.
    in_calls: u64,
    result: Code,
}

impl Plan {
    /// Fails the `nth` call from here of that name; 0 counts as 1.
    pub(crate) fn add(&mut self, call: &str, nth: u64, result: Code) {
        self.due.push(Due { call: call.to_owned(), in_calls: nth.max(1), result });
    }

    /// Nothing fails any more; how many there were that would have.
    pub(crate) fn clear(&mut self) -> u64 {
        self.due.drain(..).count() as u64
    }

    /// A call is made: why it fails, if it does. All that wait for the name count it, and the first to come due
    /// decides.
    pub(crate) fn strike(&mut self, call: &str) -> Option<Code> {
        let mut struck = None;
        for due in self.due.iter_mut().filter(|due| due.call == call) {
            due.in_calls -= 1;
            if due.in_calls == 0 {
                struck = struck.or(Some(due.result));
            }
        }
        self.due.retain(|due| due.in_calls != 0);
        struck
    }
}
