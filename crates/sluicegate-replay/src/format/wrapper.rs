//! The prefixes and wrappers that log collectors write around lines.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;

use crate::times::Times;

/// A kind of text around the server's line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Wrapper {
    #[default]
    None,
    /// Header of syslog, RFC 3164 or RFC 5424, with or without its priority.
    Syslog,
    /// Docker's driver `json-file`: the line is the member `log` of an object.
    Docker,
    /// Prefixes of container runtimes and their commands: `[pod/…] `, `name | `, a time, and the
    /// stream with a tag.
    Container,
}

impl Wrapper {
    /// All wrappers. `None` comes last, because a prefix can look like the name of a virtual host.
    pub(crate) const ALL: [Self; 4] = [Self::Syslog, Self::Docker, Self::Container, Self::None];

    /// Returns the name for messages; empty for `None`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Syslog => "syslog",
            Self::Docker => "docker json-file",
            Self::Container => "container",
        }
    }

    /// Returns the line inside, or `None` if the text doesn't have this wrapper. A line that must
    /// be unescaped is written to `buffer`.
    pub(crate) fn inside<'l>(self, line: &'l [u8], buffer: &'l mut Vec<u8>) -> Option<&'l [u8]> {
        match self {
            Self::None => Some(line),
            Self::Syslog => syslog(line),
            Self::Docker => docker(line, buffer),
            Self::Container => container(line),
        }
    }
}

/// Splits text at the first space.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text)?;
    Some((&text[..end], &text[end + 1..]))
}

fn syslog(line: &[u8]) -> Option<&[u8]> {
    let rest = priority(line).unwrap_or(line);
    if let Some(rest) = rest.strip_prefix(b"1 ") {
        return rfc_5424(rest);
    }
    let (host, rest) = match rest {
        // `Oct 10 13:55:36 HOST TAG: `; the day is padded with a space.
        [_, _, _, b' ', _, _, b' ', _, _, b':', _, _, b':', _, _, b' ', rest @ ..] => word(rest)?,
        _ => {
            let (time, rest) = word(rest)?;
            is_iso(time).then_some(())?;
            word(rest)?
        }
    };
    if host.is_empty() {
        return None;
    }
    let (tag, message) = word(rest)?;
    tag.ends_with(b":").then(|| message.trim_ascii_start())
}

/// Returns the text after a priority such as `<34>`.
fn priority(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"<")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 3 {
        return None;
    }
    rest[digits..].strip_prefix(b">")
}

/// Returns the message after `TIME HOST APP PROCID MSGID STRUCTURED-DATA`.
fn rfc_5424(rest: &[u8]) -> Option<&[u8]> {
    let (time, mut rest) = word(rest)?;
    if time != b"-" && !is_iso(time) {
        return None;
    }
    for _ in 0..4 {
        rest = word(rest)?.1;
    }
    if let Some(rest) = rest.strip_prefix(b"-") {
        return Some(message(rest.strip_prefix(b" ")?));
    }
    let mut is_quoted = false;
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 1,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted && rest.get(at + 1) != Some(&b'[') => {
                return Some(message(rest[at + 1..].strip_prefix(b" ")?));
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns a message without the byte order mark that RFC 5424 puts before UTF-8.
fn message(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

fn is_iso(time: &[u8]) -> bool {
    time.get(10) == Some(&b'T') && Times::default().read(time).is_some()
}

#[derive(Deserialize)]
struct Docker<'l> {
    #[serde(borrow)]
    log: Cow<'l, str>,
    #[serde(borrow, rename = "stream")]
    _stream: Cow<'l, str>,
}

fn docker<'l>(line: &'l [u8], buffer: &'l mut Vec<u8>) -> Option<&'l [u8]> {
    if !line.starts_with(b"{") {
        return None;
    }
    let Docker { log, .. } = serde_json::from_slice(line).ok()?;
    let log: &'l [u8] = match log {
        Cow::Borrowed(log) => log.as_bytes(),
        Cow::Owned(log) => {
            buffer.clear();
            buffer.extend_from_slice(log.as_bytes());
            buffer
        }
    };
    Some(log.trim_ascii_end())
}

fn container(line: &[u8]) -> Option<&[u8]> {
    /// Maximum bytes of a Docker Compose service name.
    const NAME: usize = 100;
    let mut rest = line;
    if rest.starts_with(b"[pod/") {
        let end = memmem::find(rest, b"] ")?;
        rest = &rest[end + 2..];
    } else if let Some(bar) = memmem::find(&rest[..rest.len().min(NAME)], b" | ")
        && !rest[..bar].trim_ascii_end().contains(&b' ')
    {
        rest = &rest[bar + 3..];
    }
    if let Some((time, after)) = word(rest)
        && is_iso(time)
    {
        rest = [&b"stdout F "[..], b"stderr F ", b"stdout P ", b"stderr P "]
            .iter()
            .find_map(|tag| after.strip_prefix(*tag))
            .unwrap_or(after);
    }
    (rest.len() < line.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_inside_is_found() {
        const LINE: &str = "192.0.2.1 - - [x] \"GET\"";
        for (wrapper, before) in [
            (Wrapper::Syslog, "Oct 10 13:55:36 web1 nginx: "),
            (Wrapper::Syslog, "<190>Oct  1 13:55:36 web1 nginx[12]: "),
            (Wrapper::Syslog, "2024-10-10T13:55:36.123456+02:00 web1 haproxy[14389]: "),
            (Wrapper::Syslog, "<165>1 2003-10-11T22:14:15.003Z host app - ID47 - "),
            (Wrapper::Syslog, "1 - host app 1 ID47 [a@1 b=\"c]\\\" \"][d@1] \u{feff}"),
            (Wrapper::Container, "2023-10-06T00:17:09.669794202Z stdout F "),
            (Wrapper::Container, "2023-10-06T00:17:09.669794202Z "),
            (Wrapper::Container, "[pod/web-1/nginx] 2023-10-06T00:17:09Z stderr P "),
            (Wrapper::Container, "[pod/web-1/nginx] "),
            (Wrapper::Container, "web-1  | "),
        ] {
            let line = format!("{before}{LINE}");
            let inside = wrapper.inside(line.as_bytes(), &mut Vec::new()).map(<[u8]>::to_vec);
            assert_eq!(inside.as_deref(), Some(LINE.as_bytes()), "{before}");
        }
        let line = br#"{"log":"192.0.2.1 - - [x] \"GET\"\n","stream":"stdout","time":"x"}"#;
        assert_eq!(Wrapper::Docker.inside(line, &mut Vec::new()), Some(LINE.as_bytes()));
    }

    #[test]
    fn a_line_cut_anywhere_is_a_line_or_none() {
        let line = b"<165>1 2003-10-11T22:14:15.003Z host app - ID47 [a@1 b=\"c\"] text";
        for end in 0..=line.len() {
            for wrapper in Wrapper::ALL {
                let mut buffer = Vec::new();
                let _ = wrapper.inside(&line[..end], &mut buffer);
            }
        }
    }
}
