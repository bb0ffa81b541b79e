//! Follows the files with rules.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_envoy::incumbent::{LoadOptions, Rules, RuntimeFiles};
use sluicegate_envoy::service::RateLimits;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use super::folder::Folder;
use super::loads::Loads;
use crate::supervisor;

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
    /// Returns whether they are in force.
    pub(super) fn load(&self, limits: &RateLimits) -> bool {
        let loaded = self.folder().read().and_then(|files| {
            let rules = Rules::load(files, self.options).map_err(|errors| format!("{errors:#}"))?;
            limits.load(rules).map_err(|error| format!("{error:#}"))
        });
        match &loaded {
            Ok(changes) => {
                self.loads.succeeded();
                for warning in limits.warnings() {
                    tracing::warn!("{warning:#}");
                }
                tracing::info!("{}: in force; {changes}", self.folder.display());
            }
            Err(why) => {
                self.loads.failed();
                tracing::error!("the former rules stay in force: {why}");
            }
        }
        loaded.is_ok()
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
            if asked {
                supervisor::reloading();
            }
            let now = self.seen();
            if asked || now == seen && now != loaded {
                loaded.clone_from(&now);
                let is_in_force = self.load(&limits);
                if asked {
                    supervisor::ready(match is_in_force {
                        true => "Serving; the files with rules are in force",
                        false => {
                            "Serving by older rules: the log says why the files are not in force"
                        }
                    });
                }
            }
            seen = now;
        }
    }

    /// Returns marks that differ after a change. A folder that can't be read has none.
    fn seen(&self) -> Vec<Mark> {
        let paths = match &self.root {
            Some(root) => fs::canonicalize(root).into_iter().collect(),
            None => self.folder().files().unwrap_or_default(),
        };
        paths.into_iter().filter_map(|path| mark(path).ok()).collect()
    }

    fn folder(&self) -> Folder<'_> {
        Folder { path: &self.folder, ignores_dotfiles: self.ignores_dotfiles }
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
