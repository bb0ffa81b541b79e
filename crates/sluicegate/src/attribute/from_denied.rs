//! Results that can say that a call was denied.

use crate::denied::Denied;

/// A type that can say that a call was denied: what a function with `#[limit(…)]` returns, unless
/// the attribute says what happens then.
///
/// A [`Result`] whose error can be made from a [`Denied`] does so. A type of your own can:
///
/// ```
/// use sluicegate::{Denied, FromDenied, limit};
///
/// enum Reply {
///     Found(u32),
///     TooMany,
/// }
///
/// impl FromDenied for Reply {
///     fn from_denied(_: Denied) -> Self {
///         Self::TooMany
///     }
/// }
///
/// #[limit("token_bucket 1/min")]
/// fn find(id: u32) -> Reply {
///     Reply::Found(id)
/// }
///
/// assert!(matches!(find(7), Reply::Found(7)));
/// assert!(matches!(find(7), Reply::TooMany));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't say that a call was denied",
    label = "what would a denied call return?",
    note = "return `Result<T, E>` where `E: From<sluicegate::Denied>`: a denied call returns `Err(E::from(denied))`",
    note = "or write `fallback = path` into the attribute: a function that is called instead",
    note = "or write `denied = expression` into the attribute: what a denied call returns"
)]
pub trait FromDenied: Sized {
    /// The result of a call that was denied.
    fn from_denied(denied: Denied) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Denied>> FromDenied for Result<T, E> {
    fn from_denied(denied: Denied) -> Self {
        Err(E::from(denied))
    }
}
