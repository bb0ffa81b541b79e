//! The service: an HTTP API, metrics and a page.

mod acquire;
mod asked;
mod body;
mod client;
mod connection;
mod connections;
mod cost;
mod decide;
mod decision_lines;
#[cfg(test)]
mod driven;
mod error;
mod file_limit;
mod gates;
mod given;
mod guard;
mod hold;
mod listener;
mod lists;
mod message;
mod metrics;
mod open_gates;
mod openapi;
mod page;
mod query;
mod readiness;
mod recent;
mod request_id;
mod reserve;
mod router;
mod row;
mod seal;
mod serve;
mod service;
mod settle;
mod stage;
mod status;
mod stop;
mod turns;
mod unreadable;
mod waiting;

pub(crate) use serve::serve;
