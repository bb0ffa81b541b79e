//! The names of the options, and errors about them.

use syn::{Error, Ident};

use crate::key::is_builtin;

/// Every option with an example of it.
const OPTIONS: [(&str, &str); 21] = [
    ("policies", "`policies = [\"gcra 5/s\", \"fixed_window 1000/d\"]`"),
    ("name", "`name = \"login\"`"),
    ("ban", "`ban = \"5/1min for 15min\"`"),
    ("on_expiry", "`on_expiry = \"return\"`"),
    ("key", "`key = ip` or `key = \"{user.id}\"`"),
    ("missing", "`missing = refuse`"),
    ("cost", "`cost = items.len()` or `cost(\"policy\") = items.len()`"),
    ("skip_if", "`skip_if = user.is_internal`"),
    ("shadow", "`shadow`, without a value"),
    ("wait", "`wait = \"500ms\"`"),
    ("priority", "`priority = if is_batch { 1 } else { 0 }`"),
    ("fallback", "`fallback = path` or `fallback(args) = path`"),
    ("denied", "`denied = None`"),
    ("on_error", "`on_error = [path]` or `on_error(args) = [path]`"),
    ("charge_if", "`charge_if = |result| result.is_err()`"),
    ("refund_if", "`refund_if = |result| result.is_ok()`"),
    ("pause_on", "`pause_on = |result| result.as_ref().err()?.retry_after`"),
    ("hold", "`hold = \"60s\"`"),
    ("settle", "`settle = |result| [(\"tokens\", result.tokens)]`"),
    ("registry", "`registry = self.limits`"),
    ("crate", "`crate = shop::sluicegate`"),
];

pub(super) fn is_known(word: &str) -> bool {
    OPTIONS.iter().any(|(known, _)| *known == word)
}

/// Returns the error for an option that ends with its `=`.
pub(super) fn missing_value(option: &Ident) -> Error {
    Error::new(
        option.span(),
        format!("missing value after `{option} =`: write {}", example(option)),
    )
}

/// Returns the error for an option in another form than its own.
pub(super) fn usage(option: &Ident) -> Error {
    Error::new(option.span(), format!("write {}", example(option)))
}

fn example(option: &Ident) -> &'static str {
    OPTIONS.iter().find(|(known, _)| option == known).map_or("", |(_, example)| example)
}

/// Words that belong in a policy, and the names of its numbers in other limiters.
const POLICY_WORDS: [&str; 10] =
    ["burst", "capacity", "limit", "max", "per", "period", "queue", "rate", "slices", "window"];

/// Returns the error for an unknown option. `is_alone` means that no value follows it.
pub(super) fn unknown(option: &Ident, is_alone: bool) -> Error {
    let word = option.to_string();
    if is_builtin(&word) {
        return Error::new(option.span(), format!("`{word}` is a key: write `key = {word}`"));
    }
    let near = OPTIONS
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(known, &word), *known))
        .filter(|(distance, known)| {
            // Words of three letters are all close to each other.
            let most = if word.len() <= 3 { 1 } else { 2.max(known.len() / 3) };
            *distance <= most || known.starts_with(&format!("{word}_"))
        })
        .min();
    let hint = match near {
        _ if POLICY_WORDS.contains(&word.as_str()) => {
            "write numbers in the policy, `#[limit(\"token_bucket 10/s burst 20\")]`".to_owned()
        }
        Some((_, known)) => format!("did you mean `{known}`?"),
        None if is_alone => {
            format!("to name a limit, write a string: `#[limit(\"{word}\")]`")
        }
        None => {
            let known: Vec<_> = OPTIONS.iter().map(|(known, _)| *known).collect();
            format!("the options are {}", known.join(", "))
        }
    };
    Error::new(option.span(), format!("unknown option `{word}`: {hint}"))
}
