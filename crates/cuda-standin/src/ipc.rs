//! tmp
#[derive(Debug)]
pub(crate) struct SharedFile;
#[derive(Debug)]
pub(crate) struct SharedEvent;
