//! The program behind a proxy.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server that answers every request with 200 and the body `program`. Its threads end with their connections.
pub(super) struct Upstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || serve(stream, &seen));
            }
        });
        Self { address, requests }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the heads of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers the requests of a connection until it ends.
fn serve(stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !stream.read_line(&mut head).is_ok_and(|read| read > 0) {
                return;
            }
        }
        let head = head.replace('\r', "");
        let lengths = head.lines().filter_map(|line| line.split_once(": "));
        let mut length = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.next().map_or(0, |(_, length)| length.parse().unwrap());
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        seen.lock().unwrap().push(head);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nprogram";
        if stream.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}
