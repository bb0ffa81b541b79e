//! Programs and routers on real sockets, a client that visits them, and limits with a manual clock.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sluicegate::store::Span;
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use tokio::net::{TcpListener, TcpStream};

/// A program that runs until the test ends.
pub(crate) struct Server {
    process: Child,
    site: Site,
}

impl Server {
    /// Starts a program, and reads its address from its output.
    pub(crate) fn start(program: &str) -> Self {
        Self::run(Command::new(program).env_remove("STORE"))
    }

    /// Starts a program whose limits are in this store.
    pub(crate) fn start_on(program: &str, store: &str) -> Self {
        Self::run(Command::new(program).env("STORE", store))
    }

    fn run(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("it said {line:?}")).to_owned();
        Self { process, site: Site { url } }
    }
}

impl Deref for Server {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of a program or router.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) url: String,
}

impl Site {
    /// Serves a router, with the addresses of its peers, while the test runs.
    pub(crate) async fn of(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { url }
    }

    pub(crate) async fn get(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send("GET", path, fields, "").await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.send_from([127, 0, 0, 1], method, path, fields, body).await
    }

    /// Sends a request from another address: all of 127.0.0.0/8 belong to this machine.
    pub(crate) async fn send_from(
        &self,
        address: [u8; 4],
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let url = format!("{}{path}", self.url);
        let mut request = http::Request::builder().method(method).uri(url);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.as_bytes().to_vec())).unwrap();
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(address.into()));
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let (parts, body) = client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // Join several lines, because each limit may add one.
        let field = |name: &str| {
            let lines = parts.headers.get_all(name).iter().map(|line| line.to_str().unwrap());
            lines.map(str::to_owned).reduce(|all, line| all + ", " + &line)
        };
        Reply {
            status: parts.status.as_u16(),
            limits: field("ratelimit"),
            retry: field("retry-after").map(|seconds| seconds.parse().unwrap()),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Sends the head of a request and a part of its body, without reading the response.
    pub(crate) async fn open(&self, head: &str, body: &[u8]) -> Connection {
        let address = self.url.trim_start_matches("http://");
        let mut connection = Connection(TcpStream::connect(address).await.unwrap());
        let (first, fields) = head.split_once('\n').unwrap_or((head, ""));
        let fields = fields.replace('\n', "\r\n");
        let fields = if fields.is_empty() { fields } else { fields + "\r\n" };
        let head = format!("{first} HTTP/1.1\r\nhost: {address}\r\n{fields}\r\n");
        connection.write(head.as_bytes()).await;
        connection.write(body).await;
        connection
    }
}

/// A connection that is written and read piece by piece, and can be dropped before its end.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.0.writable().await.unwrap();
            match self.0.try_write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads until this text arrives.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        loop {
            let so_far = String::from_utf8_lossy(&read).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            self.0.readable().await.unwrap();
            let mut piece = [0; 1_024];
            match self.0.try_read(&mut piece) {
                Ok(0) => panic!("it ended after {so_far:?}"),
                Ok(length) => read.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) limits: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) body: String,
}

/// The limits of a file.
pub(crate) struct Limits {
    pub(crate) registry: Registry,
    clock: Arc<ManualClock>,
}

impl Limits {
    /// Opens the limits in an embedded store whose clock stands still.
    pub(crate) fn of(file: &str) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let config = Config::parse(file, "limits.yaml").unwrap_or_else(|error| panic!("{error}"));
        Self { registry: Registry::builder(store).config(&config).build(), clock }
    }

    /// Opens the limits in a store that other programs use too.
    pub(crate) fn on(store: &str, file: &str) -> Self {
        let mut config = Config::parse(file, "limits.yaml").unwrap();
        config.store = store.parse().unwrap();
        for limit in &mut config.limits {
            Arc::make_mut(limit).deadline = Some(Duration::from_secs(5));
        }
        Self { registry: Registry::open(&config).unwrap(), clock: Arc::default() }
    }

    pub(crate) fn pass(&self, time: &str) {
        self.clock.advance(time.parse::<Span>().unwrap().into());
    }

    pub(crate) async fn reset(&self, limit: &str, key: &str) {
        assert!(self.registry.gate(limit).reset(key).await.unwrap().is_allowed());
    }

    /// Returns the remaining units of a key under each policy of a limit.
    pub(crate) async fn left(&self, limit: &str, key: &str) -> Vec<u64> {
        let seen = self.registry.gate(limit).peek(key).await.unwrap();
        seen.policies().map(|policy| policy.remaining().unwrap()).collect()
    }

    /// Waits until a key has these units left.
    pub(crate) async fn until_left(&self, limit: &str, key: &str, units: &[u64]) {
        sluicegate_testkit::wait::until_async("units to be given back", async || {
            let left = self.left(limit, key).await;
            if left == units { Ok(()) } else { Err(left) }
        })
        .await;
    }
}
