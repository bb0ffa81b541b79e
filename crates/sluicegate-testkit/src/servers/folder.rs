//! Folders of servers.

use std::env;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is ours alone, and unknown to everyone else.
pub(super) fn new_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parent = env::temp_dir().canonicalize()?;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("sluicegate-test-server-{}-{number}", process::id()));
        match make_folder(&folder, false) {
            Ok(()) => return Ok(folder),
            // Left by an earlier process with our id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// With `existing_too` it is no error if the folder is there already.
pub(super) fn make_folder(folder: &Path, existing_too: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(existing_too).create(folder)
}
