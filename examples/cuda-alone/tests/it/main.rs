//! The examples, as one runs them: on a simulated device, and on the CUDA driver where there is one.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod examples;
