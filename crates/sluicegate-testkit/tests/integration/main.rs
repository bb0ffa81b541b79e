//! The integration tests of the test kit, in one program: servers, the scripts in an embedded Lua, models.
//!
//! The modules share a process and its shared servers.

mod cluster;
mod defects;
mod giving_up;
mod holds;
mod ids;
mod lanes;
mod lease_model;
mod pauses;
mod permits;
mod processes;
mod proxy;
mod returns;
mod scripted;
mod scripts;
mod sentinels;
mod servers;
mod states;
mod stored;
mod swap_store;
mod tls;
mod turns;
mod versions;
