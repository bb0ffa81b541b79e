//! The incumbent's environment: addresses, files and the store.

use super::control_plane::ControlPlane;
use super::grpc_listener::{GrpcListener, GrpcTls};
use super::redis::Redis;
use super::settings::{SettingErrors, Settings, Variables};

/// All that the incumbent's environment variables say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Environment {
    /// The settings that rules and verdicts depend on.
    pub settings: Settings,
    /// The place of the files with rules.
    pub files: RuntimeFiles,
    /// `CONFIG_TYPE`: the source of the rules.
    pub source: RuleSource,
    /// `HOST` and `PORT`: the address for health checks and `/json`. Default: all addresses, port 8080.
    pub http: String,
    /// The listener of the rate limit service.
    pub grpc: GrpcListener,
    /// `DEBUG_HOST` and `DEBUG_PORT`: the address for `/rlconfig` and `/stats`. Default: all addresses, port 6070.
    pub debug: String,
    /// `PROMETHEUS_ADDR`: the address for metrics. Default: all addresses, port 9090. `None` if `USE_PROMETHEUS` is
    /// false.
    pub metrics: Option<String>,
    /// Whether the variables ask for the address for metrics. Otherwise it is only a default.
    pub wants_metrics: bool,
    /// `REDIS_URL` and the other variables of the server; `None` if it isn't set.
    pub redis: Option<Redis>,
    /// `REDIS_PERSECOND_URL` and the other variables of the server for limits per second; `None` if `REDIS_PERSECOND`
    /// isn't true.
    pub redis_per_second: Option<Redis>,
    /// `LOG_LEVEL`, in lower case. Default: `warn`.
    pub log_level: String,
    /// `LOG_FORMAT`: whether the log is JSON. Default: false.
    pub logs_json: bool,
    /// `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED`: whether the service is unhealthy without rules. Default: false.
    pub needs_rules: bool,
    /// Sentences about variables that have no effect.
    pub warnings: Vec<String>,
}

/// The place of the files with rules.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RuntimeFiles {
    /// `RUNTIME_ROOT`: the folder, or a symbolic link to it that is swapped. Default: `/srv/runtime_data/current`.
    pub root: String,
    /// `RUNTIME_SUBDIRECTORY`: a folder in the root. Default: empty.
    pub subdirectory: String,
    /// `RUNTIME_APPDIRECTORY`: the folder in the subdirectory that has the files. Default: `config`.
    pub app_directory: String,
    /// `RUNTIME_WATCH_ROOT`: whether only a new root is a change, not a changed file. Default: true.
    pub watches_root: bool,
    /// `RUNTIME_IGNOREDOTFILES`: whether files and folders that begin with a dot are left out. Default: false.
    pub ignores_dotfiles: bool,
}

/// The source of the rules.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RuleSource {
    /// `FILE`: the files.
    Files,
    /// `GRPC_XDS_SOTW`: a control plane.
    Xds(Box<ControlPlane>),
}

/// The beginnings of the incumbent's variables.
const FAMILIES: [&str; 12] = [
    "RUNTIME_",
    "CONFIG_GRPC_",
    "XDS_CLIENT_",
    "GRPC_",
    "REDIS_",
    "MEMCACHE_",
    "STATSD_",
    "LIMIT_",
    "PROMETHEUS_",
    "TRACING_",
    "LOCAL_CACHE_",
    "EXPIRATION_",
];

/// Variables that are read, or that change nothing here.
const KNOWN: [&str; 56] = [
    "RUNTIME_ROOT",
    "RUNTIME_SUBDIRECTORY",
    "RUNTIME_APPDIRECTORY",
    "RUNTIME_WATCH_ROOT",
    "RUNTIME_IGNOREDOTFILES",
    "CONFIG_GRPC_XDS_NODE_ID",
    "CONFIG_GRPC_XDS_NODE_METADATA",
    "CONFIG_GRPC_XDS_SERVER_URL",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    "CONFIG_GRPC_XDS_SERVER_USE_TLS",
    "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
    "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
    "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
    "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
    "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
    "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
    "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
    "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
    "XDS_CLIENT_BACKOFF_JITTER",
    "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    "GRPC_HOST",
    "GRPC_PORT",
    "GRPC_UDS",
    "GRPC_SERVER_USE_TLS",
    "GRPC_SERVER_TLS_CERT",
    "GRPC_SERVER_TLS_KEY",
    "GRPC_CLIENT_TLS_CACERT",
    "GRPC_CLIENT_TLS_SAN",
    "GRPC_MAX_CONNECTION_AGE",
    "GRPC_MAX_CONNECTION_AGE_GRACE",
    "REDIS_URL",
    "REDIS_TYPE",
    "REDIS_SOCKET_TYPE",
    "REDIS_AUTH",
    "REDIS_TLS",
    "REDIS_TLS_CACERT",
    "REDIS_TLS_CLIENT_CERT",
    "REDIS_TLS_CLIENT_KEY",
    "REDIS_POOL_SIZE",
    "REDIS_PIPELINE_WINDOW",
    "REDIS_PIPELINE_LIMIT",
    "REDIS_PERSECOND",
    "REDIS_PERSECOND_URL",
    "REDIS_PERSECOND_TYPE",
    "REDIS_PERSECOND_SOCKET_TYPE",
    "REDIS_PERSECOND_AUTH",
    "REDIS_PERSECOND_TLS",
    "REDIS_PERSECOND_POOL_SIZE",
    "REDIS_PERSECOND_PIPELINE_WINDOW",
    "REDIS_PERSECOND_PIPELINE_LIMIT",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "LIMIT_LIMIT_HEADER",
    "LIMIT_REMAINING_HEADER",
    "LIMIT_RESET_HEADER",
    "LOCAL_CACHE_SIZE_IN_BYTES",
    "EXPIRATION_JITTER_MAX_SECONDS",
];

impl Environment {
    /// Reads the variables, each a name with its value.
    ///
    /// ```
    /// use sluicegate_envoy::incumbent::Environment;
    ///
    /// let variables = [("REDIS_URL", "10.0.0.5:6379"), ("REDIS_SOCKET_TYPE", "tcp"), ("PORT", "80")];
    /// let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    /// let environment = Environment::read(variables)?;
    /// assert_eq!(environment.http, ":80");
    /// assert_eq!(environment.redis.unwrap().url, "redis://10.0.0.5:6379");
    /// # Ok::<(), sluicegate_envoy::incumbent::SettingErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the problems if variables have wrong values, one sentence for each.
    pub fn read(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingErrors> {
        let mut all: Vec<(String, String)> = variables.into_iter().collect();
        all.sort_unstable();
        let lookup = |name: &str| {
            let found = all.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let mut read = Variables::new(lookup);
        let settings = Settings::read(&mut read);
        let text = |read: &Variables<_>, name, default: &str| {
            read.text(name).unwrap_or_else(|| default.to_owned())
        };
        let files = RuntimeFiles {
            root: text(&read, "RUNTIME_ROOT", "/srv/runtime_data/current"),
            subdirectory: text(&read, "RUNTIME_SUBDIRECTORY", ""),
            app_directory: text(&read, "RUNTIME_APPDIRECTORY", "config"),
            watches_root: read.switch_or("RUNTIME_WATCH_ROOT", true),
            ignores_dotfiles: read.switch("RUNTIME_IGNOREDOTFILES"),
        };
        let source = match read.word("CONFIG_TYPE", &[("FILE", false), ("GRPC_XDS_SOTW", true)]) {
            true => RuleSource::Xds(Box::new(read.control_plane())),
            false => RuleSource::Files,
        };
        let http = read.address("HOST", "PORT", 8080);
        let debug = read.address("DEBUG_HOST", "DEBUG_PORT", 6070);
        let grpc = read.grpc_listener();
        let asks_for_metrics = read.text("USE_PROMETHEUS").map(|_| read.switch("USE_PROMETHEUS"));
        let metrics_address = read.text("PROMETHEUS_ADDR");
        let wants_metrics = asks_for_metrics == Some(true);
        let metrics = (asks_for_metrics != Some(false))
            .then(|| metrics_address.unwrap_or_else(|| ":9090".to_owned()));
        let redis = read.redis();
        let redis_per_second = read.redis_per_second();
        let log_level = text(&read, "LOG_LEVEL", "warn").to_lowercase();
        let logs_json = read.word("LOG_FORMAT", &[("text", false), ("json", true)]);
        let needs_rules = read.switch("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED");
        let mut warnings = unknown(all.iter().map(|(name, _)| name.as_str()));
        let is_asked = |tls: &GrpcTls| tls.client_name.is_some() && tls.client_ca.is_none();
        if grpc.tls.as_ref().is_some_and(is_asked) {
            warnings.push(
                "GRPC_CLIENT_TLS_SAN has no effect: without GRPC_CLIENT_TLS_CACERT, clients present no certificate"
                    .to_owned(),
            );
        }
        if read.text("BACKEND_TYPE").is_some_and(|backend| backend != "redis") {
            warnings.push(
                "BACKEND_TYPE has no effect: the store is Redis, Valkey or memory".to_owned(),
            );
        }
        if read.text("USE_STATSD").is_some() && read.switch("USE_STATSD") {
            warnings.push(
                "USE_STATSD has no effect: metrics are on the address of PROMETHEUS_ADDR"
                    .to_owned(),
            );
        }
        read.finish(Self {
            settings,
            files,
            source,
            http,
            grpc,
            debug,
            metrics,
            wants_metrics,
            redis,
            redis_per_second,
            log_level,
            logs_json,
            needs_rules,
            warnings,
        })
    }
}

/// Returns a sentence for each variable of the incumbent's families that isn't known.
fn unknown<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let is_of_family = |name: &&str| FAMILIES.iter().any(|family| name.starts_with(family));
    let unknown = names.filter(is_of_family).filter(|name| !KNOWN.contains(name));
    unknown.map(|name| format!("{name} has no effect: it isn't supported")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, SettingErrors> {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Environment::read(variables.iter().map(own))
    }

    #[test]
    fn no_variables_are_the_ports_and_folders_of_the_image() {
        let found = read(&[]).unwrap();
        let ports =
            [&found.http, &found.grpc.address, &found.debug, found.metrics.as_ref().unwrap()];
        assert_eq!(ports, [":8080", ":8081", ":6070", ":9090"]);
        assert_eq!(found.files.root, "/srv/runtime_data/current");
        assert_eq!(
            (found.files.app_directory.as_str(), found.files.watches_root),
            ("config", true)
        );
        assert!(found.redis.is_none() && found.warnings.is_empty() && !found.wants_metrics);
    }

    #[test]
    fn addresses_are_of_hosts_and_ports() {
        let found = read(&[
            ("HOST", "0.0.0.0"),
            ("PORT", "80"),
            ("GRPC_HOST", "::1"),
            ("DEBUG_HOST", "localhost"),
            ("DEBUG_PORT", "0"),
            ("USE_PROMETHEUS", "true"),
            ("PROMETHEUS_ADDR", "127.0.0.1:9"),
        ]);
        let found = found.unwrap();
        let ports =
            [&found.http, &found.grpc.address, &found.debug, found.metrics.as_ref().unwrap()];
        assert_eq!(ports, [":80", "[::1]:8081", "localhost:0", "127.0.0.1:9"]);
        assert!(found.wants_metrics);
        assert_eq!(read(&[("USE_PROMETHEUS", "false")]).unwrap().metrics, None);
    }

    #[test]
    fn variables_without_effect_get_a_sentence_each() {
        let found = read(&[
            ("REDIS_SPEED", "high"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "cert.pem"),
            ("GRPC_SERVER_TLS_KEY", "key.pem"),
            ("GRPC_CLIENT_TLS_SAN", "gateway"),
            ("GRPC_WEB", "true"),
            ("USE_STATSD", "true"),
            ("PATH", "/bin"),
        ]);
        assert_eq!(
            found.unwrap().warnings,
            [
                "GRPC_WEB has no effect: it isn't supported",
                "REDIS_SPEED has no effect: it isn't supported",
                "GRPC_CLIENT_TLS_SAN has no effect: without GRPC_CLIENT_TLS_CACERT, clients present no certificate",
                "USE_STATSD has no effect: metrics are on the address of PROMETHEUS_ADDR",
            ]
        );
    }

    #[test]
    fn each_wrong_value_has_a_sentence() {
        let wrong = read(&[
            ("PORT", "70000"),
            ("CONFIG_TYPE", "XML"),
            ("REDIS_URL", "m"),
            ("REDIS_TYPE", "SENTINEL"),
            ("RUNTIME_WATCH_ROOT", "yes"),
        ]);
        assert_eq!(
            wrong.unwrap_err().problems(),
            [
                "RUNTIME_WATCH_ROOT must be true or false, but is `yes`",
                "CONFIG_TYPE must be one of FILE, GRPC_XDS_SOTW, but is `XML`",
                "PORT must be a port from 0 to 65535, but is `70000`",
                "REDIS_URL must be NAME,HOST:PORT,… for REDIS_TYPE SENTINEL, but is `m`",
            ]
        );
    }
}
