//! Quoting untrusted text in messages.

/// Escapes each character of `text` that a terminal would interpret or not show.
///
/// Messages use it to quote untrusted input.
///
/// ```
/// assert_eq!(sluicegate_core::printable("a\u{1b}[2J\n'é'"), r"a\u{1b}[2J\n'é'");
/// ```
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}
