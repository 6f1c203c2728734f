//! Which variables of the environment are read, and which of them wins.

use super::Config;
use crate::error::{Error, ErrorKind, Result};

/// In the order in which PyTorch looks: the first that is set wins.
const TEXTS: [&str; 3] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

const NO_CACHING: &str = "PYTORCH_NO_CUDA_MEMORY_CACHING";

pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config> {
    let mut config = Config::default();
    if let Some((name, text)) = TEXTS.iter().find_map(|name| Some((name, variable(name)?))) {
        config.set(&text).map_err(|e| Error::new(ErrorKind::Config, format!("{name}: {e}")))?;
    }
    config.no_caching = variable(NO_CACHING).is_some();
    Ok(config)
}
