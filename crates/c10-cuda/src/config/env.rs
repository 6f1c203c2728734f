//! Which variables of the environment are read, and which of them wins.

use super::Config;
use crate::error::{Error, ErrorKind, Result};

/// In the order in which PyTorch looks: the first that is set wins.
const TEXTS: [&str; 3] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

const NO_CACHING: &str = "PYTORCH_NO_CUDA_MEMORY_CACHING";

/// The variable that sets the configuration, and its text.
pub(super) fn text(variable: impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    TEXTS.iter().find_map(|name| Some((*name, variable(name)?)))
}

pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config> {
    let mut config = Config::default();
    if let Some((name, text)) = text(&variable) {
        config.set(&text).map_err(|e| Error::new(ErrorKind::Config, format!("{name}: {e}")))?;
    }
    // `c10::utils::check_env`: other values are not obeyed, and an empty one is usual for "not set".
    config.no_caching = variable(NO_CACHING).as_deref() == Some("1");
    Ok(config)
}

/// A variable of this process. What is not Unicode is shown by the mark for that, which no setting has.
pub(super) fn of_process(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
