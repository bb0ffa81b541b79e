//! Helpers that the middleware tests of all frameworks share. Limits have a manual clock, and a
//! client visits a site over a real socket.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sluicegate::http::KeyExpression;
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Caller, Config, Gate, MemoryStore, Registry};

/// Limits in an embedded store whose clock stands still.
pub(crate) struct Limits {
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<ManualClock>,
}

impl Limits {
    /// Opens the limits of a configuration.
    pub(crate) fn of(config: &str) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let config = Config::parse(config, "limits.yaml").unwrap_or_else(|e| panic!("{e}"));
        Self { registry: Registry::builder(store).config(&config).build(), clock }
    }

    /// Opens one limit, called `api`.
    pub(crate) fn with(policies: &str) -> Self {
        Self::of(&format!("limits: {{api: {{policies: [{policies}]}}}}"))
    }

    pub(crate) fn gate(&self, name: &str) -> Gate {
        self.registry.gate(name)
    }

    pub(crate) fn api(&self) -> Gate {
        self.gate("api")
    }

    /// Returns the remaining units of a key.
    pub(crate) fn left(&self, limit: &str, key: &str) -> u64 {
        now(self.gate(limit).peek(key)).unwrap().remaining().unwrap()
    }

    /// Waits until a key has that many units left.
    pub(crate) async fn until_left(&self, limit: &str, key: &str, units: u64) {
        sluicegate_testkit::wait::until_async("units to be given back", async || {
            let left = self.left(limit, key);
            if left == units { Ok(()) } else { Err(left) }
        })
        .await;
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Answers with a fixed text.
pub(crate) async fn hello() -> &'static str {
    "hello"
}

/// Answers with the address and the user of the caller.
pub(crate) async fn who() -> String {
    // The caller is still known after an await.
    tokio::task::yield_now().await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let caller = Caller::current();
    let ip = caller.ip().map(|key| text(key.as_bytes()));
    format!("{ip:?} {:?}", caller.user().map(|user| text(user.as_bytes())))
}

pub(crate) fn key(expression: &str) -> KeyExpression {
    expression.parse().unwrap()
}

/// Returns the output of a future that is ready immediately.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Waker};
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// A client of one site.
#[derive(Clone)]
pub(crate) struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    site: SocketAddr,
}

impl Client {
    pub(crate) fn of(site: SocketAddr) -> Self {
        Self::from_address([127, 0, 0, 1].into(), site)
    }

    /// Makes a client with another address: all of 127.0.0.0/8 belong to this machine.
    pub(crate) fn from_address(address: IpAddr, site: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(address));
        Self { http: HttpClient::builder(TokioExecutor::new()).build(connector), site }
    }

    pub(crate) fn at(&self, address: [u8; 4]) -> Self {
        Self::from_address(address.into(), self.site)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send("GET", path, fields).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.try_send(method, path, fields).await.unwrap()
    }

    /// Sends a request. The error is that of the connection, such as when the server's end panicked.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Reply, hyper_util::client::legacy::Error> {
        let mut request =
            http::Request::builder().method(method).uri(format!("http://{}{path}", self.site));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, body) =
            self.http.request(request.body(Full::default()).unwrap()).await?.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Visits a path that many times, and returns the statuses.
    pub(crate) async fn statuses(&self, path: &str, visits: usize) -> Vec<u16> {
        let mut statuses = Vec::with_capacity(visits);
        for _ in 0..visits {
            statuses.push(self.get(path).await.status);
        }
        statuses
    }
}

/// A connection whose response is read piece by piece, and which can be dropped before its end.
pub(crate) struct Connection(tokio::net::TcpStream);

impl Client {
    /// Sends a request without reading the response.
    pub(crate) async fn open(&self, path: &str) -> Connection {
        let stream = tokio::net::TcpStream::connect(self.site).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.site);
        stream.writable().await.unwrap();
        assert_eq!(stream.try_write(request.as_bytes()).unwrap(), request.len());
        Connection(stream)
    }
}

impl Connection {
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

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    /// Returns the value of a field, with several lines joined by commas.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let lines: Vec<_> =
            self.headers.get_all(name).iter().map(|line| line.to_str().unwrap()).collect();
        if lines.is_empty() { None } else { Some(lines.join(", ")) }
    }

    /// Returns the fields about limits.
    pub(crate) fn limit_fields(&self) -> Vec<(String, String)> {
        let is_told = |name: &str| name.contains("ratelimit") || name == "retry-after";
        let mut fields: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| is_told(name.as_str()))
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        fields.sort();
        fields
    }
}
