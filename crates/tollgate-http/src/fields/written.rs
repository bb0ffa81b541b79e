//! Values that are made for one response.

use std::cell::RefCell;
use std::fmt;

use bytes::BytesMut;
use http::header::HeaderValue;

/// Some eighty values fit.
const BUFFER_BYTES: usize = 4 * 1024;

thread_local! {
    /// Values are written one after another into a buffer that they share. When it is full and
    /// its values are gone with their responses, it is used again: so nothing is allocated.
    static BUFFER: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BUFFER_BYTES));
}

/// A value of names of policies, digits and what stands between them: always a lawful one.
pub(super) fn written(write: impl FnOnce(&mut BytesMut) -> fmt::Result) -> HeaderValue {
    let mut write = Some(write);
    let shared = BUFFER.try_with(|buffer| {
        let mut buffer = buffer.try_borrow_mut().ok()?;
        Some(write_into(&mut buffer, write.take()?))
    });
    match (shared, write) {
        (Ok(Some(value)), _) => value,
        // The thread is about to end.
        (_, Some(write)) => write_into(&mut BytesMut::new(), write),
        (_, None) => HeaderValue::from_static(""),
    }
}

fn write_into(
    buffer: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> fmt::Result,
) -> HeaderValue {
    // Of a value whose writing ended in a panic.
    buffer.clear();
    let is_whole = write(buffer).is_ok();
    let value = buffer.split().freeze();
    let value = if is_whole { HeaderValue::from_maybe_shared(value).ok() } else { None };
    value.unwrap_or_else(|| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn values_stay_when_the_buffer_is_full() {
        let values: Vec<HeaderValue> =
            (0..5_000).map(|number| written(|text| write!(text, "value {number}"))).collect();
        for (number, value) in values.iter().enumerate() {
            assert_eq!(value, &format!("value {number}"));
        }
    }

    #[test]
    fn a_value_longer_than_the_buffer_is_whole() {
        let long = "x".repeat(3 * BUFFER_BYTES);
        assert_eq!(written(|text| text.write_str(&long)), long);
        assert_eq!(written(|text| text.write_str("short")), "short");
    }

    #[test]
    fn nothing_is_left_of_a_value_that_was_not_finished() {
        let failed = std::panic::catch_unwind(|| {
            written(|text| {
                text.write_str("half")?;
                panic!("in the middle");
            })
        });
        assert!(failed.is_err());
        assert_eq!(written(|text| text.write_str("whole")), "whole");
        assert_eq!(written(|_| Err(fmt::Error)), "");
    }
}
