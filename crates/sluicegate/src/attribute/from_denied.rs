//! Results that can express a denial.

use crate::denied::Denied;

/// A return type that can express a denial. A function with `#[limit(…)]` needs one, unless the attribute has `denied`
/// or  `fallback`.
///
/// A [`Result`] implements it if its error implements `From<Denied>`. Your own types can too:
///
/// ```
/// use sluicegate::{Denied, limit};
/// use sluicegate::error::FromDenied;
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
    message = "`{Self}` can't express a denial",
    label = "what does a denied call return?",
    note = "return `Result<T, E>` where `E: From<sluicegate::Denied>`: a denied call returns `Err(E::from(denied))`",
    note = "or add `fallback = path` to the attribute: a function to call instead",
    note = "or add `denied = expression` to the attribute: the value to return instead"
)]
pub trait FromDenied: Sized {
    /// Returns the value for a denied call.
    fn from_denied(denied: Denied) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Denied>> FromDenied for Result<T, E> {
    fn from_denied(denied: Denied) -> Self {
        Err(E::from(denied))
    }
}
