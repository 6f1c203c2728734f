//! [`MemoryFormat`]: in which order an operator should lay its result out.
//!
//! A request, not a property of a tensor. Which strides a format gives to which sizes is shape logic and
//! is not here.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The order of dimensions in memory (`c10::MemoryFormat`, `torch.memory_format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(i8)]
#[non_exhaustive]
pub enum MemoryFormat {
    /// The last dimension is the innermost one.
    #[default]
    Contiguous = 0,
    /// As the input is laid out.
    Preserve = 1,
    /// Four dimensions N, C, H, W, of which C is the innermost one.
    ChannelsLast = 2,
    /// Five dimensions N, C, D, H, W, of which C is the innermost one.
    ChannelsLast3d = 3,
}

impl MemoryFormat {
    /// Every format, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Contiguous, Self::Preserve, Self::ChannelsLast, Self::ChannelsLast3d];

    /// The format of one of PyTorch's numbers.
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.number() == number)
    }

    /// PyTorch's number of the format.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// PyTorch's name of the format without `torch.`: `contiguous_format`, `channels_last`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous_format",
            Self::Preserve => "preserve_format",
            Self::ChannelsLast => "channels_last",
            Self::ChannelsLast3d => "channels_last_3d",
        }
    }
}

impl fmt::Display for MemoryFormat {
    /// `channels_last`; with `{:#}` as Python prints it, `torch.channels_last`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { f.pad(&format!("torch.{}", self.name())) } else { f.pad(self.name()) }
    }
}

impl FromStr for MemoryFormat {
    type Err = Error;

    /// Takes each [`name`](Self::name), with or without `torch.` and with or without `_format`.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) when the text is none of them.
    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|m| m.name() == name || m.name().strip_suffix("_format") == Some(name))
            .ok_or_else(|| Error::unknown_name("memory format", text, Self::ALL.into_iter().map(Self::name)))
    }
}
