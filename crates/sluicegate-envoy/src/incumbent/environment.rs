//! The incumbent's environment: addresses, files and the store.

use super::control_plane::ControlPlane;
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
    /// `GRPC_HOST` and `GRPC_PORT`, or `GRPC_UDS`: the address of the rate limit service. Default: all addresses, port
    /// 8081.
    pub grpc: String,
    /// `DEBUG_HOST` and `DEBUG_PORT`: the address for `/rlconfig` and `/stats`. Default: all addresses, port 6070.
    pub debug: String,
    /// `PROMETHEUS_ADDR`: the address for metrics. Default: all addresses, port 9090. `None` if `USE_PROMETHEUS` is
    /// false.
    pub metrics: Option<String>,
    /// Whether the variables ask for the address for metrics. Otherwise it is only a default.
    pub wants_metrics: bool,
    /// `REDIS_URL` and the other variables of the server; `None` if it isn't set.
    pub redis: Option<Redis>,
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

/// The Redis server of the incumbent.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct Redis {
    /// The URL of the store, without user and password.
    pub url: String,
    /// The user in `REDIS_AUTH`.
    pub user: Option<String>,
    /// The password in `REDIS_AUTH`.
    pub password: Option<String>,
    /// `REDIS_TLS_CACERT`: the file of the certificate authority.
    pub ca: Option<String>,
    /// `REDIS_TLS_CLIENT_CERT`: the file of the client's certificate.
    pub cert: Option<String>,
    /// `REDIS_TLS_CLIENT_KEY`: the file of its key.
    pub key: Option<String>,
}

/// Omits the password.
impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("url", &self.url).finish_non_exhaustive()
    }
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
const KNOWN: [&str; 40] = [
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
        let grpc = match read.text("GRPC_UDS") {
            Some(path) => format!("unix:{path}"),
            None => read.address("GRPC_HOST", "GRPC_PORT", 8081),
        };
        let asks_for_metrics = read.text("USE_PROMETHEUS").map(|_| read.switch("USE_PROMETHEUS"));
        let metrics_address = read.text("PROMETHEUS_ADDR");
        let wants_metrics = asks_for_metrics == Some(true);
        let metrics = (asks_for_metrics != Some(false))
            .then(|| metrics_address.unwrap_or_else(|| ":9090".to_owned()));
        let redis = read.redis();
        let log_level = text(&read, "LOG_LEVEL", "warn").to_lowercase();
        let logs_json = read.word("LOG_FORMAT", &[("text", false), ("json", true)]);
        let needs_rules = read.switch("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED");
        let mut warnings = unknown(all.iter().map(|(name, _)| name.as_str()));
        if read.text("REDIS_PERSECOND").is_some() && read.switch("REDIS_PERSECOND") {
            warnings.push(
                "REDIS_PERSECOND has no effect: limits per second are in the server of REDIS_URL too"
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
    let unknown = names
        .filter(is_of_family)
        .filter(|name| !KNOWN.contains(name) && !name.starts_with("REDIS_PERSECOND"));
    unknown.map(|name| format!("{name} has no effect: it isn't supported")).collect()
}

impl<L: Fn(&str) -> Option<String>> Variables<L> {
    /// Returns the store that `REDIS_URL` and the other variables of the server name.
    fn redis(&mut self) -> Option<Redis> {
        let given = self.text("REDIS_URL")?;
        let is_encrypted = self.switch("REDIS_TLS");
        let kind = self.word(
            "REDIS_TYPE",
            &[("SINGLE", Kind::Single), ("SENTINEL", Kind::Sentinel), ("CLUSTER", Kind::Cluster)],
        );
        let socket = self.word(
            "REDIS_SOCKET_TYPE",
            &[("unix", Socket::Unix), ("tcp", Socket::Tcp), ("tls", Socket::Tls)],
        );
        let scheme = if is_encrypted || socket == Socket::Tls { "rediss" } else { "redis" };
        let url = match kind {
            _ if given.contains("://") => given,
            Kind::Cluster => format!("{scheme}+cluster://{given}"),
            Kind::Sentinel => {
                let (name, hosts) = given.split_once(',').unwrap_or((&given, ""));
                if hosts.is_empty() {
                    self.add(
                        "REDIS_URL",
                        "must be NAME,HOST:PORT,… for REDIS_TYPE SENTINEL",
                        &given,
                    );
                }
                format!("{scheme}+sentinel://{hosts}/{name}")
            }
            Kind::Single if given.starts_with('/') => format!("unix://{given}"),
            Kind::Single => format!("{scheme}://{given}"),
        };
        let auth = self.text("REDIS_AUTH");
        let (user, password) = match auth.as_deref().map(|auth| auth.split_once(':')) {
            Some(Some((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
            Some(None) => (None, auth),
            None => (None, None),
        };
        Some(Redis {
            url,
            user: user.filter(|user| !user.is_empty()),
            password,
            ca: self.text("REDIS_TLS_CACERT"),
            cert: self.text("REDIS_TLS_CLIENT_CERT"),
            key: self.text("REDIS_TLS_CLIENT_KEY"),
        })
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Single,
    Sentinel,
    Cluster,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Socket {
    Unix,
    Tcp,
    Tls,
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
        let ports = [&found.http, &found.grpc, &found.debug, found.metrics.as_ref().unwrap()];
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
        let ports = [&found.http, &found.grpc, &found.debug, found.metrics.as_ref().unwrap()];
        assert_eq!(ports, [":80", "[::1]:8081", "localhost:0", "127.0.0.1:9"]);
        assert!(found.wants_metrics);
        assert_eq!(read(&[("GRPC_UDS", "/run/rls.sock")]).unwrap().grpc, "unix:/run/rls.sock");
        assert_eq!(read(&[("USE_PROMETHEUS", "false")]).unwrap().metrics, None);
    }

    #[test]
    fn the_store_is_of_the_servers_kind() {
        for (variables, url) in [
            (&[("REDIS_URL", "r:6379"), ("REDIS_SOCKET_TYPE", "tcp")][..], "redis://r:6379"),
            (&[("REDIS_URL", "r:6379"), ("REDIS_TLS", "true")], "rediss://r:6379"),
            (&[("REDIS_URL", "/run/redis.sock")], "unix:///run/redis.sock"),
            (&[("REDIS_URL", "rediss://r")], "rediss://r"),
            (&[("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "cluster")], "redis+cluster://a:1,b:2"),
            (
                &[("REDIS_URL", "m,a:1,b:2"), ("REDIS_TYPE", "SENTINEL")],
                "redis+sentinel://a:1,b:2/m",
            ),
        ] {
            assert_eq!(read(variables).unwrap().redis.unwrap().url, url);
        }
        let found = read(&[("REDIS_URL", "r:1"), ("REDIS_AUTH", "user:pass:word")]).unwrap();
        let redis = found.redis.unwrap();
        assert_eq!(redis.user.as_deref(), Some("user"));
        assert_eq!(redis.password.as_deref(), Some("pass:word"));
        assert!(!format!("{redis:?}").contains("pass:word"));
    }

    #[test]
    fn variables_without_effect_get_a_sentence_each() {
        let found = read(&[
            ("REDIS_PERSECOND", "true"),
            ("REDIS_PERSECOND_URL", "r:2"),
            ("REDIS_SPEED", "high"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("USE_STATSD", "true"),
            ("PATH", "/bin"),
        ]);
        assert_eq!(
            found.unwrap().warnings,
            [
                "GRPC_SERVER_USE_TLS has no effect: it isn't supported",
                "REDIS_SPEED has no effect: it isn't supported",
                "REDIS_PERSECOND has no effect: limits per second are in the server of REDIS_URL too",
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
