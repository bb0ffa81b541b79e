//! Tollgate, a distributed rate limiter: what a service needs, from one crate.

pub mod config;
