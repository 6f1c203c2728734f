//! [`PrintOptions`].

/// How tensors are printed (`torch.set_printoptions`). It is a value that the caller passes, and no state of
/// the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Digits after the point.
    pub precision: usize,
    /// Above how many elements only the edges of each dimension are shown.
    pub threshold: usize,
    /// How many elements are shown at each edge.
    pub edge_items: usize,
    /// After how many characters a line ends.
    pub line_width: usize,
    /// Whether numbers have exponents; `None` decides by the numbers.
    pub sci_mode: Option<bool>,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self { precision: 4, threshold: 1000, edge_items: 3, line_width: 80, sci_mode: None }
    }
}

impl PrintOptions {
    /// Fewer digits and elements (`profile="short"`).
    pub fn short() -> Self {
        Self { precision: 2, threshold: 1000, edge_items: 2, line_width: 80, sci_mode: None }
    }

    /// Every element (`profile="full"`).
    pub fn full() -> Self {
        Self { threshold: usize::MAX, ..Self::default() }
    }
}
