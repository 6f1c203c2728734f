//! [`Arguments`]: what criterion's command line says to the benches that are not criterion's.

/// Options of criterion that the next argument belongs to.
const WITH_VALUE: [&str; 10] = [
    "--save-baseline",
    "--baseline",
    "--load-baseline",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--color",
    "--output-format",
    "--profile-time",
];

/// The arguments that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Whether a rough result is enough.
    pub quick: bool,
    filter: Option<String>,
}

impl Arguments {
    /// Reads the arguments, the program's name left out.
    pub fn new(words: &[String]) -> Self {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if WITH_VALUE.contains(&word.as_str()) {
                words.next();
            } else if word == "--quick" || word == "--test" {
                arguments.quick = true;
            } else if !word.starts_with('-') {
                arguments.filter = Some(word.clone());
            }
        }
        arguments
    }

    /// Whether a bench of this name is asked for.
    pub fn selects(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    #[test]
    fn a_value_of_an_option_is_no_filter() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Arguments::new(&words)
        };
        assert!(read("--bench --save-baseline new").selects("deferred_free"));
        assert!(read("--bench deferred").selects("deferred_free"));
        assert!(!read("--quick alloc/hot").selects("deferred_free"));
        assert!(read("--quick alloc/hot").quick);
    }
}
