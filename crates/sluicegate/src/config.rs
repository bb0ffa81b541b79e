//! The configuration file: the limits, the store of their state, and what happens when it fails.
//!
//! ```yaml
//! store: "memory:"                  # or redis://HOST:PORT, rediss://HOST:PORT, unix:///PATH
//! listeners:
//!   http: 127.0.0.1:8080            # or :PORT, unix:PATH, fd:NAME; also grpc, resp, admin, …
//! enabled: true                     # false: everything passes
//! unknown_limits: error             # names without a limit: or pass, warn, deny
//! max_clock_back: 5s                # how long a clock that is set back can hold up a key
//! limits:
//!   demo:
//!     policies: ["token_bucket 10/s burst 20"]
//!     enabled: true
//!     key: ip                       # how middleware makes the key
//!     missing_key: shared           # who has none: or refuse, skip
//!     allow: [10.1.0.0/16]          # pass, and are not counted
//!     block: [10.1.6.6]             # are denied
//!     overrides:                    # have other numbers
//!       - key: 192.0.2.0/24
//!         times: 10
//!       - key: 192.0.2.7
//!         policies: ["token_bucket 500/s burst 1000"]
//!     on_store_failure: error       # or allow, deny, local
//!     deadline: 50ms                # of a call to the store
//! http:
//!   client_address: x-forwarded-for # or peer, forwarded, header:NAME, hops:N
//!   trusted_proxies: [172.16.0.0/12]
//!   ipv4_prefix: 32                 # how much of an address tells clients apart
//!   ipv6_prefix: 64
//!   fields: draft-11                # or none, draft-next, draft-03, x-ratelimit, x-ratelimit-unix
//! memory:
//!   max_keys: 1000000
//!   max_bytes: 256000000
//!   overflow: evict                 # or deny
//! redis:
//!   prefix: sg
//!   user: limiter                   # with password, or
//!   password_file: /run/secrets/redis
//!   ca: /etc/redis/ca.pem           # for rediss:// as cert, key and server_name
//!   sentinel: {}                    # what sentinels are reached with, where it is something else
//! fallback:                         # of limits with `on_store_failure: local`
//!   processes: 4                    # that share them; or counted
//! service:
//!   max_connections: 10000          # open at once
//!   max_connections_per_address: 100 # default: no bound
//!   max_requests: 256               # decided at once; others wait
//!   max_waiting: 1000               # that wait for units; others are denied at once
//! metrics:
//!   max_series: 10000               # further limits count together as limit="other"
//! clients:                          # of the service: who may do what
//!   - name: shop
//!     token_file: /run/secrets/shop # or token_env, certificate
//!     may: [check, hold]            # or read, admin
//!     limits: ["shop-*"]
//! limits_in_requests: false         # whether requests to the service may give policies
//! resp:
//!   throttle: true                  # whether CL.THROTTLE and THROTTLE are carried out
//! envoy:                            # the limits of Envoy's descriptors
//!   domains: {edge: [{match: {user: "*"}, limit: login}]}
//! ```
//!
//! Only `limits`, with `policies` for each, is required. Parsing reports all problems of a file together, each with its
//! line and column. `docs/configuration.md` explains every field.
//!
//! # Entries that name keys
//!
//! `allow`, `block` and the `key` of an override match keys. `alice` matches that key, and `tenant-*` all keys with
//! that prefix. `10.0.0.0/8` matches all keys with a client address in that range, and `acme|*` all keys with that
//! first component. See [`KeyMatcher`](crate::http::KeyMatcher) for the details. If several entries match a key, the
//! most specific one counts, regardless of their order: see [`KeyMap`](sluicegate_http::KeyMap). In code, an entry of
//! `block` beats an equal one of `allow`; in a file that is an error. A key on neither list has the numbers of the
//! override that matches it, or else those of the limit.
//!
//! An override has the policies of its limit with other numbers. It lists the same names, algorithms and windows in the
//! same order. Or it sets `times` as much of every rate, burst, capacity, queue and limit.

pub use crate::config_file::{
    ClientCertificates, ClientConfig, ClientCredential, ClientToken, ConfigCaps, ConfigErrors,
    ConfigProblem, DecisionLogConfig, DescriptorLimit, EnvoyConfig, EnvoyDomain, FallbackConfig,
    FilePlace, HttpConfig, LimitBlock, LimitConfig, LimitOrigins, LimitPattern, LimitPatternError,
    ListenAddress, ListenAddressError, ListenHost, ListenerConfig, ListenersConfig, LoggedKeys,
    MemoryConfig, MetricsConfig, Origins, Overflow, Override, OverrideError, Password,
    RecorderConfig, RecorderSize, RecorderSizeError, RedisAccess, RedisConfig, RedisUrl,
    RespConfig, Right, Sample, SampleError, SentinelAccess, ServiceConfig, SocketMode, StoreUrl,
    StoreUrlError, Switch, Times, TimesError, TlsConfig, Tree, TreeKey, TreeValue, UnknownLimit,
};
pub use crate::registry::{Changes, RegistryBuilder, RequestKeys};
pub use crate::uses::Uses;
#[cfg(feature = "watch")]
pub use crate::watch::{Reload, Watch, WatchOptions, WatchStatus};
