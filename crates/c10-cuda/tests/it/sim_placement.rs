//! Placement against a naive model: a list of live ranges, searched from the lowest address.

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, Status};
use proptest::prelude::*;

use crate::support::{MIB, free};

const BASE: u64 = 1 << 52;
const UNIT: u64 = 2 * MIB;
const TOTAL: u64 = 40 * UNIT;

#[derive(Clone, Debug)]
enum Step {
    /// So many bytes wherever they fit.
    Malloc(u64),
    /// So many bytes at an offset of the region.
    Scripted(u64, u64),
    /// The live range of that number, modulo how many there are.
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6 * UNIT).prop_map(Step::Malloc),
        1 => (0..50 * UNIT / 512, 1..3 * UNIT).prop_map(|(at, bytes)| Step::Scripted(at * 512, bytes)),
        4 => any::<usize>().prop_map(Step::Free),
    ]
}

/// Live ranges: first address, extent, capacity.
#[derive(Default)]
struct Model(Vec<(u64, u64, u64)>);

impl Model {
    fn used(&self) -> u64 {
        self.0.iter().map(|&(_, _, capacity)| capacity).sum()
    }

    fn is_free(&self, at: u64, extent: u64) -> bool {
        self.0.iter().all(|&(base, len, _)| at + extent <= base || base + len <= at)
    }

    fn malloc(&mut self, at: Option<u64>, bytes: u64) -> Result<u64, Status> {
        let capacity = bytes.next_multiple_of(UNIT);
        if self.used() + capacity > TOTAL {
            return Err(Status::OutOfMemory);
        }
        let (at, extent) = match at {
            Some(at) if !self.is_free(at, bytes) => return Err(Status::InvalidValue),
            Some(at) => (at, bytes),
            None => {
                let mut places = (0..).map(|n| BASE + n * UNIT);
                (places.find(|&at| self.is_free(at, capacity)).expect("the region is large"), capacity)
            }
        };
        self.0.push((at, extent, capacity));
        Ok(at)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn ranges_lie_where_the_model_puts_them(steps in prop::collection::vec(step(), 1..80)) {
        let sim = SimDriver::new(SimConfig::with_bytes(TOTAL));
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Malloc(bytes) => {
                    let got = sim.malloc(0, bytes).map(|p| p.0).map_err(|e| e.status);
                    prop_assert_eq!(got, model.malloc(None, bytes));
                }
                Step::Scripted(offset, bytes) => {
                    sim.script_malloc_addresses(0, vec![DevicePtr(BASE + offset)]);
                    let got = sim.malloc(0, bytes).map(|p| p.0).map_err(|e| e.status);
                    prop_assert_eq!(got, model.malloc(Some(BASE + offset), bytes));
                    sim.script_malloc_addresses(0, vec![]);
                }
                Step::Free(which) => {
                    if let Some(last) = model.0.len().checked_sub(1) {
                        let (at, _, _) = model.0.swap_remove(which % (last + 1));
                        free(&*sim, DevicePtr(at)).expect("it is live");
                    }
                }
            }
            prop_assert_eq!(sim.memory_info(0).expect("it is there").free, TOTAL - model.used());
        }
    }
}
