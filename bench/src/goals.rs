//! The goals of the benchmarks.

mod chart;
mod kinds;

pub use chart::Chart;
use kinds::{batch, errors, floor, http, log, ratelimit, resp, script, time};

/// The better direction of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Better {
    Lower,
    Higher,
}

/// A target for one measured value.
#[derive(Debug)]
pub struct Goal {
    pub name: &'static str,
    /// Description of the measurement.
    pub what: &'static str,
    pub target: f64,
    pub better: Better,
    pub unit: &'static str,
    /// The chart that shows it.
    pub chart: Chart,
}

impl Goal {
    pub fn is_met(&self, value: f64) -> bool {
        match self.better {
            Better::Lower => value <= self.target,
            Better::Higher => value >= self.target,
        }
    }

    /// Returns the target with the sign of the side that meets it.
    pub fn bound(&self) -> String {
        let sign = match self.better {
            Better::Lower => "≤",
            Better::Higher => "≥",
        };
        format!("{sign} {}", self.target)
    }
}

pub fn names() -> Vec<&'static str> {
    GOALS.iter().map(|goal| goal.name).collect()
}

/// Units of the goals that compare processor times of services.
const EMPTY: &str = "ratio of an empty service's processor time to ours";
const LIMITADOR: &str = "ratio of Limitador's processor time to ours";
const THROTTLECRAB: &str = "ratio of throttlecrab's processor time to ours";

const EMPTY_AUTH: &str =
    "ratio of the processor time of nginx and a server that answers 204 to that of nginx and ours";
const REDIS_CELL: &str = "ratio of the processor time of a Redis server with redis-cell to ours";

/// All goals, in the order of their measurement.
pub const GOALS: &[Goal] = &[
    floor("embedded-1-key-1-thread", "token bucket, 1 key, 1 thread, time given"),
    floor("embedded-1-key-2-threads", "token bucket, 1 key, 2 threads, time given"),
    floor("embedded-100k-keys-1-thread", "token bucket, 100,000 keys, 1 thread, time given"),
    floor("embedded-100k-keys-2-threads", "token bucket, 100,000 keys, 2 threads, time given"),
    floor("embedded-1m-keys-1-thread", "token bucket, 1,000,000 keys, 1 thread, time given"),
    floor("embedded-1m-keys-2-threads", "token bucket, 1,000,000 keys, 2 threads, time given"),
    Goal {
        name: "embedded-governor-same-clock",
        what: "compared with governor's keyed limiter, 100,000 keys, both read the same clock for \
               each decision",
        target: 1.5,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-governor-batch",
        what: "compared with governor's keyed limiter, 100,000 keys, ours reads the clock once \
               per batch",
        target: 3.0,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-limiter-check",
        what: "`Limiter::check`, awaited, with the system's clock, compared with governor's keyed \
               limiter and clock, 100,000 keys",
        target: 1.0,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-gate-check",
        what: "a registry gate's check, awaited, with the system's clock, compared with \
               governor's keyed limiter and clock, 100,000 keys",
        target: 1.0,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-bytes-per-key",
        what: "memory for 0.6 to 2 million keys, the worst of nine sizes",
        target: 48.0,
        better: Better::Lower,
        unit: "bytes per key",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-allocations",
        what: "allocations: admitted, denied, one policy and three",
        target: 0.0,
        better: Better::Lower,
        unit: "allocations per decision",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-permit-take",
        what: "taking a permit, 100,000 keys, compared with a token bucket's check, time given",
        target: 3.0,
        better: Better::Lower,
        unit: "ratio to the time of a check",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-permit-release",
        what: "releasing a permit, 100,000 keys, compared with a token bucket's check, time given",
        target: 3.0,
        better: Better::Lower,
        unit: "ratio to the time of a check",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-permits-p99",
        what: "99 of 100 operations on 65,536 permits of one key, in processor time of its \
               thread. The worst of take, renew, release, refusal and expiry",
        target: 20.0,
        better: Better::Lower,
        unit: "µs",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-reclaim-worst-call",
        what: "the slowest call while a million expired keys are reclaimed and 100,000 new ones a \
               second arrive, in processor time of its thread. The median of three runs",
        target: 1000.0,
        better: Better::Lower,
        unit: "µs",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-flood-freed",
        what: "exhausted keys freed by a flood of 16 times as many single-use keys as fit, under \
               the same limit or another one",
        target: 0.0,
        better: Better::Lower,
        unit: "keys",
        chart: Chart::Embedded,
    },
    Goal {
        name: "redis-token-bucket",
        what: "token bucket, compared with a script of only TIME, GET and SET PX",
        target: 1.35,
        better: Better::Lower,
        unit: "ratio to the server CPU of the calls alone",
        chart: Chart::Redis,
    },
    Goal {
        name: "redis-denial",
        what: "a denial, compared with a script of only TIME, GET and the same reply",
        target: 1.35,
        better: Better::Lower,
        unit: "ratio to the server CPU of the calls alone",
        chart: Chart::Redis,
    },
    script("redis-ten-policies", "ten token buckets of one subject, compared with one", 3.0),
    script("redis-sliding-window", "sliding window of 60 live slices", 2.0),
    script("redis-sliding-log", "sliding log of 100 live entries", 2.5),
    script("redis-hold", "token bucket, a check that holds its cost", 1.7),
    script("redis-settle", "token bucket, settling a held check for a third of its cost", 1.5),
    script("redis-permit-take", "taking a permit with 1,000 in flight", 2.5),
    script("redis-permit-release", "releasing a permit with 1,000 in flight", 2.5),
    script("redis-request-id", "token bucket, a check with a new request id", 1.6),
    Goal {
        name: "redis-queue-calls",
        what: "median calls of a waiter, without those that keep its place. A queue of 1,000 \
               waiters in four processes; 10 work for 50 ms at the same time. The worse of one \
               and four priorities",
        target: 3.0,
        better: Better::Lower,
        unit: "calls",
        chart: Chart::Redis,
    },
    Goal {
        name: "redis-queue-slots",
        what: "used share of the ten permits' time while others wait; the worse of one and four \
               priorities",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to their whole time",
        chart: Chart::Redis,
    },
    Goal {
        name: "redis-bytes-30",
        what: "MEMORY USAGE of a token bucket whose key has 30 bytes",
        target: 104.0,
        better: Better::Lower,
        unit: "bytes",
        chart: Chart::Redis,
    },
    Goal {
        name: "redis-bytes-44",
        what: "MEMORY USAGE of a token bucket whose key has 44 bytes",
        target: 120.0,
        better: Better::Lower,
        unit: "bytes",
        chart: Chart::Redis,
    },
    Goal {
        name: "client-throughput",
        what: "decisions/s on one connection, compared with bare EVALSHA calls, on a server that \
               isn't saturated",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to the decisions/s of bare calls",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "deny-cache-16-tasks",
        what: "decisions of 16 tasks with a deny cache, with nine of ten requests over the limit",
        target: 6.0,
        better: Better::Higher,
        unit: "ratio to the decisions/s without it",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "layers-16-tasks",
        what: "decisions of 16 tasks through breaker, deny cache and leases, on keys that profit from none",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to the store alone",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "lease-16-tasks",
        what: "decisions of 16 tasks for one key with leases of 100, requested early",
        target: 15.0,
        better: Better::Higher,
        unit: "ratio to the decisions/s without leases",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "lease-local-p50",
        what: "median duration of a lease holder's decisions without a call",
        target: 1.0,
        better: Better::Lower,
        unit: "µs",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "lease-over-admission",
        what: "units spent beyond the limit by four lease holders that request more than there is",
        target: 0.0,
        better: Better::Lower,
        unit: "units",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "breaker-open-p50",
        what: "median duration of a request while a breaker is open",
        target: 2.0,
        better: Better::Lower,
        unit: "µs",
        chart: Chart::EndToEnd,
    },
    batch("batch-1-task", "calls of 1 task, batched or one by one", 0.95),
    batch("batch-16-tasks", "calls of 16 tasks, batched or one by one", 0.95),
    batch("batch-128-tasks", "calls of 128 tasks, batched or one by one", 1.3),
    batch("batch-1024-tasks", "calls of 1,024 tasks, batched or one by one", 1.5),
    Goal {
        name: "batch-1024-server-cpu",
        what: "a decision of 1,024 tasks with batched calls. This goal or `batch-1024-tasks` must \
               be met",
        target: 0.67,
        better: Better::Lower,
        unit: "ratio to the server CPU of one call each",
        chart: Chart::EndToEnd,
    },
    batch("coalescing-1024-tasks", "calls of 1,024 tasks for one key, batched or one by one", 3.0),
    Goal {
        name: "cluster-cpu",
        what: "a decision of three cluster primaries, compared with a single server, 16 tasks for \
               each",
        target: 1.1,
        better: Better::Lower,
        unit: "ratio to the server CPU of a single server",
        chart: Chart::Redis,
    },
    Goal {
        name: "cluster-cpu-one-by-one",
        what: "like `cluster-cpu`, but the single server's calls aren't batched either",
        target: 1.1,
        better: Better::Lower,
        unit: "ratio to the server CPU of a single server",
        chart: Chart::Redis,
    },
    Goal {
        name: "recovery-sentinel",
        what: "from the promotion of a killed primary's replica to the first of 100 consecutive \
               decisions",
        target: 1000.0,
        better: Better::Lower,
        unit: "ms",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "overload-goodput",
        what: "worst open-loop goodput at 1, 1.2 and 2 times the server's capacity",
        target: 0.9,
        better: Better::Higher,
        unit: "ratio to the highest rate with 99 % decided within 50 ms",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "overload-refusals",
        what: "maximum duration of 99 of 100 refusals in an overload",
        target: 1000.0,
        better: Better::Lower,
        unit: "µs",
        chart: Chart::EndToEnd,
    },
    time("http-check", "a check, 64 connections", 0.92, EMPTY, Chart::Http),
    Goal {
        name: "http-check-redis",
        what: "a check on Redis, 64 connections. The time of Redis isn't counted",
        target: 0.75,
        better: Better::Higher,
        unit: "ratio of the processor time of a check in memory to it",
        chart: Chart::Http,
    },
    time("http-throttlecrab", "a check, 64 connections", 1.0, THROTTLECRAB, Chart::Http),
    time("http-limitador", "a check, 64 connections", 1.0, LIMITADOR, Chart::Http),
    time(
        "forward-auth-nginx",
        "nginx that asks about each request for a file",
        0.9,
        EMPTY_AUTH,
        Chart::Http,
    ),
    http("http-512-connections", "decisions/s of the service on 512 connections, compared with 32"),
    http(
        "http-3000-connections",
        "decisions/s of the service on 3,000 connections, compared with 32",
    ),
    errors("http-512-errors", "undecided requests on 512 connections"),
    errors("http-3000-errors", "undecided requests on 3,000 connections"),
    log("decision-log", "a check, with a decision log of all decisions", 0.9),
    log(
        "decision-log-1-percent",
        "a check, with a decision log of 1 % of the allowed decisions",
        0.98,
    ),
    log("recorder", "a check, with the recorder for simulations", 0.98),
    log("traces-off", "a check, with traces that are built in and off", 0.98),
    Goal {
        name: "stream-cpu",
        what: "the page's stream, with 10,000 limits and 100,000 checks/s in Redis' protocol",
        target: 3.0,
        better: Better::Lower,
        unit: "% of the service's processor time",
        chart: Chart::Operator,
    },
    Goal {
        name: "override-median",
        what: "from the answer to an override to the first decision by it, in each of 8 processes \
               under load, while another one is stopped",
        target: 300.0,
        better: Better::Lower,
        unit: "ms, the median",
        chart: Chart::Operator,
    },
    Goal {
        name: "override-worst",
        what: "like `override-median`, the slowest process",
        target: 2000.0,
        better: Better::Lower,
        unit: "ms",
        chart: Chart::Operator,
    },
    Goal {
        name: "override-woken",
        what: "like `override-median`, from the moment when the stopped process continues to its \
               first decision by the last override",
        target: 2000.0,
        better: Better::Lower,
        unit: "ms",
        chart: Chart::Operator,
    },
    resp("resp-check-1", "`SG.CHECK` on 50 connections, one at a time on each"),
    resp("resp-check-16", "`SG.CHECK` on 50 connections, in pipelines of 16"),
    resp("resp-check-64", "`SG.CHECK` on 50 connections, in pipelines of 64"),
    resp("resp-throttle-1", "`CL.THROTTLE` on 50 connections, one at a time on each"),
    resp("resp-throttle-16", "`CL.THROTTLE` on 50 connections, in pipelines of 16"),
    resp("resp-throttle-64", "`CL.THROTTLE` on 50 connections, in pipelines of 64"),
    time("resp-throttlecrab", "`THROTTLE` in pipelines of 16", 1.0, THROTTLECRAB, Chart::Resp),
    time("resp-redis-cell", "`CL.THROTTLE` in pipelines of 16", 1.0, REDIS_CELL, Chart::Resp),
    time(
        "rls-1-descriptor",
        "`sluicegate serve`, a call with one descriptor",
        0.88,
        EMPTY,
        Chart::Envoy,
    ),
    time(
        "rls-3-descriptors",
        "`sluicegate serve`, a call with three descriptors",
        0.88,
        EMPTY,
        Chart::Envoy,
    ),
    time(
        "rls-files-1-descriptor",
        "`sluicegate envoy`, a call with one descriptor",
        0.88,
        EMPTY,
        Chart::Envoy,
    ),
    time(
        "rls-files-3-descriptors",
        "`sluicegate envoy`, a call with three descriptors",
        0.88,
        EMPTY,
        Chart::Envoy,
    ),
    time(
        "rls-limitador-1-descriptor",
        "`sluicegate serve`, a call with one descriptor",
        1.0,
        LIMITADOR,
        Chart::Envoy,
    ),
    time(
        "rls-limitador-3-descriptors",
        "`sluicegate serve`, a call with three descriptors",
        1.0,
        LIMITADOR,
        Chart::Envoy,
    ),
    ratelimit("rls-ratelimit-1-descriptor", "`sluicegate envoy`, a call with one descriptor"),
    ratelimit("rls-ratelimit-3-descriptors", "`sluicegate envoy`, a call with three descriptors"),
    Goal {
        name: "rls-64-descriptors",
        what: "`sluicegate envoy` on Redis, a call with 64 descriptors, compared with one that has \
               one. Calls one after the other",
        target: 15.0,
        better: Better::Lower,
        unit: "ratio to the server CPU of one descriptor",
        chart: Chart::Envoy,
    },
    Goal {
        name: "rlqs-10000-buckets",
        what: "`sluicegate serve` with 10,000 buckets of quotas: 100 Envoys, each with 100",
        target: 0.2,
        better: Better::Lower,
        unit: "processors in use",
        chart: Chart::Envoy,
    },
    Goal {
        name: "layer-throughput",
        what: "requests/s of an axum handler behind the layer, under wrk. The compared layer \
               takes the peer's address and formats two fields",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to the requests/s behind the compared layer",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "layer-throughput-bare",
        what: "requests/s of an axum handler behind the layer, compared with the bare handler, \
               under wrk",
        target: 0.85,
        better: Better::Higher,
        unit: "ratio to the requests/s of the bare handler",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "erasure-gate",
        what: "a check through a registry's gate, compared with the same check on the concrete \
               limiter",
        target: 1.25,
        better: Better::Lower,
        unit: "ratio to the time on the concrete limiter",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "erasure-five-layers",
        what: "a gate over five layers that add nothing, erased once, compared with a gate over \
               none",
        target: 1.3,
        better: Better::Lower,
        unit: "ratio to the time over no layer",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "replay-speed",
        what: "lines/s of `sluicegate replay`, compared with a Python script",
        target: 20.0,
        better: Better::Higher,
        unit: "times as fast as the script",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "replay-json",
        what: "lines/s of `sluicegate replay` for a JSON log, compared with the same requests in \
               the combined format",
        target: 1.0,
        better: Better::Higher,
        unit: "ratio to the lines/s of the combined format",
        chart: Chart::EndToEnd,
    },
];
