//! A config file that is followed while the program runs. Nothing here sleeps: the watch reports when it did something.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::{Switch, Uses, Watch, WatchOptions, WatchStatus};
use sluicegate::error::WatchError;
use sluicegate::policy::Algorithm;
use sluicegate::{Config, Registry};
use sluicegate_testkit::wait::until;
use tempfile::TempDir;

/// Long enough for a busy machine; only a watch that hangs gets there.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a config file, and a registry that follows it.
struct Setup {
    folder: TempDir,
    registry: Registry,
    watch: Watch,
    seen: WatchStatus,
}

fn text(burst: u64) -> String {
    format!("limits:\n  a:\n    policies: [gcra 1/h burst {burst}]\n")
}

/// Returns options without reports of changes, so the file is read often.
fn polling() -> WatchOptions {
    WatchOptions::default()
        .events(Switch::Off)
        .poll(Duration::from_millis(5))
        .debounce(Duration::from_millis(5))
}

/// Returns options with which the file is read only when the system reports a change.
fn events() -> WatchOptions {
    WatchOptions::default()
        .poll(Duration::from_secs(24 * 60 * 60))
        .debounce(Duration::from_millis(5))
}

impl Setup {
    fn new(options: WatchOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("limits.yaml"), text(1)).unwrap();
        Self::follow(folder, options)
    }

    fn follow(folder: TempDir, options: WatchOptions) -> Self {
        let path = folder.path().join("limits.yaml");
        let registry = Registry::open(&Config::load(&path).unwrap()).unwrap();
        let watch = registry.watch_with(&path, options);
        let mut setup = Self { folder, registry, watch, seen: WatchStatus::default() };
        // Once it has answered it listens.
        setup.watch.reload();
        let status = setup.next();
        assert_eq!((status.unchanged, status.attempts()), (1, 1), "{status:?}");
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the watch did something.
    fn next(&mut self) -> WatchStatus {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let changed = async {
            tokio::time::timeout(PATIENCE, self.watch.changed(self.seen.attempts())).await
        };
        let status = runtime.block_on(changed).expect("the watch saw nothing");
        self.seen = status.clone();
        status
    }

    /// Waits until the file is in force.
    fn until_applied(&mut self) -> WatchStatus {
        // Earlier actions of the watch may have happened before this wait.
        let before = self.seen.applied;
        until("the file is in force", || {
            let status = self.next();
            let is_applied = status.applied > before && status.last_error.is_none();
            if is_applied { Ok(status) } else { Err(status) }
        })
    }

    /// Waits until the file can't be used for this reason.
    fn until_failed(&mut self, reason: &str) -> Arc<WatchError> {
        until(reason, || {
            let status = self.next();
            let error = status.last_error.clone();
            error.filter(|error| error.to_string().contains(reason)).ok_or(status)
        })
    }

    fn burst(&self) -> Option<u64> {
        let limit = self.registry.gate("a").limit()?;
        match limit.members()[0].policy().algorithm() {
            Algorithm::Gcra { burst, .. } => Some(*burst),
            _ => None,
        }
    }
}

fn rename_over(path: &Path, content: &str) {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content).unwrap();
    fs::rename(&temporary, path).unwrap();
}

#[test]
fn a_file_that_is_written_to_or_renamed_over_is_seen() {
    for options in [polling, events] {
        let mut setup = Setup::new(options());
        let path = setup.path("limits.yaml");
        fs::write(&path, text(2)).unwrap();
        let status = setup.until_applied();
        assert_eq!(status.last_changes.unwrap().to_string(), "changed: a");
        assert_eq!(setup.burst(), Some(2));
        rename_over(&path, &text(3));
        setup.until_applied();
        assert_eq!(setup.burst(), Some(3));
        // With the same length, and missing in between.
        fs::remove_file(&path).unwrap();
        fs::write(&path, text(4)).unwrap();
        setup.until_applied();
        assert_eq!(setup.burst(), Some(4));
        assert!(setup.watch.last_error().is_none());
    }
}

/// Swaps the file like a mounted config map: it is a link into a link to a directory, which is swapped as a whole.
#[cfg(unix)]
#[test]
fn links_that_are_swapped_are_seen() {
    use std::os::unix::fs::symlink;
    for options in [polling, events] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let version = |name: &str, burst| {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("limits.yaml"), text(burst)).unwrap();
        };
        version("..2024", 1);
        symlink("..2024", path("..data")).unwrap();
        symlink("..data/limits.yaml", path("limits.yaml")).unwrap();
        version("..2025", 2);
        symlink("..2025", path("..data_tmp")).unwrap();
        let mut setup = Setup::follow(folder, options());
        fs::rename(setup.path("..data_tmp"), setup.path("..data")).unwrap();
        setup.until_applied();
        assert_eq!(setup.burst(), Some(2));
        fs::remove_dir_all(setup.path("..2024")).unwrap();
        assert_eq!(setup.burst(), Some(2));
    }
}

#[test]
fn a_wrong_file_changes_nothing_and_says_why_until_it_is_right() {
    let mut setup = Setup::new(polling());
    let path = setup.path("limits.yaml");
    rename_over(&path, "limits:\n  a:\n    policies: [gcra 1/m]\n    polices: []\n");
    let error = setup.until_failed("limits.yaml:3:23: limits.a.policies[0]");
    let WatchError::Config(errors) = &*error else { panic!("{error}") };
    assert_eq!(errors.problems().len(), 2);
    assert_eq!(setup.burst(), Some(1));
    rename_over(&path, &text(2));
    let status = setup.until_applied();
    assert_eq!((status.applied, status.failed), (1, 1), "an error is told once");
    assert!(setup.watch.last_error().is_none());
    assert_eq!(setup.burst(), Some(2));
    // A change that needs a restart.
    rename_over(&path, &format!("listeners: {{http: 127.0.0.1:1}}\n{}", text(3)));
    let _ = setup.until_failed("changes `listeners`, which needs a restart");
    assert_eq!(setup.burst(), Some(2));
    // The content in force again: nothing changes, and there is no error.
    rename_over(&path, &text(2));
    let status = setup.next();
    assert_eq!((status.applied, status.unchanged), (1, 2));
    assert!(status.last_error.is_none());
}

#[test]
fn a_half_written_file_changes_nothing_and_the_whole_one_counts() {
    let mut setup = Setup::new(polling());
    let path = setup.path("limits.yaml");
    let whole = text(77);
    let mut file = fs::File::create(&path).unwrap();
    let (first, rest) = whole.split_at(whole.len() - 9);
    file.write_all(first.as_bytes()).unwrap();
    let _ = setup.until_failed("not valid YAML");
    assert_eq!(setup.burst(), Some(1));
    file.write_all(rest.as_bytes()).unwrap();
    setup.until_applied();
    assert_eq!(setup.burst(), Some(77));
}

#[test]
fn a_file_that_is_gone_is_told_of_once_and_the_configuration_stays() {
    for options in [polling, events] {
        let mut setup = Setup::new(options());
        let path = setup.path("limits.yaml");
        fs::remove_file(&path).unwrap();
        let _ = setup.until_failed("limits.yaml: is gone; the old configuration stays in force");
        assert_eq!(setup.burst(), Some(1));
        // The same file again: all is well, though nothing changed.
        rename_over(&path, &text(1));
        let status = setup.next();
        assert!(status.last_error.is_none(), "{status:?}");
        assert_eq!((status.failed, status.applied), (1, 0));
        // Removed, and created with other content.
        fs::remove_file(&path).unwrap();
        let error = setup.until_failed("is gone");
        assert!(matches!(&*error, WatchError::Unreadable { .. }));
        rename_over(&path, &text(5));
        setup.until_applied();
        assert_eq!(setup.burst(), Some(5));
    }
}

#[test]
fn a_file_that_lacks_what_the_program_uses_is_refused_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.yaml");
    fs::write(&path, text(2)).unwrap();
    let config = Config::load(&path).unwrap();
    let registry = Registry::open_for(&config, [Uses::limit("a").policies(["gcra"])]).unwrap();
    let watch = registry.watch_with(&path, polling());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let attempt = |seen: u64| {
        let status = async { tokio::time::timeout(PATIENCE, watch.changed(seen)).await };
        runtime.block_on(status).expect("the watch saw nothing")
    };
    let mut seen = 0;
    for (next, names) in [
        ("limits: {b: {policies: [gcra 1/h]}}", "limit `a`: the program"),
        (
            "limits: {a: {policies: [gcra 9/h as x]}, b: {policies: [gcra 1/h]}}",
            "policy `gcra` of limit `a` (it has x)",
        ),
    ] {
        fs::write(folder.path().join("next"), next).unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        let status = loop {
            let status = attempt(seen);
            seen = status.attempts();
            if status.last_error.as_ref().is_some_and(|error| error.to_string().contains(names)) {
                break status;
            }
        };
        assert_eq!(status.applied, 0, "{status:?}");
        assert!(registry.limit("b").is_none());
        let limit = registry.limit("a").unwrap();
        assert_eq!(limit.limit.members()[0].policy().to_string(), "gcra 1/h burst 2");
    }
    fs::write(folder.path().join("next"), text(5)).unwrap();
    fs::rename(folder.path().join("next"), &path).unwrap();
    let status = loop {
        let status = attempt(seen);
        seen = status.attempts();
        if status.applied == 1 {
            break status;
        }
    };
    assert!(status.last_error.is_none());
}

#[test]
fn whoever_asks_has_the_file_read_at_once() {
    let mut options = events();
    options = options.events(Switch::Off);
    let mut setup = Setup::new(options);
    let path = setup.path("limits.yaml");
    fs::write(&path, text(2)).unwrap();
    setup.watch.reload();
    assert_eq!(setup.next().applied, 1);
    assert_eq!(setup.burst(), Some(2));
    setup.watch.reload();
    assert_eq!(setup.next().unchanged, 2);
    fs::write(&path, "limits: 5").unwrap();
    for failed in 1..3 {
        setup.watch.reload();
        assert_eq!(setup.next().failed, failed, "every time");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    setup.watch.reload();
    let error = setup.next().last_error.unwrap();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_file_that_changed_between_being_read_and_being_followed_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.yaml");
    fs::write(&path, text(1)).unwrap();
    let registry = Registry::open(&Config::load(&path).unwrap()).unwrap();
    fs::write(&path, text(2)).unwrap();
    let watch = registry.watch_with(&path, events());
    let mut setup = Setup { folder, registry, watch, seen: WatchStatus::default() };
    setup.until_applied();
    assert_eq!(setup.burst(), Some(2));
}

#[test]
fn what_a_command_line_says_goes_before_every_file() {
    let adjust = |config: &mut Config| config.listeners = Config::default().listeners;
    let mut setup = Setup::new(polling().adjust(adjust));
    fs::write(setup.path("limits.yaml"), format!("listeners: {{http: 127.0.0.1:1}}\n{}", text(2)))
        .unwrap();
    setup.until_applied();
    assert_eq!(setup.burst(), Some(2));
}

/// Requests continue while the file changes repeatedly. No request sees a mix, and the larger burst bounds the units
/// that pass.
#[test]
fn requests_go_on_while_the_file_changes() {
    let mut setup = Setup::new(polling());
    let path = setup.path("limits.yaml");
    let gate = setup.registry.gate("a");
    let mut passed = 0;
    for turn in 0..20 {
        rename_over(&path, &text(10 + turn % 2));
        setup.until_applied();
        for _ in 0..20 {
            passed += u32::from(gate.check("k").now().unwrap().is_allowed());
        }
    }
    assert_eq!(passed, 11);
}

/// A list in a separate file, in another folder, is read again when it changes.
#[test]
fn a_file_that_the_configuration_names_is_followed_too() {
    for options in [polling, events] {
        let (folder, lists) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let block = lists.path().join("block.txt");
        fs::write(&block, "mallory\n").unwrap();
        let text = format!(
            "limits: {{a: {{key: user, policies: [gcra 1/h burst 9], block_file: {}}}}}",
            block.display()
        );
        fs::write(folder.path().join("limits.yaml"), text).unwrap();
        let mut setup = Setup::follow(folder, options());
        let passes = |setup: &Setup, key: &str| {
            setup.registry.gate("a").peek(key).now().unwrap().is_allowed()
        };
        assert!(!passes(&setup, "mallory") && passes(&setup, "eve"));
        fs::write(&block, "mallory\neve\n").unwrap();
        setup.until_applied();
        assert!(!passes(&setup, "mallory") && !passes(&setup, "eve"));
        // A mistake changes nothing, and is reported with its line.
        rename_over(&block, "eve\na*b\n");
        let error = setup.until_failed("block.txt:2:2: limits.a.block_file: `a*b` has a `*`");
        assert!(error.to_string().contains("block.txt"), "{error}");
        assert!(!passes(&setup, "mallory"));
        rename_over(&block, "eve\n");
        setup.until_applied();
        assert!(passes(&setup, "mallory") && !passes(&setup, "eve"));
    }
}
