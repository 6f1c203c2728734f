//! How a call finds its kernel.

pub mod key;
pub mod key_set;
pub mod local;
mod name;
mod arg_type;
mod schema;
mod schema_parse;
mod schema_default;
mod schema_lex;

pub use arg_type::{AliasInfo, AliasSet, ArgType};
pub use key::{Backend, DispatchKey, Functionality};
pub use key_set::DispatchKeySet;
pub use local::LocalDispatchKeySet;
pub use name::OperatorName;
pub use schema::{Argument, DefaultValue, FunctionSchema, Return};
