//! Memory and events of other processes.

use crate::entry::exports;

exports! {}
