//! The cost of operators' tools, and the time that an override takes to reach a fleet.

mod fleet;
mod paced;
mod written;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{pin_thread, unpin_thread};
use crate::measure::Session;

/// Measures the goals of operators' tools.
pub fn measure(session: &mut Session) {
    pin_thread(1);
    written::measure(session);
    session.goal("stream-cpu", paced::stream);
    unpin_thread();
    fleet::measure(session);
}

/// Sends a request, and returns the body of its answer, which must have the status 200.
fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    reader.read_line(&mut status)?;
    let mut answer = String::new();
    reader.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has no end of its fields")?;
    ensure!(status.contains(" 200"), "{method} {path} is answered by {} {body}", status.trim());
    Ok(body.to_owned())
}
