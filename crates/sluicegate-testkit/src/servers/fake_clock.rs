//! A server's own clock, which a test sets.

use std::path::{Path, PathBuf};

use super::error::ServerError;
use super::folder::Folder;

/// Where the package `faketime` of Debian and Ubuntu puts the library; other systems put it beside.
const FOLDERS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/aarch64-linux-gnu/faketime",
    "/usr/lib64/faketime",
    "/usr/lib/faketime",
    "/usr/local/lib/faketime",
];
/// The one for programs with threads.
const LIBRARY: &str = "libfaketimeMT.so.1";

/// A clock that is ahead of the system's or behind it, by as much as a test says while a server, or
/// another process of the test, runs by it (libfaketime). It must outlive them.
///
/// Valkey runs by it. Debian's Redis 7.0 does not start: its allocator asks for the time before
/// the library is ready, and both wait for each other.
///
/// Only what people call the time is changed, not the clock that measures how long things take: a
/// server's timers go on as before, and its keys expire by the changed time.
#[derive(Debug)]
pub struct FakeClock {
    library: PathBuf,
    folder: Folder,
}

impl FakeClock {
    /// A clock that shows the system's time.
    ///
    /// # Errors
    /// When the library isn't installed (run `cargo xtask setup`), or its file can't be written.
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

    /// Sets how many seconds it is ahead of the system's clock; negative if it is behind. The
    /// server sees it within a moment, though maybe not yet at its next command: wait until its
    /// `TIME` shows it.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn set_offset(&self, seconds: i64) -> Result<(), ServerError> {
        let written = self.folder.write("offset", &format!("{seconds:+}\n"));
        written.map(|_| ()).map_err(ServerError::io("write the clock's file"))
    }

    /// Returns the environment variables of a program that runs by this clock.
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
