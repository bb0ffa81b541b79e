//! A client with many connections, each with one request in flight. It does less than a library, so that it keeps any
//! service busy.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};

use super::answer::Answer;

/// The number of connections.
const CONNECTIONS: usize = 64;

/// A client of one service.
pub struct Client(Vec<Connection>);

impl Client {
    /// Connects to a service. An awake client never sleeps.
    ///
    /// Otherwise a service that is slower than its client also pays for waking it. A client on another machine doesn't
    /// cost that.
    pub fn connect(address: SocketAddr, is_awake: bool) -> Result<Self> {
        let connect = |_| Connection::open(address, is_awake);
        Ok(Self((0..CONNECTIONS).map(connect).collect::<Result<_>>()?))
    }

    /// Sends one request, and calls `read` with its answer.
    pub fn ask<T>(&mut self, request: &[u8], read: impl FnOnce(Answer<'_>) -> T) -> Result<T> {
        self.0[0].send(request)?;
        self.0[0].receive(read)
    }

    /// Sends requests on all connections in turn. Each must pass.
    pub fn run(&mut self, requests: &[Vec<u8>], count: usize) -> Result<()> {
        let request = |number: usize| &requests[number % requests.len()];
        let connections = self.0.len();
        for number in 0..count + connections {
            let connection = &mut self.0[number % connections];
            if number >= connections {
                connection.receive(|answer| {
                    ensure!(answer.passes(), "a request was denied: {answer}");
                    Ok(())
                })??;
            }
            if number < count {
                connection.send(request(number))?;
            }
        }
        Ok(())
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr, is_awake: bool) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(is_awake)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request, which fits the buffer of an idle connection.
    fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request)?)
    }

    fn receive<T>(&mut self, read: impl FnOnce(Answer<'_>) -> T) -> Result<T> {
        self.buffer.clear();
        loop {
            let mut part = [0; 4096];
            match self.stream.read(&mut part) {
                Ok(0) => bail!("the service closed a connection"),
                Ok(length) => self.buffer.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(answer) = Answer::read(&self.buffer)? {
                return Ok(read(answer));
            }
        }
    }
}
