//! Goals that several measurements share, except for their names and targets.

use super::{Better, Chart, Goal};

pub(super) const fn batch(name: &'static str, what: &'static str, target: f64) -> Goal {
    Goal {
        name,
        what,
        target,
        better: Better::Higher,
        unit: "ratio to the decisions/s of one call each",
        chart: Chart::EndToEnd,
    }
}

pub(super) const fn http(name: &'static str, what: &'static str) -> Goal {
    Goal {
        name,
        what,
        target: 0.5,
        better: Better::Higher,
        unit: "ratio to the decisions/s on 32 connections",
        chart: Chart::Http,
    }
}

/// Returns the goal of a service whose processor time is compared with that of another one.
pub(super) const fn time(
    name: &'static str,
    what: &'static str,
    target: f64,
    unit: &'static str,
    chart: Chart,
) -> Goal {
    Goal { name, what, target, better: Better::Higher, unit, chart }
}

/// Returns the goal of a check whose decision is also written.
pub(super) const fn log(name: &'static str, what: &'static str, target: f64) -> Goal {
    const WITHOUT: &str = "ratio of the processor time without it to that with it";
    Goal { name, what, target, better: Better::Higher, unit: WITHOUT, chart: Chart::Operator }
}

pub(super) const fn ratelimit(name: &'static str, what: &'static str) -> Goal {
    Goal {
        name,
        what,
        target: 0.5,
        better: Better::Lower,
        unit: "ratio to the processor time of envoyproxy/ratelimit, each with Redis",
        chart: Chart::Envoy,
    }
}

/// Returns the goal of a command in memory that is compared with a read of a Redis server.
pub(super) const fn resp(name: &'static str, what: &'static str) -> Goal {
    const GET: &str = "ratio of redis-server's processor time for a GET of an existing key to ours";
    Goal { name, what, target: 0.8, better: Better::Higher, unit: GET, chart: Chart::Resp }
}

pub(super) const fn errors(name: &'static str, what: &'static str) -> Goal {
    Goal { name, what, target: 2.0, better: Better::Lower, unit: "%", chart: Chart::Http }
}

pub(super) const fn floor(name: &'static str, what: &'static str) -> Goal {
    const FLOOR: &str = "ratio to the time of a flat fingerprint table";
    Goal { name, what, target: 1.5, better: Better::Lower, unit: FLOOR, chart: Chart::Embedded }
}

pub(super) const fn script(name: &'static str, what: &'static str, target: f64) -> Goal {
    const SCRIPT: &str = "ratio to the server CPU of a token bucket";
    Goal { name, what, target, better: Better::Lower, unit: SCRIPT, chart: Chart::Redis }
}
