//! Tests the real binary, over HTTP and on the command line.

#![expect(clippy::panic, clippy::unwrap_used, reason = "the helpers of tests fail like tests")]

mod acquire;
mod admin;
mod attack;
mod bad_requests;
mod bans;
mod client;
mod clients;
mod clock;
mod command_line;
mod conformance;
mod connect;
mod holds;
mod interrupted;
mod keys;
mod limits_in_requests;
mod lists;
mod many_limits;
mod metrics;
mod once;
mod openapi;
mod pauses;
mod queues;
mod readiness;
mod readme;
mod redis;
mod reload;
mod remote;
mod serve;
mod several;
mod stop;
mod support;
mod units;
