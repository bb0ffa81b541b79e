//! A server's own clock, which a test sets.

use std::path::{Path, PathBuf};

use super::error::ServerError;
use super::folder::Folder;

/// Folders of the library: first those of the package `faketime` of Debian and Ubuntu, then those
/// of other systems.
const FOLDERS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/aarch64-linux-gnu/faketime",
    "/usr/lib64/faketime",
    "/usr/lib/faketime",
    "/usr/local/lib/faketime",
];
/// The library for programs with threads.
const LIBRARY: &str = "libfaketimeMT.so.1";

/// A clock that is ahead of the system's or behind it by an offset, which a test can change while a
/// process uses it.
///
/// The process is a server or another process of the test; libfaketime shows it this time. The
/// clock must outlive the processes.
///
/// Valkey works with it. Debian's Redis 7.0 doesn't start: its allocator requests the time before
/// the library is ready, and both wait for each other.
///
/// Only the wall clock is changed, not the monotonic clock. A server's timers continue unchanged,
/// and its keys expire by the changed time.
#[derive(Debug)]
pub struct FakeClock {
    library: PathBuf,
    folder: Folder,
}

impl FakeClock {
    /// Creates a clock that shows the system's time.
    ///
    /// # Errors
    /// Returns an error if the library isn't installed (run `cargo xtask setup`), or if its file
    /// can't be written.
    pub fn new() -> Result<Self, ServerError> {
        let mut files = FOLDERS.iter().map(|folder| Path::new(folder).join(LIBRARY));
        let library = files.find(|file| file.is_file()).ok_or_else(|| ServerError::Start {
            why: format!("there is no {LIBRARY}: run `cargo xtask setup`, or install `faketime`"),
            log: String::new(),
        })?;
        let folder = Folder::new().map_err(ServerError::io("make the clock's folder"))?;
        let clock = Self { library, folder };
        clock.set_offset(0)?;
        Ok(clock)
    }

    /// Sets the offset to the system's clock in seconds; negative means behind. The server
    /// sees it soon, but perhaps not at its next command: wait until its `TIME` shows it.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn set_offset(&self, seconds: i64) -> Result<(), ServerError> {
        let written = self.folder.write("offset", &format!("{seconds:+}\n"));
        written.map(|_| ()).map_err(ServerError::io("write the clock's file"))
    }

    /// Returns the environment variables for a program that uses this clock.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.folder.path().join("offset").display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}
