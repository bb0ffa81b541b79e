//! Parsing and checking config files.

mod caps;
mod check;
mod client;
mod decision_log;
mod envoy;
mod fallback;
mod files;
mod http;
mod limit;
mod limit_block;
mod limit_pattern;
mod listen_address;
mod listeners;
mod memory;
mod metrics;
mod origins;
mod overrides;
mod problem;
mod recorder;
mod redacted;
mod redis;
mod resp;
mod service;
mod store_url;
mod switch;
#[cfg(test)]
mod tests;
mod times;
mod tree;
mod warnings;

#[cfg(feature = "watch")]
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::layers::DEADLINE;

pub use caps::ConfigCaps;
pub use client::{ClientConfig, ClientCredential, ClientToken, Right};
pub use decision_log::{DecisionLogConfig, LoggedKeys, Sample, SampleError};
pub use envoy::{DescriptorLimit, EnvoyConfig, EnvoyDomain};
pub use fallback::FallbackConfig;
pub use http::HttpConfig;
pub use limit::LimitConfig;
pub use limit_block::LimitBlock;
pub use limit_pattern::{LimitPattern, LimitPatternError};
pub use listen_address::{ListenAddress, ListenAddressError, ListenHost, SocketMode};
pub use listeners::{ClientCertificates, ListenerConfig, ListenersConfig, TlsConfig};
pub use memory::{MemoryConfig, Overflow};
pub use metrics::MetricsConfig;
pub use origins::{FilePlace, LimitOrigins, Origins};
pub use overrides::{Override, OverrideError};
pub(crate) use overrides::{limit_times, limit_with};
pub use problem::{ConfigErrors, ConfigProblem};
pub use recorder::{RecorderConfig, RecorderSize, RecorderSizeError};
pub use redis::{Password, RedisAccess, RedisConfig, SentinelAccess};
pub use resp::RespConfig;
pub use service::ServiceConfig;
pub use store_url::{RedisUrl, StoreUrl, StoreUrlError};
pub use switch::{Switch, UnknownLimit};
pub use times::{Times, TimesError};
pub use tree::{Key as TreeKey, Node as Tree, Value as TreeValue};

use files::Files;
use problem::{Position, Reporter};

pub(crate) use files::digest;
#[cfg(feature = "watch")]
pub(crate) use files::{Content, read as read_file, read_up_to};

/// A validated config file.
///
/// ```
/// use sluicegate::Config;
/// use sluicegate::config::StoreUrl;
///
/// let config = Config::parse("limits: {login: {policies: [gcra 5/min]}}", "limits.yaml")?;
/// assert_eq!(config.store, StoreUrl::Memory);
/// assert_eq!(config.limit("login").unwrap().key.to_string(), "ip");
///
/// let errors = Config::parse("limits: {login: {policies: [gcra 5/m]}}", "limits.yaml").unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "limits.yaml:1:36: limits.login.policies[0]: `m` is ambiguous: write `min` for minutes or `ms` for milliseconds\n\
///      \x20 gcra 5/m\n\
///      \x20        ^"
/// );
/// # Ok::<(), sluicegate::config::ConfigErrors>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The store. Default: `memory:`.
    pub store: StoreUrl,
    /// The listeners of the service. Default: HTTP at 127.0.0.1:8080.
    pub listeners: ListenersConfig,
    /// Whether limits are in force. Default: on.
    pub enabled: Switch,
    /// Treatment of requests for a limit that doesn't exist. Default: they are errors.
    pub unknown_limits: UnknownLimit,
    /// Maximum time by which a state's timestamp may be ahead of the store's clock, 1 ms to 1 day. A state beyond
    /// counts as stamped now. So a clock that is set back can block a key for this long. Default: 5 s.
    pub max_clock_back: Duration,
    /// The settings for HTTP requests and responses.
    pub http: HttpConfig,
    /// The limits, at least one, in the order of the file.
    pub limits: Vec<Arc<LimitConfig>>,
    /// Setup of the embedded store.
    pub memory: MemoryConfig,
    /// Setup of a Redis or Valkey store.
    pub redis: RedisConfig,
    /// The fallback for a store that fails, for limits whose `on_store_failure` is `local`.
    pub fallback: Option<FallbackConfig>,
    /// Limits on the load of the service.
    pub service: ServiceConfig,
    /// The metrics of the service.
    pub metrics: MetricsConfig,
    /// The log of decisions of the service.
    pub decision_log: DecisionLogConfig,
    /// The recorder of decisions of the service.
    pub recorder: RecorderConfig,
    /// The limits of Envoy's descriptors.
    pub envoy: EnvoyConfig,
    /// The clients of the service. Without any, all programs may check limits and hold their units.
    pub clients: Vec<ClientConfig>,
    /// Whether requests to the service may give the policies of their limits. Default: off.
    pub limits_in_requests: Switch,
    /// The settings for commands in Redis' protocol.
    pub resp: RespConfig,
    warnings: Vec<ConfigProblem>,
    /// The places of the settings, which don't count in comparisons.
    origins: Arc<Origins>,
    /// The other files that the configuration was read from.
    files: Vec<PathBuf>,
    /// Digest of the bytes that it was read from.
    digest: u64,
}

impl Config {
    /// The default deadline of a call to the store: 50 ms.
    pub const DEADLINE: Duration = DEADLINE;

    /// The default of [`Config::max_clock_back`]: 5 s.
    pub const MAX_CLOCK_BACK: Duration = Duration::from_secs(5);

    /// The configuration of a service without a file: one limit, `demo`.
    pub const DEMO: &str = r#"store: "memory:"
limits:
  demo:
    policies: ["token_bucket 10/s burst 20"]
"#;

    /// Reads and parses a file.
    ///
    /// # Errors
    /// Returns all problems in the file together. It is also an error if the file can't be read, is not
    /// UTF-8, or exceeds the default [`ConfigCaps`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        Self::load_within(path, ConfigCaps::default())
    }

    /// Reads and parses a file that may have the size that `caps` allow.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_within(path: impl AsRef<Path>, caps: ConfigCaps) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let reporter = Reporter::new(&path.display().to_string());
        let mut bytes = Vec::new();
        // Reading one byte more than allowed detects a file that is too large, even a pipe of
        // unknown length.
        File::open(path)
            .and_then(|file| file.take(one_more(caps.max_bytes)).read_to_end(&mut bytes))
            .map_err(|error| reporter.only(None, &format!("can't be read: {error}")))?;
        Self::from_bytes(&bytes, reporter, caps)
    }

    /// Parses the text of a file; errors refer to the file by `name`.
    ///
    /// # Errors
    /// Returns all problems in the text together, also if it exceeds the default [`ConfigCaps`].
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::parse_within(text, name, ConfigCaps::default())
    }

    /// Parses the text of a file that may have the size that `caps` allow.
    ///
    /// # Errors
    /// See [`Config::parse`].
    pub fn parse_within(text: &str, name: &str, caps: ConfigCaps) -> Result<Self, ConfigErrors> {
        Self::from_bytes(text.as_bytes(), Reporter::new(name), caps)
    }

    /// Parses the text of a file without reading the files that it names, for a caller who must not read them. Each is
    /// an error, except for files and variables with tokens of clients: those clients have other tokens.
    ///
    /// # Errors
    /// See [`Config::parse`].
    pub fn parse_alone(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        let (bytes, caps) = (text.as_bytes(), ConfigCaps::default());
        Self::from_files(bytes, Reporter::new(name), caps, Files::none(caps, bytes.len()))
    }

    /// Returns the limit with this name.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<&LimitConfig> {
        self.limits
            .iter()
            .map(|config| &**config)
            .find(|config| config.limit.name().as_str() == name)
    }

    /// Returns warnings about valid settings that are probably mistakes, each with its position.
    #[must_use]
    pub fn warnings(&self) -> &[ConfigProblem] {
        &self.warnings
    }

    /// Returns the files that the configuration names and was read from, such as by `block_file`.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Adds the places of limits that were read from other files, as a [`LimitBlock`] returns them.
    pub fn add_origins(&mut self, origins: Origins) {
        Arc::make_mut(&mut self.origins).extend(origins);
    }

    /// Returns the places of the settings, except for limits that code has changed.
    pub(crate) fn origins(&self) -> Arc<Origins> {
        Arc::new(self.origins.of(&self.limits))
    }

    /// Returns the digest of the bytes that the configuration was read from: see [`digest`].
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Parses the bytes of a file and of the files that it names. Errors refer to the file by `name`.
    #[cfg(feature = "watch")]
    pub(crate) fn of_contents(
        bytes: &[u8],
        name: &str,
        caps: ConfigCaps,
        others: HashMap<PathBuf, Content>,
    ) -> Result<Self, ConfigErrors> {
        let files = Files::known(caps, bytes.len(), others);
        Self::from_files(bytes, Reporter::new(name), caps, files)
    }

    /// Returns the files that a configuration names, if it can be read.
    #[cfg(feature = "watch")]
    pub(crate) fn named_files(bytes: &[u8], caps: ConfigCaps) -> Vec<PathBuf> {
        // Reading a large file for its names alone takes as long as reading it for its limits. A
        // backslash may be an escape in a name.
        let may_name = |text: &&str| text.contains("_file") || text.contains('\\');
        let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= caps.max_bytes);
        let text = text.filter(may_name);
        text.map(|text| check::named(text, caps)).unwrap_or_default()
    }

    fn from_bytes(
        bytes: &[u8],
        reporter: Reporter,
        caps: ConfigCaps,
    ) -> Result<Self, ConfigErrors> {
        Self::from_files(bytes, reporter, caps, Files::new(caps, bytes.len()))
    }

    fn from_files(
        bytes: &[u8],
        reporter: Reporter,
        caps: ConfigCaps,
        files: Files,
    ) -> Result<Self, ConfigErrors> {
        if bytes.len() > caps.max_bytes {
            let message = format!(
                "the file has more than {} bytes, the maximum: raise it with --config-max-bytes, or \
                 in code with `ConfigCaps`",
                caps.max_bytes
            );
            return Err(reporter.only(None, &message));
        }
        let text = text_of(bytes)
            .map_err(|(position, message)| reporter.only(Some(position), &message))?;
        check::config(text, reporter, caps, files).map(|(config, files)| Self {
            digest: digest(bytes, files.contents()),
            files: files.into_paths(),
            ..config
        })
    }
}

/// Returns the text of a file, without a byte order mark. If the bytes aren't text, returns the position and kind of
/// the first wrong byte.
fn text_of(bytes: &[u8]) -> Result<&str, (Position, String)> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let message = format!(
            "the file is not UTF-8: byte {:#04x} stands here; save it as UTF-8",
            bytes.get(valid.len()).copied().unwrap_or_default()
        );
        (Position::after(&String::from_utf8_lossy(valid)), message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

impl Default for Config {
    /// Returns the configuration of [`Config::DEMO`].
    #[expect(clippy::expect_used, reason = "the text is a constant, and a test reads it")]
    fn default() -> Self {
        let demo = Self::parse(Self::DEMO, "demo").expect("the demo config is valid");
        // There is no file.
        Self { origins: Arc::default(), ..demo }
    }
}

impl PartialEq for Config {
    /// Returns whether both configurations are equivalent, regardless of their layout.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            store,
            listeners,
            enabled,
            unknown_limits,
            max_clock_back,
            http,
            limits,
            memory,
            redis,
            fallback,
            service,
            metrics,
            decision_log,
            recorder,
            envoy,
            clients,
            limits_in_requests,
            resp,
            warnings: _,
            origins: _,
            files: _,
            digest: _,
        } = self;
        *store == other.store
            && *listeners == other.listeners
            && *enabled == other.enabled
            && *unknown_limits == other.unknown_limits
            && *max_clock_back == other.max_clock_back
            && *http == other.http
            && *limits == other.limits
            && *memory == other.memory
            && *redis == other.redis
            && *fallback == other.fallback
            && *service == other.service
            && *metrics == other.metrics
            && *decision_log == other.decision_log
            && *recorder == other.recorder
            && *envoy == other.envoy
            && *clients == other.clients
            && *limits_in_requests == other.limits_in_requests
            && *resp == other.resp
    }
}

/// Returns the number of bytes to read of a file of at most `max` bytes: one more shows that it is too large.
pub(crate) fn one_more(max: usize) -> u64 {
    (max as u64).saturating_add(1)
}

/// The name of a file, shared by its problems.
type FileName = Arc<str>;
