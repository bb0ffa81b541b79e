//! The charts of the benchmarks.

/// Goals that are drawn together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Chart {
    Embedded,
    Redis,
    EndToEnd,
    Http,
    Operator,
    Resp,
    Envoy,
}

impl Chart {
    pub const ALL: [Self; 7] = [
        Self::Embedded,
        Self::Redis,
        Self::EndToEnd,
        Self::Http,
        Self::Operator,
        Self::Resp,
        Self::Envoy,
    ];

    pub const fn title(self) -> &'static str {
        match self {
            Self::Embedded => "The embedded store",
            Self::Redis => "The Redis store, on the server",
            Self::EndToEnd => "Client, middleware and replay",
            Self::Http => "The service over HTTP",
            Self::Operator => "Operators' tools",
            Self::Resp => "The service in Redis' protocol",
            Self::Envoy => "Envoy's rate limit and quota services",
        }
    }

    pub const fn file(self) -> &'static str {
        match self {
            Self::Embedded => "embedded.svg",
            Self::Redis => "redis.svg",
            Self::EndToEnd => "end-to-end.svg",
            Self::Http => "http.svg",
            Self::Operator => "operator.svg",
            Self::Resp => "resp.svg",
            Self::Envoy => "envoy.svg",
        }
    }
}
