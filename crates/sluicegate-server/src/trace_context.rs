//! The trace that a request belongs to.

use std::fmt;

use axum::http::HeaderMap;

/// The trace of a request, as its caller says it: the field `traceparent` of W3C Trace Context.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TraceContext {
    pub(crate) trace_id: TraceId,
    /// The id of the caller's span.
    pub(crate) parent_id: u64,
    /// Whether the caller records the trace.
    pub(crate) is_sampled: bool,
}

/// The id of a trace. It is displayed as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TraceId(pub(crate) u128);

tokio::task_local! {
    /// The trace of the request that this task answers.
    static CURRENT: TraceContext;
}

impl TraceContext {
    /// Reads the trace of a request. Returns `None` without one, or with a field that is malformed or there twice.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all("traceparent").iter();
        let field = fields.next()?;
        if fields.next().is_some() {
            return None;
        }
        Self::parse(field.as_bytes())
    }

    /// Runs a future that answers the request, whose trace is the [current](Self::current) one there.
    pub(crate) fn scope<F: Future>(self, answer: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self, answer)
    }

    /// Runs a function in which the trace is the [current](Self::current) one.
    #[cfg(feature = "otlp")]
    pub(crate) fn sync_scope<T>(self, run: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self, run)
    }

    /// Returns the trace of the request that this task answers.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Returns the trace that this task's request belongs to, if its caller records it.
    pub(crate) fn current_sampled() -> Option<[u8; 16]> {
        let current = Self::current().filter(|current| current.is_sampled)?;
        Some(current.trace_id.0.to_be_bytes())
    }

    /// Parses `00-TRACE-PARENT-FLAGS`. Later versions may have more after the flags.
    fn parse(field: &[u8]) -> Option<Self> {
        /// Length of the field in version 0.
        const LENGTH: usize = 55;
        let (known, rest) = field.split_at_checked(LENGTH)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let part =
                std::str::from_utf8(part).ok().filter(|part| part.bytes().all(|it| is_hex(&it)))?;
            u128::from_str_radix(part, 16).ok()
        };
        let (version, trace_id, parent_id, flags) =
            (number(2)?, number(32)?, number(16)?, number(2)?);
        let is_known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let parent_id = u64::try_from(parent_id).ok()?;
        let is_valid = is_known && trace_id != 0 && parent_id != 0;
        is_valid.then_some(Self {
            trace_id: TraceId(trace_id),
            parent_id,
            is_sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const FIELD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(field: &str) -> Option<TraceContext> {
        TraceContext::parse(field.as_bytes())
    }

    #[test]
    fn a_field_has_a_trace_a_parent_and_flags() {
        let context = parse(FIELD).unwrap();
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((context.parent_id, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        let unsampled = format!("{}00", &FIELD[..53]);
        assert_eq!(parse(&unsampled), Some(TraceContext { is_sampled: false, ..context }));
        let other_flags = format!("{}03", &FIELD[..53]);
        assert_eq!(parse(&other_flags), Some(context));
        let later = FIELD.replacen("00", "cc", 1);
        assert_eq!(parse(&later), Some(context));
        assert_eq!(parse(&format!("{later}-more")), Some(context));
    }

    #[test]
    fn a_malformed_field_is_no_trace() {
        let zero_trace = format!("00-{:032}-00f067aa0ba902b7-01", 0);
        let zero_parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016}-01", 0);
        for field in [
            "",
            "00",
            &FIELD[..54],
            &format!("{FIELD}-more"),
            &format!("{FIELD} "),
            &FIELD.to_uppercase(),
            &FIELD.replacen("00", "ff", 1),
            &FIELD.replacen("00", "cc", 1).replace("-01", "-011"),
            &FIELD.replace('-', "_"),
            &FIELD.replace("4bf9", "+bf9"),
            &FIELD.replace("4bf9", "4b-9"),
            &zero_trace,
            &zero_parent,
            &"é".repeat(40),
        ] {
            assert_eq!(parse(field), None, "{field}");
        }
    }

    #[tokio::test]
    async fn a_request_with_one_field_has_a_trace_while_it_is_answered() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::of(&headers), None);
        headers.append("traceparent", HeaderValue::from_static(FIELD));
        let context = TraceContext::of(&headers).unwrap();
        assert_eq!(TraceContext::current(), None);
        context
            .scope(async {
                assert_eq!(TraceContext::current(), Some(context));
                assert_eq!(
                    TraceContext::current_sampled().map(u128::from_be_bytes),
                    Some(context.trace_id.0)
                );
            })
            .await;
        headers.append("traceparent", HeaderValue::from_static(FIELD));
        assert_eq!(TraceContext::of(&headers), None, "two fields");
    }
}
