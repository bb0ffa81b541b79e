//! Reloads a config file whenever it changes.

mod file;
mod reloads;
mod status;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config_file::{Config, ConfigCaps, Switch};
use crate::registry::Registry;

pub use reloads::Reload;
pub use status::{WatchError, WatchStatus};

use file::{Followed, Next};
use reloads::Reloads;

/// A watch of a config file: until it is dropped, new content replaces the registry's configuration
/// ([`Registry::replace`]).
///
/// It watches the directory, to notice files that are renamed into place and links that are swapped (as in mounted
/// config maps). By default it also reads the file every 5 s, for file systems that don't report changes. Content takes
/// effect once two consecutive reads are equal, by default 100 ms apart. So a file that is still being written has no
/// effect. Renaming a finished file into place is safest.
///
/// If the content is invalid or the file is missing, the configuration stays as it is. The error is logged once
/// (`tracing`, level `ERROR`), and [`Watch::status`] has it until the file is valid again.
///
/// ```no_run
/// use sluicegate::{Config, Registry};
///
/// let registry = Registry::open(&Config::load("limits.yaml")?)?;
/// let watch = registry.watch("limits.yaml");
/// if let Some(error) = watch.last_error() {
///     eprintln!("{error}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the file is followed as long as this is held"]
pub struct Watch {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<WatchStatus>,
    path: PathBuf,
    reloads: Reloads,
    /// Whether the file is still followed.
    is_held: Arc<Mutex<bool>>,
}

/// Options for following a file.
#[must_use]
pub struct WatchOptions {
    debounce: Duration,
    poll: Duration,
    events: Switch,
    caps: ConfigCaps,
    adjust: Box<dyn Fn(&mut Config) + Send>,
}

#[derive(Clone, Copy, Debug)]
enum Command {
    /// Something happened in the directory.
    Look,
    /// A caller wants the file read now.
    Reload,
    Stop,
}

impl Registry {
    /// Follows a config file.
    pub fn watch(&self, path: impl Into<PathBuf>) -> Watch {
        self.watch_with(path, WatchOptions::default())
    }

    /// Follows a config file with options.
    pub fn watch_with(&self, path: impl Into<PathBuf>, options: WatchOptions) -> Watch {
        let path = path.into();
        let (commands, inbox) = mpsc::channel();
        let (said, status) = watch::channel(WatchStatus::default());
        let is_held = Arc::new(Mutex::new(true));
        let reloads = Reloads::default();
        let watch = Watch {
            commands: commands.clone(),
            status,
            path: path.clone(),
            reloads: reloads.clone(),
            is_held: Arc::clone(&is_held),
        };
        let followed =
            Followed::new(self.clone(), path, options.caps, options.adjust, said, reloads, is_held);
        let follow = move || {
            follow(followed, &inbox, &commands, options.debounce, options.poll, options.events);
        };
        if let Err(error) =
            std::thread::Builder::new().name("sluicegate-config".to_owned()).spawn(follow)
        {
            tracing::error!(
                "the config file can't be followed, because no thread could be started: {error}"
            );
        }
        watch
    }
}

impl Watch {
    /// Reads the file now, even if it didn't change. The [status](Watch::status) has the result once it counts one more
    /// attempt.
    pub fn reload(&self) {
        // There is no receiver only if no thread could be started, which was reported.
        let _ = self.commands.send(Command::Reload);
    }

    /// Returns the status: how often the file was applied or rejected, and the last error.
    #[must_use]
    pub fn status(&self) -> WatchStatus {
        self.status.borrow().clone()
    }

    /// Returns why the file's current content is not in force; `None` if it is.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<WatchError>> {
        self.status.borrow().last_error.clone()
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last content of the file that is in force; `None` until the file was read for the first time.
    ///
    /// It may have passwords.
    #[must_use]
    pub fn text(&self) -> Option<Arc<[u8]>> {
        self.reloads.text()
    }

    /// Returns the latest reloads, at most 50, the newest first.
    #[must_use]
    pub fn reloads(&self) -> Vec<Reload> {
        self.reloads.latest()
    }

    /// Waits until there are more than `seen` [attempts](WatchStatus::attempts), and returns the
    /// status.
    pub async fn changed(&self, seen: u64) -> WatchStatus {
        let mut status = self.status.clone();
        // Without the lock of the channel, so that the future can move between threads.
        let changed = status.wait_for(|status| status.attempts() > seen).await;
        let changed = changed.map(|status| status.clone());
        match changed {
            Ok(status) => status,
            // There won't be more attempts.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // From here on nothing is replaced, even if the file is being read at this moment.
        *self.is_held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let _ = self.commands.send(Command::Stop);
    }
}

impl WatchOptions {
    /// Sets how long new content has to stay unchanged before it takes effect. Default: 100 ms.
    pub const fn debounce(mut self, debounce: Duration) -> Self {
        self.debounce = debounce;
        self
    }

    /// Sets how often to read the file regardless of reported changes. Default: every 5 s.
    pub const fn poll(mut self, every: Duration) -> Self {
        self.poll = every;
        self
    }

    /// Sets whether to watch the directory for changes. Default: true.
    pub const fn events(mut self, switch: Switch) -> Self {
        self.events = switch;
        self
    }

    /// Sets the maximum size of the file. Default: [`ConfigCaps::default`].
    pub const fn caps(mut self, caps: ConfigCaps) -> Self {
        self.caps = caps;
        self
    }

    /// Changes every configuration before it takes effect, for example to apply the options of a
    /// command line again.
    pub fn adjust(mut self, adjust: impl Fn(&mut Config) + Send + 'static) -> Self {
        self.adjust = Box::new(adjust);
        self
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            debounce: Duration::from_millis(100),
            poll: Duration::from_secs(5),
            events: Switch::On,
            caps: ConfigCaps::default(),
            adjust: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for WatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchOptions")
            .field("debounce", &self.debounce)
            .field("poll", &self.poll)
            .field("events", &self.events)
            .field("caps", &self.caps)
            .finish_non_exhaustive()
    }
}

/// Runs the thread: reads the file when there is a reason to, until it is stopped.
fn follow(
    mut followed: Followed,
    inbox: &mpsc::Receiver<Command>,
    commands: &mpsc::Sender<Command>,
    debounce: Duration,
    poll: Duration,
    events: Switch,
) {
    let mut notifier = match events {
        Switch::On => Notifier::new(followed.path(), commands.clone()),
        Switch::Off => None,
    };
    // Immediately: the file may have changed since it was read.
    let mut next_look = Instant::now();
    loop {
        if notifier.as_mut().is_some_and(|notifier| notifier.watch(followed.folders())) {
            // A file in a new folder may have changed after it was read, before the folder was watched.
            next_look = next_look.min(after(debounce));
        }
        let command = inbox.recv_timeout(next_look.saturating_duration_since(Instant::now()));
        let next = match command {
            Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            // Events come in bursts: one read afterwards is enough.
            Ok(Command::Look) => {
                next_look = next_look.min(after(debounce));
                continue;
            }
            Ok(Command::Reload) => followed.reload(),
            Err(RecvTimeoutError::Timeout) => followed.look(),
        };
        next_look = match next {
            Next::Rest => after(poll),
            Next::LookAgain => after(debounce),
        };
    }
}

fn after(pause: Duration) -> Instant {
    /// Practically never, without overflowing a clock.
    const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    Instant::now() + pause.min(LONGEST)
}

/// Sends a command when something changes in one of the folders that it watches.
struct Notifier {
    watcher: notify::RecommendedWatcher,
    folders: HashSet<PathBuf>,
}

impl Notifier {
    fn new(path: &Path, commands: mpsc::Sender<Command>) -> Option<Self> {
        let handler = move |event: notify::Result<notify::Event>| {
            // Opening and reading a file doesn't change it, and this thread does both. An error may mean that events
            // were lost.
            let is_change = event.map_or(true, |event| {
                !matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
            });
            if is_change {
                let _ = commands.send(Command::Look);
            }
        };
        let watcher = notify::recommended_watcher(handler).inspect_err(|error| warn(path, error));
        Some(Self { watcher: watcher.ok()?, folders: HashSet::new() })
    }

    /// Watches these folders and no others. Returns whether one of them is new.
    fn watch(&mut self, folders: HashSet<PathBuf>) -> bool {
        for folder in self.folders.difference(&folders) {
            // A folder that is gone isn't watched any more.
            let _ = self.watcher.unwatch(folder);
        }
        for folder in folders.difference(&self.folders) {
            let watched = self.watcher.watch(folder, RecursiveMode::NonRecursive);
            let _ = watched.inspect_err(|error| warn(folder, error));
        }
        let has_new = !folders.is_subset(&self.folders);
        self.folders = folders;
        has_new
    }
}

fn warn(path: &Path, error: &notify::Error) {
    tracing::warn!(
        "changes of {} can't be watched, so it is only read at intervals: {error}",
        path.display()
    );
}
