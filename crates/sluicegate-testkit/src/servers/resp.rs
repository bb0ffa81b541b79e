//! A minimal implementation of the Redis protocol (RESP2), so that tests need no client.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum length of a reply; no test needs a longer one. A larger length is garbage, not data.
const LONGEST: usize = 64 << 20;
/// Maximum depth of a reply; no real command has a deeper one.
const DEEPEST: usize = 16;

/// One reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// A short status, such as `OK`.
    Status(String),
    /// An error reply, with its code word first.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// A string of any bytes.
    Bytes(Vec<u8>),
    /// Replies in a row.
    Array(Vec<Reply>),
    /// Nothing: a missing key, for example.
    Nil,
}

impl fmt::Display for Reply {
    /// Writes the reply for people: each member of an array on its own line, `(nil)` for nothing.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) | Self::Error(text) => formatter.write_str(text),
            Self::Integer(number) => number.fmt(formatter),
            Self::Bytes(bytes) => formatter.write_str(&String::from_utf8_lossy(bytes)),
            Self::Array(members) => {
                for (index, member) in members.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    write!(formatter, "{separator}{member}")?;
                }
                Ok(())
            }
            Self::Nil => formatter.write_str("(nil)"),
        }
    }
}

/// A connection to a server on the loopback address or a Unix socket.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects to `port`. Connecting, each write and each read may take up to `patience`, which
    /// must not be zero.
    ///
    /// # Errors
    /// Returns an error if no server accepts within that time.
    pub fn open(port: u16, patience: Duration) -> io::Result<Self> {
        Self::open_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)
    }

    /// Connects to any address; see [`open`](Self::open).
    ///
    /// # Errors
    /// Returns an error if no server accepts within that time.
    pub fn open_at(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(Stream::Tcp(stream)) })
    }

    /// Connects to the Unix socket at this path. Each write and each read may take up to
    /// `patience`, which must not be zero.
    ///
    /// # Errors
    /// Returns an error if no server listens there.
    pub fn open_socket(path: &Path, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream: BufReader::new(Stream::Unix(stream)) })
    }

    /// Sends one command and reads its reply. An error reply is a [`Reply::Error`].
    ///
    /// # Errors
    /// Returns an error if the connection breaks, or if the reply is malformed (`InvalidData`) or
    /// late (`WouldBlock` or `TimedOut`, depending on the system). Then the connection can't be
    /// used any more.
    pub fn command(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends one command. Read its reply with [`receive`](Self::receive); several commands may be
    /// sent first.
    ///
    /// # Errors
    /// Returns an error if the connection breaks or accepts no more data.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    /// Reads the reply of the earliest command without one.
    ///
    /// # Errors
    /// Returns the errors of [`command`](Self::command).
    pub fn receive(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream, 0)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

fn read_reply(stream: &mut impl BufRead, depth: usize) -> io::Result<Reply> {
    let line = read_line(stream)?;
    let Some((kind, text)) = line.split_at_checked(1) else {
        return Err(invalid("an empty line"));
    };
    match kind {
        "+" => Ok(Reply::Status(text.to_owned())),
        "-" => Ok(Reply::Error(text.to_owned())),
        ":" => text.parse().map(Reply::Integer).map_err(|_| invalid(&line)),
        "$" => match read_length(text)? {
            None => Ok(Reply::Nil),
            Some(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes)?;
                if !bytes.ends_with(b"\r\n") {
                    return Err(invalid("a string without its end"));
                }
                bytes.truncate(length);
                Ok(Reply::Bytes(bytes))
            }
        },
        "*" if depth < DEEPEST => match read_length(text)? {
            None => Ok(Reply::Nil),
            Some(length) => {
                let members = (0..length).map(|_| read_reply(stream, depth + 1));
                members.collect::<io::Result<_>>().map(Reply::Array)
            }
        },
        _ => Err(invalid(&line)),
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.take(LONGEST as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = line.strip_suffix(b"\r\n").ok_or_else(|| invalid("a line without its end"))?;
    String::from_utf8(text.to_vec()).map_err(|_| invalid("a line that is not UTF-8"))
}

/// Parses a length; −1 is `None`, which means nil.
fn read_length(text: &str) -> io::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    match text.parse() {
        Ok(length) if length <= LONGEST => Ok(Some(length)),
        _ => Err(invalid(&format!("the length {text}"))),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a server's reply: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(mut bytes: &[u8]) -> io::Result<Reply> {
        read_reply(&mut bytes, 0)
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let bytes = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n";
        let expected = vec![
            Reply::Status("OK".to_owned()),
            Reply::Error("ERR no".to_owned()),
            Reply::Integer(-7),
            Reply::Bytes(b"a\r\nb".to_vec()),
            Reply::Nil,
            Reply::Nil,
        ];
        assert_eq!(parse(bytes).unwrap(), Reply::Array(expected));
    }

    #[test]
    fn garbage_is_an_error_and_never_a_reply() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"+OK\n",
            b":seven\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"$1\r\nabc\r\n",
            b"+\xff\r\n",
            &b"*1\r\n".repeat(100),
        ] {
            let error = parse(bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        assert_eq!(parse(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn replies_print_the_way_people_read_them() {
        let reply = parse(b"*3\r\n$2\r\nhi\r\n:3\r\n$-1\r\n").unwrap();
        assert_eq!(reply.to_string(), "hi\n3\n(nil)");
    }
}
