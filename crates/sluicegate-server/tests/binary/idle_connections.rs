//! Tests listeners with ten thousand idle connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluicegate_testkit::wait::until;

use crate::http2::{PREFACE, SETTINGS};
use crate::support::Service;

/// The number of connections, unless the system allows a process fewer files.
const MOST: usize = 10_000;
/// Files of a process that aren't connections of the listener: its own, and those of other tests.
const OTHER_FILES: usize = 200;
/// Long enough for a busy machine; only a service that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

const CHECK: &str = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 26\r\n\r\n{\"limit\":\"demo\",\"key\":\"a\"}";

/// A listener, and what its connections have done before they idle.
struct Listener {
    name: &'static str,
    arguments: &'static [&'static str],
    request: Vec<u8>,
    /// The beginning of the answer.
    answer: &'static [u8],
    /// Memory of the service for each connection, in bytes.
    most_memory: u64,
}

impl Listener {
    /// Returns a connection that has been used once.
    fn connect(&self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.ask(&mut stream);
        stream
    }

    fn ask(&self, stream: &mut TcpStream) {
        stream.write_all(&self.request).unwrap();
        // All of an answer arrives together.
        let mut answer = [0; 2_048];
        let length = stream.read(&mut answer).unwrap();
        assert!(
            answer[..length].starts_with(self.answer),
            "{}: {}",
            self.name,
            answer[..length].escape_ascii()
        );
    }
}

/// In one test, because the connections of one listener are most of the files that a process may open.
#[test]
fn ten_thousand_idle_connections_use_bounded_memory_while_others_are_served() {
    let files = raise_file_limit();
    for listener in [
        Listener {
            name: "http",
            arguments: &[],
            request: CHECK.into(),
            answer: b"HTTP/1.1 ",
            most_memory: 40_000,
        },
        Listener {
            name: "grpc",
            arguments: &["--grpc", "127.0.0.1:0"],
            request: [PREFACE, SETTINGS].concat(),
            // The settings of the service.
            answer: &[0, 0],
            most_memory: 40_000,
        },
        #[cfg(feature = "resp")]
        Listener {
            name: "resp",
            arguments: &["--resp", "127.0.0.1:0"],
            request: b"SG.CHECK demo a\r\n".into(),
            answer: b"*4\r\n:",
            most_memory: 12_000,
        },
    ] {
        // The service shares the files that it may open among the listener and that for HTTP.
        let share = if listener.arguments.is_empty() { 1 } else { 2 };
        check(&listener, MOST.min((files - OTHER_FILES) / share));
    }
}

fn check(listener: &Listener, count: usize) {
    let Listener { name, most_memory, .. } = listener;
    let service = Service::start(listener.arguments);
    let (address, before) = (service.address_of(name), service.memory());
    let open = format!("sluicegate_connections{{listener=\"{name}\"}}");
    let is_done = AtomicBool::new(false);
    let idle = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut answers = 0;
            while !is_done.load(Ordering::Relaxed) {
                stream.write_all(CHECK.as_bytes()).unwrap();
                assert!(stream.read(&mut [0; 2_048]).unwrap() > 0);
                answers += 1;
            }
            answers
        });
        let connect = || (0..count / 4).map(|_| listener.connect(address)).collect::<Vec<_>>();
        let connecting = [(); 4].map(|()| scope.spawn(connect));
        let idle: Vec<_> = connecting.map(|it| it.join().unwrap()).into_iter().flatten().collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(other.join().unwrap() > 100, "{name}: another client waits");
        idle
    });
    let each = service.memory().saturating_sub(before) / idle.len() as u64;
    let are_open = service.metric(&open);
    // The other client and this question may have taken places.
    assert!(are_open + 10 >= idle.len() as u64, "{name}: {are_open}");
    assert!(each <= *most_memory, "{name}: {each} bytes for each of {count} connections");
    listener.connect(address);
    drop(idle);
    until("the connections are closed", || {
        let open = service.metric(&open);
        (open < 10).then_some(()).ok_or(open)
    });
}

/// Returns the number of files that this process and those that it starts may open.
fn raise_file_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let files = usize::try_from(maximum.unwrap_or(1 << 20)).unwrap();
    assert!(files >= 10_000, "a process may open {files} files: raise that by `ulimit -Hn`");
    files
}
