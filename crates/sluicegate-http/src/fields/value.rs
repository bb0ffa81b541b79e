//! Builds the header values of one response, in a buffer that they share.

use std::cell::RefCell;

use bytes::BytesMut;
use http::header::HeaderValue;

/// The size of the buffer: enough for about 80 values.
const BUFFER_BYTES: usize = 4 * 1024;

thread_local! {
    /// The buffer that values are slices of. When it is full, it is reused without an allocation if
    /// all its values are dropped, and otherwise replaced by a new one.
    static BUFFER: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BUFFER_BYTES));
}

/// Reserves memory for all values of one response. Otherwise its first values could keep a full
/// buffer from being reused for its last.
pub(super) fn reserve(bytes: usize) {
    // An ending thread has no buffer, so there is nothing to reserve.
    let _ = BUFFER.try_with(|buffer| {
        if let Ok(mut buffer) = buffer.try_borrow_mut() {
            buffer.reserve(bytes.min(BUFFER_BYTES));
        }
    });
}

/// Appends the digits of a number.
pub(super) fn write_number(text: &mut BytesMut, number: u64) {
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Formats a number as a value.
pub(super) fn number_value(number: u64) -> HeaderValue {
    build_value(|text| write_number(text, number))
}

/// Builds the value that `write` appends to the buffer. It must be valid: names of policies, digits
/// and punctuation always are.
pub(super) fn build_value(write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
    let mut write = Some(write);
    let shared = BUFFER.try_with(|buffer| {
        let mut buffer = buffer.try_borrow_mut().ok()?;
        Some(write_into(&mut buffer, write.take()?))
    });
    match (shared, write) {
        (Ok(Some(value)), _) => value,
        // The thread is ending.
        (_, Some(write)) => write_into(&mut BytesMut::new(), write),
        (_, None) => HeaderValue::from_static(""),
    }
}

fn write_into(buffer: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
    // If `write` panicked last time, part of its value is left.
    buffer.clear();
    write(buffer);
    let value = HeaderValue::from_maybe_shared(buffer.split().freeze());
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(value: &str) -> HeaderValue {
        build_value(|text| text.extend_from_slice(value.as_bytes()))
    }

    #[test]
    fn values_stay_when_the_buffer_is_full() {
        let values: Vec<HeaderValue> =
            (0..5_000).map(|number| build_value(|text| write_number(text, number))).collect();
        for (number, value) in values.iter().enumerate() {
            assert_eq!(value, &number.to_string());
        }
    }

    #[test]
    fn a_value_longer_than_the_buffer_is_whole() {
        let long = "x".repeat(3 * BUFFER_BYTES);
        assert_eq!(of_text(&long), long);
        assert_eq!(of_text("short"), "short");
    }

    #[test]
    fn nothing_is_left_of_a_value_that_was_not_finished() {
        let failed = std::panic::catch_unwind(|| {
            build_value(|text| {
                text.extend_from_slice(b"half");
                panic!("in the middle");
            })
        });
        assert!(failed.is_err());
        assert_eq!(of_text("whole"), "whole");
        assert_eq!(of_text("no\nvalue"), "");
    }
}
