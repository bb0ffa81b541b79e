//! Whole numbers in decimal digits.

/// Reads a whole number in decimal digits, with a minus in front if it is negative.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

/// Returns the beginning of bytes that a client sent, for an error.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 64;
    let cut = &bytes[..bytes.len().min(MOST)];
    let text = String::from_utf8_lossy(cut);
    let end = if bytes.len() > MOST { "…" } else { "" };
    format!("{}{end}", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_only() {
        for (text, number) in [("0", 0), ("-1", -1), ("007", 7), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "+1", " 1", "1 ", "1.0", "0x1", "--1", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
