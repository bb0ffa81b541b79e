//! Starts the binary, speaks plain HTTP to it, and stops it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a busy machine; only a service that hangs gets there.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.env_remove("SLUICEGATE_ADMIN_TOKEN").stdin(Stdio::null());
    command
}

/// What a command left.
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

/// A file that is there as long as the value.
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

    /// Puts another content in its place, whole.
    pub(crate) fn replace(&self, text: &str) {
        let next = self.path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, &self.path).unwrap();
    }
}

/// A running service; it is killed when dropped.
pub(crate) struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    /// Starts `sluicegate serve` on a free port of the loopback address.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", args)
    }

    pub(crate) fn start_on(listen: &str, args: &[&str]) -> Self {
        let mut child = binary()
            .args(["serve", "--listen", listen])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim_end().strip_prefix("listening on http://").and_then(|text| text.parse().ok());
        let mut service = Self { child, address: ([127, 0, 0, 1], 0).into() };
        let mut address: SocketAddr = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        service.address = address;
        service
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.send("POST", path, &[], body.as_ref())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut stream = self.connect();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
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

    /// Whoever read its standard error is gone.
    pub(crate) fn leave_its_log(&mut self) {
        drop(self.child.stderr.take());
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; what it said on standard error comes with it.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut stderr = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), stderr)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
                // The connection may be reset after a refused body; the answer came before.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Self { status, fields, body: body.to_owned() }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error, whose shape is checked on the way.
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
