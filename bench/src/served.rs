//! A service as a process, whose threads usually all stay on one processor.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::machine::{all_nanos, spawn_on};

/// The processor of services. Their client has another one.
const PROCESSOR: usize = 0;

/// A service, which ends when this value is dropped.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
    _folder: Folder,
}

impl Served {
    /// Starts a service on its processor, and waits until it accepts connections. `command` makes its command, with this
    /// address and a folder for its files.
    pub fn start(command: impl FnOnce(SocketAddr, &Path) -> Result<Command>) -> Result<Self> {
        Self::spawn(command, |command| spawn_on(command, PROCESSOR))
    }

    /// Starts a service like [`Served::start`], on all processors.
    pub fn start_anywhere(
        command: impl FnOnce(SocketAddr, &Path) -> Result<Command>,
    ) -> Result<Self> {
        Self::spawn(command, Command::spawn)
    }

    fn spawn(
        command: impl FnOnce(SocketAddr, &Path) -> Result<Command>,
        spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    ) -> Result<Self> {
        let (address, folder) = (free_address()?, Folder::new()?);
        let mut command = command(address, &folder.0)?;
        let log = folder.0.join("log");
        let file = File::create(&log).context("can't write the log of a service")?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = spawn(&mut command).context("can't start a service")?;
        let mut served = Self { child, address, _folder: folder };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = served.child.try_wait()?;
            if ended.is_some() || start.elapsed() > Duration::from_secs(20) {
                let log = fs::read_to_string(&log).unwrap_or_default();
                bail!("a service doesn't listen ({ended:?}): {}", log.trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time of the service, in ns.
    pub fn nanos(&self) -> Result<f64> {
        all_nanos(self.child.id())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an address whose port is free.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("can't listen")?;
    Ok(listener.local_addr()?)
}

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluicegate-bench-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
