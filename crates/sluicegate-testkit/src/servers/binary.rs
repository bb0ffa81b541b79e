//! The server programs on this machine.
//!
//! The developer tool in `xtask/` compiles this file too, so that `cargo xtask setup` and the tests
//! agree about the usable servers. Therefore it uses only `std`.

use std::collections::HashSet;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the server programs to use first: paths separated by `:`.
const EXPLICIT: &str = "SLUICEGATE_REDIS_SERVER";
const FILE_NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// A server program that answered when run with `--version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    path: PathBuf,
    product: String,
    version: String,
}

impl ServerBinary {
    /// Runs `path --version` and parses the output.
    ///
    /// # Errors
    /// Returns an error that says why the program can't be used: it doesn't start, or doesn't
    /// answer like a server.
    pub fn inspect(path: &Path) -> Result<Self, String> {
        let output = Command::new(path)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (product, version) = parse_version(&text).ok_or_else(|| {
            format!("{}: `--version` answers {:?}, not a server's", path.display(), text.trim())
        })?;
        Ok(Self { path: path.to_path_buf(), product, version })
    }

    /// Returns the program's path, as it must be started: its file name matters to multi-call
    /// binaries.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the program's own name in lower case, such as `redis` or `valkey`.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Returns the version as printed, such as `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl fmt::Display for ServerBinary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} ({})", self.product, self.version, self.path.display())
    }
}

/// Returns every usable server program, at least one.
///
/// First come those named in `SLUICEGATE_REDIS_SERVER`, then `redis-server` and `valkey-server` on
/// `PATH`, then those that `cargo xtask setup` put under `target/tools`. Equal files, or equal
/// versions of one product, are listed once.
///
/// # Errors
/// Returns an error if there is none, or if a program that `SLUICEGATE_REDIS_SERVER` names can't be
/// used. A broken program on `PATH` is skipped, and named only if no other was found.
pub fn available() -> Result<Vec<ServerBinary>, DiscoveryError> {
    let mut found = Found::default();
    let explicit = env::var_os(EXPLICIT).unwrap_or_default();
    for path in env::split_paths(&explicit).filter(|path| !path.as_os_str().is_empty()) {
        found.add(&path).map_err(DiscoveryError::Explicit)?;
    }
    let mut unusable = Vec::new();
    let search = env::var_os("PATH").unwrap_or_default();
    for folder in env::split_paths(&search).chain([tools_folder()]) {
        for path in FILE_NAMES.map(|name| folder.join(name)) {
            if path.is_file()
                && let Err(why) = found.add(&path)
            {
                unusable.push(why);
            }
        }
    }
    if found.binaries.is_empty() {
        return Err(DiscoveryError::None { unusable });
    }
    Ok(found.binaries)
}

/// Returns the folder in which `cargo xtask setup` puts programs: `target/tools/bin` in the
/// workspace.
#[must_use]
pub fn tools_folder() -> PathBuf {
    workspace_root().join("target/tools/bin")
}

/// Returns the folder of the workspace in which this file was compiled.
pub(crate) fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    root.unwrap_or(package).to_path_buf()
}

/// The reason why no server program can be used.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// There is no server program. `unusable` says what was found and why it was skipped.
    None {
        /// One sentence for each program that was found but doesn't work.
        unusable: Vec<String>,
    },
    /// A program that `SLUICEGATE_REDIS_SERVER` names doesn't work.
    Explicit(String),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None { unusable } => {
                write!(
                    formatter,
                    "no redis-server or valkey-server on PATH, in {EXPLICIT} or in {}: \
                     run `cargo xtask setup`",
                    tools_folder().display()
                )?;
                unusable.iter().try_for_each(|why| write!(formatter, "\nunusable: {why}"))
            }
            Self::Explicit(why) => write!(
                formatter,
                "{EXPLICIT} must list server programs that run, separated by `:`; {why}"
            ),
        }
    }
}

impl fmt::Debug for DiscoveryError {
    /// Writes the displayed text, because a test that unwraps the error should say what to do.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for DiscoveryError {}

#[derive(Default)]
struct Found {
    binaries: Vec<ServerBinary>,
    files: HashSet<PathBuf>,
}

impl Found {
    fn add(&mut self, path: &Path) -> Result<(), String> {
        let file = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if self.files.contains(&file) {
            return Ok(());
        }
        let binary = ServerBinary::inspect(path)?;
        self.files.insert(file);
        let known = self
            .binaries
            .iter()
            .any(|other| other.product == binary.product && other.version == binary.version);
        if !known {
            self.binaries.push(binary);
        }
        Ok(())
    }
}

/// Parses `Redis server v=7.0.15 sha=…` to `("redis", "7.0.15")`.
fn parse_version(text: &str) -> Option<(String, String)> {
    let (product, rest) = text.split_once(" server v=")?;
    let version = rest.split_whitespace().next()?;
    Some((product.trim().to_lowercase(), version.to_owned()))
}
