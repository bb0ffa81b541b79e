//! The protocols of connections.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The protocol that a connection uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// A protocol of a listener of its own.
    Other,
}

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Protocol {
    /// Finds out the version of HTTP from a connection's first bytes, and returns these too.
    ///
    /// # Errors
    /// Returns an error if the connection fails.
    pub(super) async fn of(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Self, Vec<u8>)> {
        let mut first = Vec::with_capacity(PREFACE.len());
        while first.len() < PREFACE.len() {
            let left = (PREFACE.len() - first.len()) as u64;
            let read = (&mut *stream).take(left).read_buf(&mut first).await?;
            if read == 0 || !PREFACE.starts_with(&first) {
                return Ok((Self::Http1, first));
            }
        }
        Ok((Self::Http2, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_bytes_tell_the_protocol_however_they_arrive() {
        for (sent, expected, read) in [
            (&b""[..], Protocol::Http1, 0),
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Protocol::Http1, 24),
            (b"PR", Protocol::Http1, 2),
            (b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", Protocol::Http1, 24),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore", Protocol::Http2, 24),
        ] {
            let (protocol, first) = Protocol::of(&mut &*sent).await.unwrap();
            assert_eq!((protocol, &*first), (expected, &sent[..read]));
            let mut slow = byte_by_byte(sent);
            let (protocol, first) = Protocol::of(&mut slow).await.unwrap();
            assert_eq!(protocol, expected);
            assert!(sent.starts_with(&first));
        }
    }

    /// Returns a stream that delivers one byte at a time.
    fn byte_by_byte(bytes: &'static [u8]) -> impl AsyncRead + Unpin {
        struct Slow(&'static [u8]);
        impl AsyncRead for Slow {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                if let Some((first, rest)) = self.0.split_first() {
                    buffer.put_slice(&[*first]);
                    self.0 = rest;
                }
                std::task::Poll::Ready(Ok(()))
            }
        }
        Slow(bytes)
    }
}
