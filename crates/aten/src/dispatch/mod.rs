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
mod value;
mod bind;
mod arg;
mod signature;
mod kernel;
mod slot;
mod operator;
mod op;
mod dispatcher;
mod library;

pub use arg::{Arg, Ret};
pub use arg_type::{AliasInfo, AliasSet, ArgType};
pub use dispatcher::Dispatcher;
pub use kernel::{BoxedFunction, Kernel};
pub use key::{Backend, DispatchKey, Functionality};
pub use key_set::DispatchKeySet;
pub use library::Library;
pub use local::LocalDispatchKeySet;
pub use name::OperatorName;
pub use op::Op;
pub use operator::OperatorHandle;
pub use schema::{Argument, DefaultValue, FunctionSchema, Return};
pub use signature::{IntoKernel, Signature, WithKeys};
pub use value::{Stack, Value};
