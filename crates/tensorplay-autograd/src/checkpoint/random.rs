//! The random numbers of a second run.

use aten::Result;
use aten::random::Generator;

/// The default generator is at another place of its sequence until this is dropped.
#[must_use = "the generator goes back when this is dropped"]
pub(super) struct Rewound {
    before: Vec<u8>,
}

impl Rewound {
    pub(super) fn to(state: &[u8]) -> Result<Self> {
        let generator = Generator::default_cpu();
        let before = generator.state();
        generator.set_state(state)?;
        Ok(Self { before })
    }
}

impl Drop for Rewound {
    fn drop(&mut self) {
        let restored = Generator::default_cpu().set_state(&self.before);
        debug_assert!(restored.is_ok(), "the state is the generator's own");
    }
}
