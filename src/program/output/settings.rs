//! The user's choices about the output.

/// A choice that depends on the terminal unless the user makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// The user's choices about the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) progress: When,
    pub(crate) colours: When,
}
