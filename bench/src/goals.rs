//! The goals, and why some are not met.

/// Which way is better.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Better {
    Lower,
    Higher,
}

/// Something to reach.
#[derive(Debug)]
pub struct Goal {
    pub name: &'static str,
    /// What is measured, in words.
    pub what: &'static str,
    pub target: f64,
    pub better: Better,
    pub unit: &'static str,
    /// The chart it is drawn in.
    pub chart: Chart,
}

/// Goals that are drawn together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Chart {
    Embedded,
    Redis,
    EndToEnd,
}

impl Chart {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Redis, Self::EndToEnd];

    pub const fn title(self) -> &'static str {
        match self {
            Self::Embedded => "The embedded store",
            Self::Redis => "The Redis store, on the server",
            Self::EndToEnd => "Client, middleware and replay",
        }
    }

    pub const fn file(self) -> &'static str {
        match self {
            Self::Embedded => "embedded.svg",
            Self::Redis => "redis.svg",
            Self::EndToEnd => "end-to-end.svg",
        }
    }
}

impl Goal {
    pub fn is_met(&self, value: f64) -> bool {
        match self.better {
            Better::Lower => value <= self.target,
            Better::Higher => value >= self.target,
        }
    }

    /// The target, and which side of it is met.
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

/// What a profile shows of a goal that is not met on the machine it was profiled on.
pub fn why(name: &str) -> Option<&'static str> {
    WHY.iter().find(|(goal, _)| *goal == name).map(|(_, why)| *why)
}

/// Read only for goals that are not met.
const WHY: &[(&str, &str)] = &[
    (
        "embedded-1-key-1-thread",
        "a profile shows two fifths of our time in the hash that the floor needs as well, and half \
         in one chain that nothing can shorten while all answers are about one slot: the lock's \
         exchange, the shard's header, the slot, the state, the writes that the next answer reads; \
         the rest is the answer itself, of which the floor gives one bit",
    ),
    (
        "embedded-1-key-2-threads",
        "both threads want the same lock, and with it come two lines, the shard's and the slot's, \
         where the floor has one; the one that waits looks seldom, so that the other decides \
         several times in between, but that needs two idle processors",
    ),
    ("embedded-100k-keys-2-threads", TWO_THREADS),
    ("embedded-1m-keys-2-threads", TWO_THREADS),
    (
        "embedded-governor-batch",
        "a profile shows a third of our time in waiting for slots, although a group's slots are \
         loaded together, a fifth in hashing, a seventh each in writing the key and in making the \
         answer: with all but the first two taken away it would be at 5; groups of 32 instead of 16 \
         changed nothing",
    ),
    (
        "embedded-bytes-per-key",
        "the slots take 38 to 42 bytes a key at every size; the rest is resident memory that the \
         allocator keeps in holes, which differs by up to two bytes from run to run",
    ),
    (
        "redis-denial",
        "a denial leaves out SET and packing alone: receiving and parsing the call, TIME, GET, \
         unpacking program and state, and the answer are paid either way, and a script of TIME and \
         GET alone is at 0.52; the profile is flat, with looking up keys and commands and reading \
         the clock on top",
    ),
    (
        "redis-sliding-window",
        "a profile shows a fifth of the server's time in hashing strings: Lua hashes all 870 bytes \
         of the state when they are read, and again when a slice begins or leaves; keys at a steady \
         pace leave the server idle in between, so that the figures vary",
    ),
    (
        "redis-ten-policies",
        "what grows with each policy is unpacking its program and its state and packing the new \
         one, in interpreted Lua; the profile is flat",
    ),
    (
        "client-throughput",
        "client and server share the machine's processors, so what the client adds to a bare call \
         (a deadline, and the decision computed from the stored state) shows; not profiled further",
    ),
    (
        "layer-throughput",
        "a profile shows 68 % of our thread's time in the kernel and 5 % in what is ours: a quarter \
         of that in making and writing the fields, which that layer does too, the rest in the key, \
         the decision and the steps between; copies of decisions and fields from one to the next \
         add 1.5 %",
    ),
    (
        "layer-throughput-bare",
        "half of the difference is the peer's address and the two fields, which the least layer \
         makes as well; the rest is as for `layer-throughput`",
    ),
    (
        "replay-speed",
        "a profile shows a quarter of the time in memmove: a decision, its states and its answer \
         pass by value through several types",
    ),
];

/// Why two threads on many keys miss a goal.
const TWO_THREADS: &str = "a profile shows both sides waiting alike for the slot and for the key; \
     what we add is the shard's lock and header, a line that the other processor wrote last, where \
     the floor has its lock in the slot, and the whole answer instead of one bit; when a holder \
     loses its processor to another program the other thread spins, so the goal needs two idle \
     processors";

const FLOOR: &str = "ratio to the time of a flat fingerprint table";
const SCRIPT: &str = "ratio to the server CPU of a token bucket";

/// All of them, in the order they are measured.
pub const GOALS: &[Goal] = &[
    floor("embedded-1-key-1-thread", "token bucket, 1 key, 1 thread, time given"),
    floor("embedded-1-key-2-threads", "token bucket, 1 key, 2 threads, time given"),
    floor("embedded-100k-keys-1-thread", "token bucket, 100,000 keys, 1 thread, time given"),
    floor("embedded-100k-keys-2-threads", "token bucket, 100,000 keys, 2 threads, time given"),
    floor("embedded-1m-keys-1-thread", "token bucket, 1,000,000 keys, 1 thread, time given"),
    floor("embedded-1m-keys-2-threads", "token bucket, 1,000,000 keys, 2 threads, time given"),
    Goal {
        name: "embedded-governor-same-clock",
        what: "against governor keyed, 100,000 keys, the same clock read for each decision",
        target: 1.5,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-governor-batch",
        what: "against governor keyed, 100,000 keys, ours in batches with one reading of the clock",
        target: 4.0,
        better: Better::Higher,
        unit: "times as fast as governor",
        chart: Chart::Embedded,
    },
    Goal {
        name: "embedded-bytes-per-key",
        what: "memory for 0.6 to 2 million keys, at the worst of seven sizes",
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
        name: "redis-token-bucket",
        what: "token bucket against a script of TIME, GET and SET PX alone",
        target: 1.35,
        better: Better::Lower,
        unit: "ratio to the server CPU of the calls alone",
        chart: Chart::Redis,
    },
    Goal {
        name: "redis-denial",
        what: "a denial against a script of TIME, GET and the same reply alone",
        target: 1.35,
        better: Better::Lower,
        unit: "ratio to the server CPU of the calls alone",
        chart: Chart::Redis,
    },
    script("redis-ten-policies", "ten token buckets of one subject against one", 3.0),
    script("redis-sliding-window", "sliding window of 60 live slices", 2.0),
    script("redis-sliding-log", "sliding log of 100 live entries", 2.5),
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
        what: "decisions/s on one connection against bare EVALSHA calls, the server not saturated",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to the decisions/s of bare calls",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "layer-throughput",
        what: "requests/s of an axum handler behind the layer against one behind a layer that takes \
               the peer's address and formats two fields, under wrk",
        target: 0.95,
        better: Better::Higher,
        unit: "ratio to the requests/s behind that layer",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "layer-throughput-bare",
        what: "requests/s of an axum handler behind the layer against the bare handler, under wrk",
        target: 0.85,
        better: Better::Higher,
        unit: "ratio to the requests/s of the bare handler",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "erasure-gate",
        what: "a check through a registry's gate against the same check on the concrete limiter",
        target: 1.25,
        better: Better::Lower,
        unit: "ratio to the time on the concrete limiter",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "erasure-five-layers",
        what: "a gate over five layers that add nothing, erased once, against a gate over none",
        target: 1.3,
        better: Better::Lower,
        unit: "ratio to the time over no layer",
        chart: Chart::EndToEnd,
    },
    Goal {
        name: "replay-speed",
        what: "lines/s of `sluicegate replay` against a Python script",
        target: 20.0,
        better: Better::Higher,
        unit: "times as fast as the script",
        chart: Chart::EndToEnd,
    },
];

const fn floor(name: &'static str, what: &'static str) -> Goal {
    Goal { name, what, target: 1.5, better: Better::Lower, unit: FLOOR, chart: Chart::Embedded }
}

const fn script(name: &'static str, what: &'static str, target: f64) -> Goal {
    Goal { name, what, target, better: Better::Lower, unit: SCRIPT, chart: Chart::Redis }
}
