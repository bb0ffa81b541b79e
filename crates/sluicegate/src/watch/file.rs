//! The followed file and the files that it names: their last content, and whether a new one takes effect.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::reloads::Reloads;
use super::status::{WatchError, WatchStatus};
use crate::config_file::{Config, ConfigCaps, Content, digest, read_file, read_up_to};
use crate::registry::{Changes, Registry};

/// A config file that is followed.
pub(super) struct Followed {
    registry: Registry,
    path: PathBuf,
    caps: ConfigCaps,
    adjust: Box<dyn Fn(&mut Config) + Send>,
    said: watch::Sender<WatchStatus>,
    reloads: Reloads,
    is_held: Arc<Mutex<bool>>,
    /// The content that was last read, and why it couldn't be used.
    known: Option<(Contents, Option<Arc<WatchError>>)>,
    /// The content of the file that was seen last, and the files that it names.
    named: (Arc<[u8]>, Vec<PathBuf>),
    /// New content, which takes effect if it stays unchanged.
    pending: Option<Seen>,
    is_unreadable: bool,
}

#[derive(Eq, PartialEq)]
enum Seen {
    Contents(Contents),
    Nothing,
}

/// The contents of the file and of the files that it names.
#[derive(Eq, PartialEq)]
struct Contents {
    file: Arc<[u8]>,
    others: HashMap<PathBuf, Content>,
}

/// Whether a caller waits for the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    No,
    Yes,
}

/// When to look again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// At the next event.
    Rest,
    /// After a short time, since the content is new.
    LookAgain,
}

impl Followed {
    pub(super) fn new(
        registry: Registry,
        path: PathBuf,
        caps: ConfigCaps,
        adjust: Box<dyn Fn(&mut Config) + Send>,
        said: watch::Sender<WatchStatus>,
        reloads: Reloads,
        is_held: Arc<Mutex<bool>>,
    ) -> Self {
        let (known, named, pending, is_unreadable) = (None, Default::default(), None, false);
        Self {
            registry,
            path,
            caps,
            adjust,
            said,
            reloads,
            is_held,
            known,
            named,
            pending,
            is_unreadable,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folders of the file and of the files that it names.
    pub(super) fn folders(&self) -> HashSet<PathBuf> {
        let paths = self.named.1.iter().chain([&self.path]);
        let folder = |path: &PathBuf| path.parent().map(Path::to_path_buf).unwrap_or_default();
        paths
            .map(folder)
            .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
            .collect()
    }

    /// Reads the file, and applies new content once it was read twice in a row.
    pub(super) fn look(&mut self) -> Next {
        let (seen, error) = match self.read() {
            Ok(bytes) => (Seen::Contents(bytes), None),
            Err(error) => (Seen::Nothing, Some(error)),
        };
        if self.pending.as_ref() == Some(&seen) {
            self.use_it(seen, error, Asked::No);
            return Next::Rest;
        }
        let is_known = match (&seen, &self.known) {
            (Seen::Contents(bytes), Some((known, _))) => bytes == known,
            (Seen::Nothing, _) => self.is_unreadable,
            (Seen::Contents(_), None) => false,
        };
        if is_known {
            self.pending = None;
            if seen != Seen::Nothing && self.is_unreadable {
                self.is_back();
            }
            return Next::Rest;
        }
        self.pending = Some(seen);
        Next::LookAgain
    }

    /// Reads the file and those that it names.
    fn read(&mut self) -> io::Result<Contents> {
        let file: Arc<[u8]> = read_up_to(&self.path, self.caps.max_bytes)?.into();
        if self.named.0 != file {
            self.named = (Arc::clone(&file), Config::named_files(&file, self.caps));
        }
        let mut left = self.caps.max_bytes.saturating_sub(file.len());
        let mut others = HashMap::new();
        for path in &self.named.1 {
            let content = read_file(path, left);
            left = left.saturating_sub(content.as_ref().map_or(0, |bytes| bytes.len()));
            others.insert(path.clone(), content);
        }
        Ok(Contents { file, others })
    }

    /// Reads the file and applies its content.
    pub(super) fn reload(&mut self) -> Next {
        match self.read() {
            Ok(bytes) => self.use_it(Seen::Contents(bytes), None, Asked::Yes),
            Err(error) => self.use_it(Seen::Nothing, Some(error), Asked::Yes),
        }
        Next::Rest
    }

    fn use_it(&mut self, seen: Seen, error: Option<io::Error>, asked: Asked) {
        self.pending = None;
        let is_first = self.known.is_none() && !self.is_unreadable && asked == Asked::No;
        let Seen::Contents(contents) = seen else {
            self.is_unreadable = true;
            let error = error.unwrap_or_else(|| io::ErrorKind::NotFound.into());
            self.failed(WatchError::Unreadable { path: self.path.clone(), error: Arc::new(error) });
            return;
        };
        self.is_unreadable = false;
        if is_first && self.registry.is_of_bytes(digest(&contents.file, &contents.others)) {
            self.reloads.set_text(&contents.file);
            self.known = Some((contents, None));
            return;
        }
        let error = match self.apply(&contents) {
            None => return,
            Some(Ok(changes)) => {
                self.succeeded(changes, &contents.file);
                None
            }
            Some(Err(error)) => Some(self.failed(error)),
        };
        self.known = Some((contents, error));
    }

    /// Applies a content; `None` if the file is no longer followed.
    fn apply(&self, contents: &Contents) -> Option<Result<Changes, WatchError>> {
        let name = self.path.display().to_string();
        let Contents { file, others } = contents;
        let config = Config::of_contents(file, &name, self.caps, others.clone());
        let mut config = match config {
            Ok(config) => config,
            Err(errors) => return Some(Err(WatchError::Config(errors))),
        };
        (self.adjust)(&mut config);
        let is_held = self.is_held.lock().unwrap_or_else(PoisonError::into_inner);
        is_held.then(|| {
            let in_vain = |error| WatchError::Reload { path: self.path.clone(), error };
            self.registry.replace(&config).map_err(in_vain)
        })
    }

    /// Notes that the file exists again, unchanged.
    fn is_back(&mut self) {
        self.is_unreadable = false;
        let error = self.known.as_ref().and_then(|(_, error)| error.clone());
        tracing::info!("{}: is back, unchanged", self.path.display());
        self.said.send_modify(|status| {
            status.unchanged += 1;
            status.last_error = error;
        });
    }

    fn succeeded(&self, changes: Changes, text: &Arc<[u8]>) {
        tracing::info!("{}: is in force; {changes}", self.path.display());
        let changes = Arc::new(changes);
        self.reloads.add(Ok(Arc::clone(&changes)), Some(text));
        self.said.send_modify(|status| {
            status.last_error = None;
            if changes.is_empty() {
                status.unchanged += 1;
            } else {
                status.applied += 1;
                status.last_changes = Some(changes);
            }
        });
    }

    fn failed(&self, error: WatchError) -> Arc<WatchError> {
        tracing::error!("{error:#}");
        let error = Arc::new(error);
        self.reloads.add(Err(Arc::clone(&error)), None);
        self.said.send_modify(|status| {
            status.failed += 1;
            status.last_error = Some(Arc::clone(&error));
        });
        error
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_file_is_not_read_a_second_time_for_what_the_registry_was_opened_with() {
        let folder = tempfile::tempdir().unwrap();
        let (path, keys) = (folder.path().join("limits.yaml"), folder.path().join("keys"));
        let text =
            format!("limits: {{a: {{policies: [gcra 1/h], block_file: {}}}}}", keys.display());
        fs::write(&path, text).unwrap();
        fs::write(&keys, "mallory\n").unwrap();
        let registry = Registry::open(&Config::load(&path).unwrap()).unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let adjust = Box::new(move |_: &mut Config| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let (said, _) = watch::channel(WatchStatus::default());
        let is_held = Arc::new(Mutex::new(true));
        let mut followed = Followed::new(
            registry,
            path,
            ConfigCaps::default(),
            adjust,
            said,
            Reloads::default(),
            is_held,
        );
        // New content counts once it was seen twice.
        assert_eq!((followed.look(), followed.look()), (Next::LookAgain, Next::Rest));
        assert_eq!(reads.load(Ordering::SeqCst), 0);
        fs::write(&keys, "mallory\ntrudy\n").unwrap();
        assert_eq!((followed.look(), followed.look()), (Next::LookAgain, Next::Rest));
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        followed.reload();
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }
}
