//! One line of an access log in the common or combined format:
//! `HOST IDENT USER [TIME] "METHOD PATH PROTOCOL" STATUS BYTES "REFERER" "AGENT"`.
//!
//! A line is well formed if it has everything up to the quote that opens the request. The rest may
//! be truncated; missing fields are empty.

use memchr::memchr;

use crate::malformed::Malformed;
use crate::record::{Field, Fields, Record};
use crate::times::Times;

/// The parts of a line that state when the request was made, and the unparsed rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessLine<'l> {
    /// Time of the request, in µs since the epoch.
    pub(crate) time: u64,
    pub(crate) host: &'l [u8],
    pub(crate) user: &'l [u8],
    /// Text after the quote that opens the request.
    rest: &'l [u8],
}

/// The fields after the timestamp; empty if the line is truncated there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Exchange<'l> {
    pub(crate) method: &'l [u8],
    /// Path as logged, with its query.
    pub(crate) path: &'l [u8],
    pub(crate) status: &'l [u8],
    /// User agent; empty in the common format, which has none.
    pub(crate) agent: &'l [u8],
}

impl<'l> AccessLine<'l> {
    pub(crate) fn read(line: &'l [u8], times: &mut Times) -> Result<Self, Malformed> {
        let (host, rest) = word(line);
        if host.is_empty() {
            let is_blank = line.iter().all(u8::is_ascii_whitespace);
            return Err(if is_blank { Malformed::Blank } else { Malformed::NoHost });
        }
        let (ident, rest) = word(skip_space(rest));
        let (user, rest) = word(skip_space(rest));
        if ident.is_empty() || user.is_empty() {
            return Err(Malformed::NoUser);
        }
        let Some((b'[', rest)) = skip_space(rest).split_first() else {
            return Err(Malformed::NoStamp);
        };
        let end = memchr(b']', rest).ok_or(Malformed::Stamp)?;
        let time = times.read(&rest[..end]).ok_or(Malformed::Stamp)?;
        let rest = &rest[end + 1..];
        let Some((b'"', rest)) = skip_space(rest).split_first() else {
            return Err(Malformed::NoQuote);
        };
        Ok(Self { time, host, user, rest })
    }

    /// Returns the line after the name of a virtual host.
    pub(crate) fn after_vhost(line: &'l [u8]) -> Result<&'l [u8], Malformed> {
        let (host, rest) = word(line);
        if host.is_empty() { Err(Malformed::NoHost) } else { Ok(skip_space(rest)) }
    }

    /// Writes the request with the `wanted` texts.
    pub(crate) fn write(&self, record: &mut Record<'l>, wanted: Fields) {
        /// Fields after the timestamp.
        const LATER: [Field; 4] = [Field::Method, Field::Path, Field::Status, Field::Agent];
        record.time = self.time;
        record.set(Field::Host, self.host);
        record.set(Field::User, self.user);
        if wanted.has_any(LATER.into_iter().collect()) {
            let exchange = self.exchange();
            record.set(Field::Method, exchange.method);
            record.set(Field::Path, exchange.path);
            record.set(Field::Status, exchange.status);
            record.set(Field::Agent, exchange.agent);
        }
    }

    /// Returns the fields after the timestamp.
    pub(crate) fn exchange(&self) -> Exchange<'l> {
        let (request, rest) = quoted(self.rest);
        let (method, request) = word(request);
        let (path, _) = word(skip_space(request));
        let (status, rest) = word(skip_space(rest));
        let (_bytes, rest) = word(skip_space(rest));
        let agent = after_quote(rest)
            .and_then(|rest| after_quote(quoted(rest).1))
            .map_or(&[][..], |rest| quoted(rest).0);
        Exchange { method, path, status, agent }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Splits text at the first space, which stays in the rest.
pub(super) fn word(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|&byte| is_space(byte)).unwrap_or(text.len()))
}

pub(super) fn skip_space(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

fn after_quote(text: &[u8]) -> Option<&[u8]> {
    skip_space(text).strip_prefix(b"\"")
}

/// Splits text at the closing quote. Without one, all of the text counts as quoted. Servers write a
/// quote inside as `\"`.
pub(super) fn quoted(text: &[u8]) -> (&[u8], &[u8]) {
    let mut from = 0;
    while let Some(offset) = memchr(b'"', &text[from..]) {
        let quote = from + offset;
        let backslashes = text[..quote].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if backslashes % 2 == 0 {
            return (&text[..quote], &text[quote + 1..]);
        }
        from = quote + 1;
    }
    (text, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<AccessLine<'_>, Malformed> {
        AccessLine::read(line.as_bytes(), &mut Times::default())
    }

    const COMBINED: &str = r#"::1 - alice [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 12 "http://x/" "curl/8 (\"q\")""#;

    #[test]
    fn a_combined_line_has_every_field() {
        let line = read(COMBINED).unwrap();
        assert_eq!(
            (line.time, line.host, line.user),
            (1_431_857_103_000_000, &b"::1"[..], &b"alice"[..])
        );
        let exchange = line.exchange();
        assert_eq!((exchange.method, exchange.path), (&b"GET"[..], &b"/a?b=c"[..]));
        assert_eq!((exchange.status, exchange.agent), (&b"200"[..], &br#"curl/8 (\"q\")"#[..]));
    }

    #[test]
    fn a_line_torn_anywhere_after_the_quote_keeps_what_is_left() {
        let opened = COMBINED.find('"').unwrap() + 1;
        for end in opened..=COMBINED.len() {
            let whole = read(COMBINED).unwrap().exchange();
            let torn = read(&COMBINED[..end]).unwrap().exchange();
            for (whole, torn) in [
                (whole.method, torn.method),
                (whole.path, torn.path),
                (whole.status, torn.status),
                (whole.agent, torn.agent),
            ] {
                assert!(whole.starts_with(torn), "{}", &COMBINED[..end]);
            }
        }
        for end in 0..opened {
            assert!(read(&COMBINED[..end]).is_err(), "{}", &COMBINED[..end]);
        }
    }

    #[test]
    fn a_common_line_has_no_agent() {
        let line = r#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -"#;
        let exchange = read(line).unwrap().exchange();
        assert_eq!((exchange.status, exchange.agent), (&b"304"[..], &b""[..]));
    }

    #[test]
    fn a_malformed_line_says_what_it_lacks() {
        for (line, why) in [
            ("", Malformed::Blank),
            (" \t", Malformed::Blank),
            (r#" h - - [17/May/2015:10:05:03 +0000] ""#, Malformed::NoHost),
            ("h", Malformed::NoUser),
            ("h -", Malformed::NoUser),
            ("h - - ", Malformed::NoStamp),
            (r#"h - [17/May/2015:10:05:03 +0000] "GET""#, Malformed::NoStamp),
            ("h - - [17/May/2015:10:05:03 +0000", Malformed::Stamp),
            ("h - - [17/Mai/2015:10:05:03 +0000] \"", Malformed::Stamp),
            ("h - - [17/May/2015:10:05:03 +0000] GET", Malformed::NoQuote),
        ] {
            assert_eq!(read(line).unwrap_err(), why, "{line}");
        }
    }
}
