//! The attribute `#[limit(…)]` of Sluicegate. It is used through the crate `sluicegate`, which
//! re-exports it and has what its expansion calls.

mod attribute;
mod emit;
mod expand;
mod function;
mod key;
mod limit_source;
mod output;
mod stack;
mod syntax;
mod template;

use proc_macro::TokenStream;

/// Asks a limit before a function runs.
///
/// ```
/// use sluicegate::{Denied, limit};
///
/// struct User {
///     id: u64,
/// }
///
/// #[limit("gcra 10/s", key = ip)]
/// #[limit("token_bucket 5/min burst 1", name = "sms", key = "{user.id}:{phone}")]
/// fn send_code(user: &User, phone: &str) -> Result<u16, Denied> {
///     Ok(1234)
/// }
///
/// let alice = User { id: 7 };
/// assert_eq!(send_code(&alice, "555")?, 1234);
/// let denied = send_code(&alice, "555").unwrap_err();
/// assert_eq!(denied.to_string(), "limit `sms` is exhausted: retry in 12 s");
/// assert!(send_code(&alice, "556").is_ok());
/// # Ok::<(), Denied>(())
/// ```
///
/// It goes onto functions, async functions, methods, methods of trait implementations and whole
/// `impl` blocks, where a method's own attribute wins and `#[limit(skip)]` exempts a method.
/// Several attributes on one function are one decision: all of them allow, or nothing is charged.
///
/// | written | meaning |
/// | --- | --- |
/// | `"login"` | the limit of that name, of the installed registry |
/// | `"gcra 5/min"`, `policies = ["…", "…"]` | policies of its own |
/// | `name = "…"` | the name of such a limit; without one it is the function's path |
/// | `key = method` | one key for all calls of the function: the default |
/// | `key = ip`, `key = user` | whom the code runs for: `sluicegate::Caller` |
/// | `key = "{user.id}:{phone}"` | text over the arguments; different parts never make one key |
/// | `key = expression` | a value, or a tuple of values |
/// | `missing = shared` | calls without a key share one; `refuse` denies them, `skip` doesn't ask |
/// | `cost = expression` | units taken; `cost("policy") = expression` of one policy |
/// | `skip_if = expression` | nothing is asked if that is true |
/// | `shadow` | asks and reports, never refuses |
/// | `wait = "500ms"` | waits for its turn at most that long |
/// | `charge_if = predicate` | charged only if the result is such: <code>\|result\| result.is_err()</code> |
/// | `fallback = path` | is called instead of a denied call; `fallback(args) = path` with the arguments |
/// | `denied = expression` | what a denied call returns |
/// | `on_error = [path, …]` | asked in turn when the store failed; `on_error(args)` with the arguments |
/// | `registry = expression` | asked instead of the installed registry |
/// | `crate = path` | where the crate `sluicegate` is found |
///
/// Without `fallback` and `denied` a denied call returns `Err(E::from(denied))`, with a
/// `sluicegate::Denied`.
///
/// The guide, `docs/attribute.md` of the project, has an example of each.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::limit(arguments.into(), item.into()).into()
}
