//! Tests the real binary, over HTTP and on the command line.

#![expect(clippy::panic, clippy::unwrap_used, reason = "the helpers of tests fail like tests")]

mod acquire;
mod admin;
mod attack;
mod attack_streams;
mod bad_requests;
mod bans;
mod client;
mod clients;
mod clock;
mod command_line;
mod conformance;
mod connect;
#[cfg(feature = "envoy")]
#[allow(dead_code, clippy::expect_used, reason = "the helpers of another crate's tests")]
#[path = "../../../sluicegate-envoy/tests/service/control_plane.rs"]
mod control_plane;
mod decision_log;
mod deploy;
#[cfg(feature = "envoy")]
mod envoy;
#[cfg(feature = "envoy")]
mod envoy_blocks;
#[cfg(feature = "envoy")]
mod envoy_connections;
#[cfg(feature = "envoy")]
mod envoy_xds;
mod event_stream;
mod explain;
mod fleet;
mod forward_auth;
#[cfg(feature = "envoy")]
mod grpc;
mod holds;
mod http2;
mod idle_connections;
mod interrupted;
mod keys;
mod limits_in_requests;
mod listeners;
mod lists;
#[cfg(feature = "envoy")]
mod log_format;
mod many_limits;
mod metrics;
#[cfg(feature = "envoy")]
mod metrics_guide;
mod once;
mod openapi;
mod overrides;
mod page;
mod pauses;
mod queues;
#[cfg(feature = "envoy")]
mod quota_streams;
mod readiness;
mod readme;
#[cfg(feature = "envoy")]
mod real_envoy;
mod real_proxies;
mod recent;
mod redis;
mod reload;
mod remote;
#[cfg(feature = "resp")]
mod resp;
#[cfg(feature = "resp")]
mod resp_access;
#[cfg(feature = "resp")]
mod resp_attack;
#[cfg(feature = "resp")]
mod resp_client;
#[cfg(feature = "resp")]
mod resp_clients;
#[cfg(feature = "resp")]
mod resp_holds;
mod serve;
mod several;
mod simulate;
mod stop;
mod stream;
mod streams;
mod supervisor;
mod support;
mod tls;
#[cfg(all(feature = "envoy", feature = "otlp"))]
mod traces;
mod units;
