//! Follows the files with rules.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_envoy::incumbent::{LoadOptions, Rules, RuntimeFiles};
use sluicegate_envoy::service::RateLimits;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use super::folder::Folder;
use super::loads::Loads;

/// The files with rules.
#[derive(Debug)]
pub(super) struct RuleFiles {
    folder: PathBuf,
    /// The root whose replacement is a change; `None` if each changed file is one.
    root: Option<PathBuf>,
    ignores_dotfiles: bool,
    options: LoadOptions,
    loads: Arc<Loads>,
}

impl RuleFiles {
    /// Finds the files by the environment; `folder` replaces its folder.
    pub(super) fn new(
        files: &RuntimeFiles,
        folder: Option<PathBuf>,
        options: LoadOptions,
        loads: Arc<Loads>,
    ) -> Arc<Self> {
        let root = PathBuf::from(&files.root);
        let inside = root.join(&files.subdirectory).join(&files.app_directory);
        let watched = (folder.is_none() && files.watches_root).then_some(root);
        Arc::new(Self {
            folder: folder.unwrap_or(inside),
            root: watched,
            ignores_dotfiles: files.ignores_dotfiles,
            options,
            loads,
        })
    }

    /// Loads the files. If they can't be used, the former rules stay in force, and the log says why.
    pub(super) fn load(&self, limits: &RateLimits) {
        let folder = Folder { path: &self.folder, ignores_dotfiles: self.ignores_dotfiles };
        let loaded = folder.read().and_then(|files| {
            let rules = Rules::load(files, self.options).map_err(|errors| errors.to_string())?;
            for warning in rules.warnings() {
                tracing::warn!("{warning}");
            }
            limits.load(rules).map_err(|error| error.to_string())
        });
        match loaded {
            Ok(changes) => {
                self.loads.succeeded();
                tracing::info!("{}: in force; {changes}", self.folder.display());
            }
            Err(why) => {
                self.loads.failed();
                tracing::error!("the former rules stay in force: {why}");
            }
        }
    }

    /// Loads the files again when they change, and at every SIGHUP.
    ///
    /// A folder is looked at twice a second: a mounted or networked folder doesn't report all changes. A change is
    /// loaded when it looks the same twice, so that no file is loaded while it is written.
    pub(super) async fn follow(self: Arc<Self>, limits: RateLimits, mut hangup: Signal) {
        const PAUSE: Duration = Duration::from_millis(500);
        let mut ticks = tokio::time::interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut loaded = self.seen();
        let mut seen = loaded.clone();
        loop {
            let asked = tokio::select! {
                _ = ticks.tick() => false,
                Some(()) = hangup.recv() => true,
            };
            let now = self.seen();
            if asked || now == seen && now != loaded {
                loaded.clone_from(&now);
                self.load(&limits);
            }
            seen = now;
        }
    }

    /// Returns marks that differ after a change.
    fn seen(&self) -> Vec<Mark> {
        let mut marks = Vec::new();
        match &self.root {
            Some(root) => marks.extend(fs::canonicalize(root).and_then(mark)),
            None => look(&self.folder, &mut marks),
        }
        marks
    }
}

/// The path of a file, and what changes with its content.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Mark {
    path: PathBuf,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

fn mark(path: PathBuf) -> io::Result<Mark> {
    let about = path.metadata()?;
    Ok(Mark {
        inode: about.ino(),
        // The length and time of a folder change with its content, which a root's don't have to.
        length: if about.is_dir() { 0 } else { about.len() },
        modified: if about.is_dir() { (0, 0) } else { (about.mtime(), about.mtime_nsec()) },
        path,
    })
}

/// Adds the marks of all files in a folder. A folder that can't be read has none.
fn look(folder: &Path, marks: &mut Vec<Mark>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort_unstable();
    for path in paths {
        if path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            look(&path, marks);
        } else {
            // A link counts as the file that it leads to.
            marks.extend(mark(path));
        }
    }
}
