//! Hexadecimal escapes.

/// Returns the byte with these two hexadecimal digits.
pub(crate) fn byte_of([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}
