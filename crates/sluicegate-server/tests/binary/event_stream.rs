//! Reads the events of `/v1/stream`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::support::{Reply, Service};

/// An open stream of events.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    pub(crate) head: String,
    /// Bytes that were read, but not as an event.
    unread: String,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) text: String,
    pub(crate) data: Value,
}

impl Stream {
    /// Opens a stream with this query.
    pub(crate) fn open(service: &Service, query: &str) -> Self {
        Self::open_with(service, query, "").unwrap_or_else(|reply| panic!("{reply:?}"))
    }

    /// Opens a stream with these lines in the head of the request, or returns why it is refused.
    pub(crate) fn open_with(service: &Service, query: &str, fields: &str) -> Result<Self, Reply> {
        let mut socket = service.connect();
        let host = service.address();
        let head =
            format!("GET /v1/stream?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        socket.write_all(format!("{head}{fields}\r\n").as_bytes()).unwrap();
        let mut start = [0; 12];
        socket.peek(&mut start).unwrap();
        if !start.starts_with(b"HTTP/1.1 200") {
            return Err(Reply::read(&mut socket));
        }
        let mut reader = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        Ok(Self { reader, head: head.to_lowercase(), unread: String::new() })
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
                };
                let text = field("data: ").unwrap();
                let data = serde_json::from_str(&text).unwrap();
                let (name, id) = (field("event: ").unwrap(), field("id: "));
                self.unread = rest.to_owned();
                return Some(Event { name, id, text, data });
            }
            let mut size = String::new();
            self.reader.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            self.unread.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
    }

    /// Returns the next event with this name.
    pub(crate) fn next_named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("it ends without `{name}`"));
            if event.name == name {
                return event;
            }
        }
    }

    /// Returns the first event with this name whose data pass.
    pub(crate) fn until(&mut self, name: &str, passes: impl Fn(&Value) -> bool) -> Value {
        /// Far more events than a test causes.
        const MOST: usize = 60;
        let mut last = Value::Null;
        for _ in 0..MOST {
            last = self.next_named(name).data;
            if passes(&last) {
                return last;
            }
        }
        panic!("no `{name}` passes; the last one: {last}");
    }

    /// Returns the problem with this id once there is one.
    pub(crate) fn problem(&mut self, id: &str) -> Value {
        let find = |now: &Value| {
            let mut problems = now["problems"].as_array().unwrap().iter();
            problems.find(|problem| problem["id"] == id).cloned()
        };
        find(&self.until("now", |now| find(now).is_some())).unwrap()
    }
}
