//! `tensorplay op`: recorded calls of operators, run and compared.

#[cfg(any())]
mod args;
mod read;
mod case;
mod values;
mod tensor_value;
mod elements;
mod outcome;
mod judge;
mod report;
#[cfg(any())]
mod command;

#[cfg(test)]
mod tests;
