//! The deadline that a gRPC call brings.

use std::time::Duration;

use tonic::Status;
use tonic::metadata::MetadataMap;

/// Awaits a decision for as long as the call's `grpc-timeout` allows.
///
/// # Errors
/// Returns a status if that time has ended.
pub(super) async fn within_call<T>(
    metadata: &MetadataMap,
    deciding: impl Future<Output = T>,
) -> Result<T, Status> {
    match call_timeout(metadata) {
        Some(within) => tokio::time::timeout(within, deciding).await.map_err(|_| {
            Status::deadline_exceeded("the store didn't answer within the call's timeout")
        }),
        None => Ok(deciding.await),
    }
}

/// Returns the time that the field `grpc-timeout` gives the call; `None` if there is none, or a malformed one.
fn call_timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_digits_and_a_unit() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(20))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("5n", Some(Duration::from_nanos(5))),
            ("123456789S", None),
            ("+1S", None),
            ("m", None),
            ("", None),
            ("1ö", None),
        ] {
            let mut metadata = MetadataMap::new();
            if let Ok(value) = text.parse() {
                metadata.insert("grpc-timeout", value);
            }
            assert_eq!(call_timeout(&metadata), expected, "{text}");
        }
    }
}
