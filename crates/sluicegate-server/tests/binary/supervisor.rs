//! Tests the messages to systemd, with a socket in its place.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{File, Service, binary};

/// The socket of a supervisor.
struct Supervisor {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Supervisor {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { socket, folder }
    }

    /// Starts a service that reports to this supervisor.
    fn start(&self, mut command: Command) -> Service {
        command.env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        Service::of(command)
    }

    /// Waits for the next message.
    fn next(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).unwrap();
        let message = std::str::from_utf8(&message[..length]).unwrap();
        message.lines().map(str::to_owned).collect()
    }
}

fn serve(args: &[&str]) -> Command {
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
    command
}

/// Returns the monotonic time in µs.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000).unwrap()
}

/// Reads the messages about a reload. Returns the status that follows.
fn reload(supervisor: &Supervisor, service: &Service) -> String {
    let before = monotonic();
    service.signal(Signal::HUP);
    let begin = supervisor.next();
    assert_eq!(begin[0], "RELOADING=1");
    let at: u64 = begin[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
    assert!((before..=monotonic()).contains(&at), "{begin:?}");
    let [ready, status] = &*supervisor.next() else { panic!("no status") };
    assert_eq!(ready, "READY=1");
    status.strip_prefix("STATUS=").unwrap().to_owned()
}

#[test]
fn systemd_learns_of_the_start_each_reload_and_the_stop() {
    let supervisor = Supervisor::new();
    let file = File::new("limits.yaml", "limits: {login: {policies: [gcra 1/h]}}");
    let mut service = supervisor.start(serve(&["--config", file.path(), "--drain", "0s"]));
    assert_eq!(supervisor.next(), ["READY=1", "STATUS=Serving"]);
    assert_eq!(reload(&supervisor, &service), "Serving; the config file is in force");
    file.replace("limits: {login: {policies: [gcra 0]}}");
    assert!(reload(&supervisor, &service).starts_with("Serving by an older configuration"));
    assert_eq!(service.get("/v1/limits").json()["limits"][0]["policies"][0]["spec"], "gcra 1/h");
    service.signal(Signal::TERM);
    let stop = supervisor.next();
    assert_eq!(stop[0], "STOPPING=1");
    assert!(stop[1].starts_with("STATUS=Stopping: clients move"), "{stop:?}");
    assert_eq!(service.wait().0.code(), Some(0));
}

#[test]
fn a_reload_without_a_file_ends_too() {
    let supervisor = Supervisor::new();
    let service = supervisor.start(serve(&[]));
    assert_eq!(supervisor.next()[0], "READY=1");
    assert_eq!(reload(&supervisor, &service), "Serving without a config file");
}

#[cfg(feature = "envoy")]
#[test]
fn the_service_for_envoys_reports_too() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, "domain: shop\n").unwrap();
    let supervisor = Supervisor::new();
    let mut command = binary();
    let free = "127.0.0.1:0";
    command.args(["envoy", "--grpc", free, "--http", free, "--debug", free, "--metrics", free]);
    command.args(["--drain", "0s", "--config"]).arg(folder.path());
    let mut service = supervisor.start(command);
    assert_eq!(supervisor.next()[0], "READY=1");
    assert_eq!(reload(&supervisor, &service), "Serving; the files with rules are in force");
    std::fs::write(&rules, "domain: [").unwrap();
    assert!(reload(&supervisor, &service).starts_with("Serving by older rules"));
    service.signal(Signal::TERM);
    assert_eq!(supervisor.next()[0], "STOPPING=1");
    assert_eq!(service.wait().0.code(), Some(0));
}

#[test]
fn the_watchdog_is_fed_only_while_the_service_works() {
    let supervisor = Supervisor::new();
    let mut command = serve(&[]);
    command.env("WATCHDOG_USEC", "400000");
    let service = supervisor.start(command);
    let begin = monotonic();
    let mut fed = 0;
    while fed < 5 {
        fed += usize::from(supervisor.next() == ["WATCHDOG=1"]);
    }
    assert!(monotonic() - begin >= 600_000, "twice in each interval, and no more often");
    service.signal(Signal::STOP);
    supervisor.socket.set_read_timeout(Some(Duration::from_millis(1_000))).unwrap();
    // One message may be under way.
    let mut message = [0; 64];
    let is_fed = (0..2).all(|_| supervisor.socket.recv(&mut message).is_ok());
    assert!(!is_fed, "it is fed, although the process stands still");
    service.signal(Signal::CONT);
    assert_eq!(supervisor.next(), ["WATCHDOG=1"]);
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let supervisor = Supervisor::new();
    let mut command = serve(&["--drain", "0s"]);
    command.env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let service = supervisor.start(command);
    assert_eq!(supervisor.next()[0], "READY=1");
    service.signal(Signal::TERM);
    assert_eq!(supervisor.next()[0], "STOPPING=1");
}
