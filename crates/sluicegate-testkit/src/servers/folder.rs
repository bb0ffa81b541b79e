//! Folders of servers.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed with this value, for files that must outlive the servers that read
/// them.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        new_folder().map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file with this name. An older file is replaced atomically.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let (path, draft) = (self.0.join(name), self.0.join(format!("{name}.new")));
        fs::write(&draft, text)?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Creates a new folder that only this user can access, with an unused name.
pub(super) fn new_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parent = env::temp_dir().canonicalize()?;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("sluicegate-test-server-{}-{number}", process::id()));
        match make_folder(&folder, false) {
            Ok(()) => return Ok(folder),
            // A folder left by an earlier process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Creates a folder. With `existing_too`, an existing folder isn't an error.
pub(super) fn make_folder(folder: &Path, existing_too: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(existing_too).create(folder)
}
