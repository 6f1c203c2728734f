//! `tensorplay op`: recorded calls of operators, run and compared.

mod args;
mod command;
mod list;
mod read;
mod case;
mod gradients;
mod values;
mod tensor_value;
mod elements;
mod run;
mod tensors;
mod outcome;
mod judge;
mod report;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod meta_tests;
#[cfg(test)]
mod gradcheck_tests;

pub(crate) use args::OpArgs;
pub(crate) use command::run_op;
