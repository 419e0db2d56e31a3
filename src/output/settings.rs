//! What the user wants to see, and how.

/// A choice that depends on the terminal unless the user makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// What the user wants to see, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) progress: When,
    pub(crate) colours: When,
}
