//! Percent escapes in URLs.

/// Decodes text with percent escapes.
///
/// # Errors
/// Returns a message for a `%` without two digits.
pub(crate) fn bytes_of(encoded: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let digits = digit().zip(digit());
                let byte = digits.and_then(|(high, low)| u8::try_from(16 * high + low).ok());
                byte.ok_or("it has a `%` that isn't followed by two digits")?
            }
            byte => byte,
        });
    }
    Ok(bytes)
}

/// Encodes bytes so that they are one segment of a path, one value of a query, or a cursor.
pub(crate) fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                text.push(char::from(*byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_back() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let encoded = percent_encoded(&all);
        assert!(
            encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%-._".contains(&byte))
        );
        assert_eq!(bytes_of(&encoded), Ok(all));
        assert_eq!(bytes_of("a%c3%A9+"), Ok("aé+".into()));
        for wrong in ["%", "%4", "%+4", "%zz"] {
            assert!(bytes_of(wrong).is_err(), "{wrong}");
        }
    }
}
