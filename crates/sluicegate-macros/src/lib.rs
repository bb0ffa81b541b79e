//! The attribute `#[limit(…)]` of Sluicegate. Use it through the crate `sluicegate`, which
//! re-exports it and contains the code that its expansion calls.

#![cfg_attr(docsrs, feature(doc_cfg))]

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

/// Limits how often a function runs: each call checks a limit first.
///
/// ```
/// use sluicegate::{Denied, Limit, limit};
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
/// The attribute applies to functions, async functions, methods, methods of trait implementations
/// and whole `impl` blocks. In a block, a method's own attribute takes precedence, and
/// `#[limit(skip)]` exempts a method. Several attributes on one function make one decision: all of
/// them allow the call, or none is charged.
///
/// | option | meaning |
/// | --- | --- |
/// | `"login"` | the limit of that name in the installed registry |
/// | `"gcra 5/min"`, `policies = ["…", "…"]` | inline policies |
/// | `ban = "5/1min for 15min"` | with inline policies: bans a key for 15 min after 5 denials in 1 min |
/// | `on_expiry = "return"` | with inline policies: held units that are never settled are given back |
/// | `name = "…"` | the name of an inline limit; defaults to the function's path |
/// | `key = method` | one key for all calls of the function (default) |
/// | `key = ip`, `key = user` | the address or user of the current `sluicegate::Caller` |
/// | `key = "{user.id}:{phone}"` | a template over the arguments; different values never make the same key |
/// | `key = expression` | a value, or a tuple of values |
/// | `missing = shared` | calls without a key share one (default); `refuse` denies them, `skip` passes them unchecked |
/// | `cost = expression` | the units to charge (default: the policy's own cost); `cost("policy") = expression` for one policy; then those not named cost nothing without a `cost` |
/// | `skip_if = expression` | passes the call unchecked if the expression is true |
/// | `shadow` | checks and reports, but never denies |
/// | `wait = "500ms"` | waits for a turn, at most this long |
/// | `priority = expression` | the order of waiting calls in a queue: a `u8`, 0 before all others |
/// | `refund_if = predicate` | gives back what the call took if the predicate holds for the result: <code>\|result\| result.is_ok()</code> |
/// | `charge_if = predicate` | charges after the call, and only if the predicate holds for the result: <code>\|result\| result.is_err()</code> |
/// | `pause_on = function` | pauses the key for the time that the function returns for the result, an `Option<Duration>`: <code>\|result\| result.as_ref().err()?.retry_after</code> |
/// | `fallback = path` | a function to call instead of a denied call; `fallback(args) = path` passes the arguments |
/// | `denied = expression` | the value that a denied call returns |
/// | `on_error = [path, …]` | handlers to call in turn if the store fails; `on_error(args)` lends them the arguments |
/// | `registry = expression` | the registry to use instead of the installed one |
/// | `crate = path` | the path of the crate `sluicegate` |
///
/// Without `fallback` or `denied`, a denied call returns `Err(E::from(denied))`, where `denied` is
/// a `sluicegate::Denied`.
///
/// The guide, `docs/attribute.md` in the repository, has an example of each option.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::limit(arguments.into(), item.into()).into()
}
