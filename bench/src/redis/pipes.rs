//! Four raw connections that keep the server busy.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sluicegate_testkit::servers::Server;

use super::load::{Answer, Load};
use crate::machine::process_nanos;

/// The number of connections.
const CONNECTIONS: usize = 4;
/// Requests in flight on each.
const DEPTH: usize = 32;
/// Requests in flight on all.
pub const AT_ONCE: usize = CONNECTIONS * DEPTH;
/// The time that the server gets to go to sleep: only then the system books its processor time.
const SETTLE: Duration = Duration::from_micros(150);

pub struct Pipes {
    streams: Vec<TcpStream>,
}

impl Pipes {
    pub fn open(server: &Server) -> Result<Self> {
        let open = |_| {
            let stream = TcpStream::connect(("127.0.0.1", server.port()))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            Ok(stream)
        };
        let streams = (0..CONNECTIONS).map(open).collect::<std::io::Result<_>>();
        Ok(Self { streams: streams.context("can't connect to the server")? })
    }

    /// Sends the requests for the keys in order and checks the answers. Returns the µs of the
    /// server's processor time per request.
    pub fn run(&mut self, server: &Server, load: &Load, keys: &[u32]) -> Result<f64> {
        let requests: Vec<Vec<u8>> = keys
            .chunks(DEPTH)
            .map(|keys| keys.iter().flat_map(|&key| load.command(key)).copied().collect())
            .collect();
        let sizes: Vec<usize> = keys.chunks(DEPTH).map(<[u32]>::len).collect();
        let server = server.pid()?;
        settle();
        let before = process_nanos(server)?;
        for (requests, sizes) in requests.chunks(CONNECTIONS).zip(sizes.chunks(CONNECTIONS)) {
            for (stream, request) in self.streams.iter_mut().zip(requests) {
                stream.write_all(request).context("can't send to the server")?;
            }
            for (stream, &size) in self.streams.iter_mut().zip(sizes) {
                read_answers(stream, size, load.answer)?;
            }
        }
        settle();
        Ok((process_nanos(server)? - before) / 1e3 / keys.len() as f64)
    }
}

fn settle() {
    let start = Instant::now();
    while start.elapsed() < SETTLE {
        std::hint::spin_loop();
    }
}

fn read_answers(stream: &mut TcpStream, count: usize, expected: Answer) -> Result<()> {
    let mut bytes = Vec::with_capacity(1 << 14);
    let (mut read, mut position) = (0, 0);
    let mut part = [0; 1 << 14];
    while read < count {
        while let Some((answer, end)) = answer_at(&bytes, position)? {
            ensure!(answer == expected, "a request was {answer:?} that should be {expected:?}");
            (read, position) = (read + 1, end);
        }
        if read < count {
            let length = stream.read(&mut part).context("the server doesn't answer")?;
            ensure!(length > 0, "the server closed the connection");
            bytes.extend_from_slice(&part[..length]);
        }
    }
    ensure!(position == bytes.len(), "the server answers more than it was asked");
    Ok(())
}

/// Returns the verdict of the answer that begins here, and its end. `None` if the answer isn't
/// complete.
fn answer_at(bytes: &[u8], position: usize) -> Result<Option<(Answer, usize)>> {
    let Some((kind, number, after)) = line(bytes, position)? else {
        return Ok(None);
    };
    let verdict = |number| if number == 1 { Answer::Allowed } else { Answer::Denied };
    match kind {
        // The floor's only answer.
        b':' => Ok(Some((verdict(number), after))),
        b'$' => match skip(bytes, position)? {
            Some(end) => Ok(Some((stamped(&bytes[after..end])?, end))),
            None => Ok(None),
        },
        b'*' => match (skip(bytes, after)?, skip(bytes, position)?) {
            // The verdict follows the tag.
            (Some(tag), Some(end)) => match line(bytes, tag)? {
                Some((b':', number, _)) => Ok(Some((verdict(number), end))),
                _ => bail!("the server's answer has no verdict"),
            },
            _ => Ok(None),
        },
        other => bail!("the server answers something of kind `{}`", char::from(other)),
    }
}

/// Returns the verdict of a string: its sign, after the tag and the time.
fn stamped(answer: &[u8]) -> Result<Answer> {
    let sign = answer.iter().skip(4).find(|byte| !byte.is_ascii_digit() && **byte != b' ');
    match sign {
        Some(b'+') => Ok(Answer::Allowed),
        Some(b'-') => Ok(Answer::Denied),
        _ => bail!("the server's answer has no verdict"),
    }
}

/// Returns the end of a value that begins here.
fn skip(bytes: &[u8], position: usize) -> Result<Option<usize>> {
    let Some((kind, number, after)) = line(bytes, position)? else {
        return Ok(None);
    };
    match (kind, usize::try_from(number)) {
        (b'$', Ok(length)) => Ok(Some(after + length + 2).filter(|&end| end <= bytes.len())),
        (b'*', Ok(count)) => {
            let mut end = after;
            for _ in 0..count {
                match skip(bytes, end)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Ok(Some(after)),
    }
}

/// Returns the kind and number of the line that begins here, and its end.
fn line(bytes: &[u8], position: usize) -> Result<Option<(u8, i64, usize)>> {
    let rest = &bytes[position..];
    let Some(length) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&rest[1..length]).context("the server's answer is no text")?;
    if rest[0] == b'-' {
        bail!("the server answers: {text}");
    }
    let number = text.parse().with_context(|| format!("the server answers `{text}`"))?;
    Ok(Some((rest[0], number, position + length + 2)))
}
