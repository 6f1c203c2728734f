//! What the benches share: the programs that they time, and the yardstick that says when the machine is quiet.

pub mod arguments;
pub mod mt19937;
pub mod peak;
pub mod programs;
pub mod recurrent;
pub mod sides;
pub mod torch;
pub mod yardstick;
