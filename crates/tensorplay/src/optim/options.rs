//! [`Options`]: the settings of a group by name, so that schedules and saved states can read and write them.

use std::fmt::Debug;

/// Settings that have names. A flag is 1 or 0.
///
/// [`options!`](crate::options) makes a struct that has them.
pub trait Options: Clone + Debug + Send {
    /// Each setting with its name, in order.
    fn settings(&self) -> Vec<(&'static str, f64)>;

    /// Changes a setting; says whether there is one of that name.
    #[must_use]
    fn set(&mut self, name: &str, value: f64) -> bool;

    /// The setting of a name.
    fn setting(&self, name: &str) -> Option<f64> {
        self.settings().into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

/// What a setting may be.
pub trait Setting: Copy {
    /// As a number.
    fn to_number(self) -> f64;

    /// From a number.
    fn of_number(number: f64) -> Self;
}

impl Setting for f64 {
    fn to_number(self) -> f64 {
        self
    }

    fn of_number(number: f64) -> Self {
        number
    }
}

impl Setting for bool {
    fn to_number(self) -> f64 {
        f64::from(u8::from(self))
    }

    fn of_number(number: f64) -> Self {
        number != 0.0
    }
}

/// A struct of settings (`f64` and `bool`) with their defaults, which is [`Options`](crate::optim::Options).
#[macro_export]
macro_rules! options {
    ($(#[$docs:meta])* $vis:vis struct $Name:ident { $($(#[$field_docs:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $Name {
            $($(#[$field_docs])* pub $field: $type,)*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $crate::optim::Options for $Name {
            fn settings(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($field), $crate::optim::Setting::to_number(self.$field))),*]
            }

            fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($field) => self.$field = $crate::optim::Setting::of_number(value),)*
                    _ => return false,
                }
                true
            }
        }
    };
}
