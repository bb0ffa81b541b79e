//! Starts the binary, speaks plain HTTP to it, and stops it.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::servers::{FakeClock, fresh_prefix};
use tempfile::TempDir;

/// Long enough for a busy machine; only a service that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.env_remove("SLUICEGATE_ADMIN_TOKEN").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Returns the JSON object with `more` fields.
pub(crate) fn with_fields(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Returns the lines of a config file for a store of its own on a server.
pub(crate) fn own_store(url: impl Display) -> String {
    format!("store: \"{url}\"\nredis: {{prefix: \"{}\"}}\n", fresh_prefix("bin"))
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn sluicegate(args: &[&str]) -> Done {
    let output = binary().args(args).output().unwrap();
    Done {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A file that exists as long as the value.
pub(crate) struct File {
    path: PathBuf,
    _folder: TempDir,
}

impl File {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Self { path, _folder: folder }
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Replaces the whole file atomically.
    pub(crate) fn replace(&self, text: &str) {
        let next = self.path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, &self.path).unwrap();
    }
}

/// A running service. It is killed when dropped.
pub(crate) struct Service {
    child: Child,
    /// The address of each listener.
    addresses: HashMap<String, String>,
    /// Standard error before the last listener's line, without those lines.
    said: String,
    stderr: Option<BufReader<ChildStderr>>,
}

impl Service {
    /// Starts `sluicegate serve` on a free port of the loopback address.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", args)
    }

    pub(crate) fn start_on(listen: &str, args: &[&str]) -> Self {
        let mut command = binary();
        command.args(["serve", "--listen", listen]).args(args);
        Self::of(command)
    }

    /// Starts the service with these environment variables.
    pub(crate) fn start_with(variables: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = binary();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        command.envs(variables.iter().copied());
        Self::of(command)
    }

    /// Starts the service in a process whose wall clock is `clock`. The clock must outlive the
    /// service.
    pub(crate) fn start_with_clock(clock: &FakeClock, args: &[&str]) -> Self {
        let mut command = binary();
        command.envs(clock.environment());
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        Self::of(command)
    }

    /// Starts the service with a limit of open files.
    pub(crate) fn start_with_files(files: usize, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        command.env_remove("SLUICEGATE_ADMIN_TOKEN").stdin(Stdio::null());
        command.args(["-c", &script, env!("CARGO_BIN_EXE_sluicegate")]);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        Self::of(command)
    }

    /// Starts the service on the address in the config file.
    pub(crate) fn start_configured(args: &[&str]) -> Self {
        let mut command = binary();
        command.arg("serve").args(args);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().map(BufReader::new);
        let (addresses, said) = (HashMap::new(), String::new());
        let mut service = Self { child, addresses, said, stderr };
        // Its line is the last one.
        while !service.addresses.contains_key("http") {
            let mut line = String::new();
            let read = service.stderr.as_mut().unwrap().read_line(&mut line).unwrap();
            assert!(read > 0, "the service says no address: {}", service.said);
            match line.trim_end().strip_prefix("listening: ").and_then(|it| it.split_once(' ')) {
                Some((kind, address)) => {
                    service.addresses.insert(kind.to_owned(), address.to_owned());
                }
                None => service.said.push_str(&line),
            }
        }
        service
    }

    /// Returns the address of a listener, as the service says it.
    pub(crate) fn said_address(&self, kind: &str) -> &str {
        let address = self.addresses.get(kind);
        address.unwrap_or_else(|| panic!("it was started without the listener {kind}"))
    }

    /// Returns the address of a listener on this machine.
    pub(crate) fn address_of(&self, kind: &str) -> SocketAddr {
        let mut address: SocketAddr = self.said_address(kind).parse().unwrap();
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        address
    }

    /// Returns the address that answers only health checks.
    pub(crate) fn health(&self) -> SocketAddr {
        self.address_of("health")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address_of("http")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Returns the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.send("POST", path, &[], body.as_ref())
    }

    /// Sends a call about a key, with `more` fields in its body.
    pub(crate) fn call(&self, call: &str, limit: &str, key: &str, more: &Value) -> Reply {
        let body = with_fields(json!({"limit": limit, "key": key}), more);
        self.post(&format!("/v1/{call}"), body.to_string())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut stream = self.connect();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.address()
        );
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A service that refuses a body need not read it.
        let _ = stream.write_all(body);
        Reply::read(&mut stream)
    }

    /// Collects the service's standard error while it runs.
    pub(crate) fn follow_its_log(&mut self) -> Arc<Mutex<String>> {
        let (log, stderr) = (Arc::new(Mutex::new(self.said.clone())), self.stderr.take());
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.unwrap().lines().map_while(Result::ok) {
                written.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        log
    }

    /// Closes the reader of the service's standard error.
    pub(crate) fn leave_its_log(&mut self) {
        drop(self.stderr.take());
    }

    /// Returns the memory that the process uses, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        1024 * line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the service ends. Returns its status and its standard error.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut stderr = self.said.clone();
        self.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), stderr)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The service may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that keeps its connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> std::io::Result<Self> {
        Self::on(TcpStream::connect(address)?)
    }

    pub(crate) fn on(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends bytes, valid or not.
    pub(crate) fn send(&mut self, text: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(text.as_bytes())
    }

    /// Closes the sending side.
    pub(crate) fn finish_sending(&mut self) -> std::io::Result<()> {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write)
    }

    pub(crate) fn get(&mut self, path: &str) -> std::io::Result<Reply> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))?;
        self.reply()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> std::io::Result<Reply> {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        ))?;
        self.reply()
    }

    /// Reads a whole response, or returns an error if there is none.
    pub(crate) fn reply(&mut self) -> std::io::Result<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut reply = Reply::of(&head);
        let length = reply.field("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        reply.body = String::from_utf8(body).unwrap();
        Ok(reply)
    }

    /// Waits until the service closes the connection, ignoring what it sends until then.
    pub(crate) fn wait_until_closed(mut self) {
        match self.stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it isn't closed: {error}"),
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    /// Reads a response to the end of the connection.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                // The connection may be reset after a refused body. By then the answer has been
                // read.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        Self { body: body.to_owned(), ..Self::of(head) }
    }

    fn of(head: &str) -> Self {
        let mut lines = head.trim_end().lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Self { status, fields, body: String::new() }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the error code, and checks the shape of the error.
    #[track_caller]
    pub(crate) fn error_code(&self) -> String {
        let json = self.json();
        let object = json.as_object().unwrap();
        assert_eq!(object.len(), 1, "{self:?}");
        let error = object["error"].as_object().unwrap();
        assert_eq!(error.len(), 2, "{self:?}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{self:?}");
        error["code"].as_str().unwrap().to_owned()
    }
}
