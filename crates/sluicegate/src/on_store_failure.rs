//! The answer of a limit whose store fails.

/// The answer of a limit whose store is slow, down or wrong.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// A typed error: HTTP status 503.
    #[default]
    Error,
    /// Allow every request.
    Allow,
    /// Deny every request.
    Deny,
    /// Decide in this process, with its share of the limit. A store with the layer
    /// [`Fallback`](crate::layers::Fallback) does; with another store it is an error, and so is what that
    /// layer can't decide.
    Local,
}
