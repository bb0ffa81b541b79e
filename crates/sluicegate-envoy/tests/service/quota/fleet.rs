//! A small fleet of simulated Envoys: they never exceed the limit together, and use most of it.

#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "a simulation of Envoy, which counts tokens in floating point"
)]

use sluicegate_envoy::service::QuotaStream;

use super::{Service, Told, ask_one, read};

const RATE: f64 = 1_000.0;
const BURST: f64 = 10_000.0;
/// Steps of the simulation in a second.
const STEPS: u32 = 100;

/// An Envoy with the behaviour of version 1.40.
struct Envoy {
    stream: QuotaStream,
    /// Requests per second.
    demand: f64,
    /// Fractions of requests that are still to come.
    pending: f64,
    bucket: Option<TokenBucket>,
    is_known: bool,
    allowed: u64,
    denied: u64,
    /// The step in each five seconds at which it reports.
    tick: u32,
}

struct TokenBucket {
    max: f64,
    rate: f64,
    tokens: f64,
    /// The step at which it expires.
    ends: u32,
}

impl Envoy {
    fn new(service: &Service, index: u32) -> Self {
        Self {
            stream: service.open(),
            demand: 0.0,
            pending: 0.0,
            bucket: None,
            is_known: false,
            allowed: 0,
            denied: 0,
            tick: index * 37 % (5 * STEPS),
        }
    }

    /// Takes what the service says. A changed bucket keeps its filling.
    fn learn(&mut self, told: Option<Told>, now: u32) {
        match told {
            Some(Told::Share { max, rate, seconds }) => {
                let (max, rate) = (max as f64, rate as f64);
                let tokens = self.bucket.as_ref().map_or(1.0, |known| known.tokens / known.max);
                let ends = now + u32::try_from(seconds).expect("a time") * STEPS;
                self.bucket = Some(TokenBucket { max, rate, tokens: tokens * max, ends });
            }
            Some(Told::Abandon) => (self.bucket, self.is_known) = (None, false),
            other => assert!(other.is_none(), "{other:?}"),
        }
    }

    /// Serves the requests of a step, and returns how many were admitted.
    async fn step(&mut self, now: u32) -> u64 {
        if let Some(bucket) = &mut self.bucket {
            bucket.tokens = (bucket.tokens + bucket.rate / f64::from(STEPS)).min(bucket.max);
            if now >= bucket.ends {
                self.bucket = None;
            }
        }
        self.pending += self.demand / f64::from(STEPS);
        let mut admitted = 0;
        while self.pending >= 1.0 {
            self.pending -= 1.0;
            match &mut self.bucket {
                Some(bucket) if bucket.tokens >= 1.0 => {
                    bucket.tokens -= 1.0;
                    self.allowed += 1;
                    admitted += 1;
                }
                _ => self.denied += 1,
            }
            if !self.is_known {
                self.is_known = true;
                self.report(0, now).await;
            }
        }
        if now % (5 * STEPS) == self.tick && self.is_known {
            self.report(4, now).await;
        }
        if let Some(expired) = self.stream.expire() {
            let told = read(expired.message)[0].1;
            self.learn(Some(told), now);
        }
        admitted
    }

    async fn report(&mut self, seconds: i64, now: u32) {
        let told = ask_one(&mut self.stream, self.allowed, self.denied, seconds).await;
        (self.allowed, self.denied) = (0, 0);
        self.learn(told, now);
    }
}

/// Checks every interval: the largest excess over burst + rate × length so far.
struct Auditor {
    total: f64,
    lowest: f64,
    excess: f64,
}

impl Auditor {
    fn note(&mut self, admitted: u64, now: u32) {
        let flowed = RATE * f64::from(now) / f64::from(STEPS);
        self.lowest = self.lowest.min(self.total - flowed);
        self.total += admitted as f64;
        self.excess = self.excess.max(self.total - flowed - self.lowest - BURST);
    }
}

#[tokio::test]
async fn ten_envoys_with_twice_the_demand_never_exceed_the_limit_and_use_most_of_it() {
    let service = Service::new();
    let mut envoys: Vec<_> = (0..10).map(|index| Envoy::new(&service, index)).collect();
    let mut auditor = Auditor { total: 0.0, lowest: 0.0, excess: f64::MIN };
    let (mut used, mut measured) = (0, 0);
    const PHASE: u32 = 40;
    for now in 0..5 * PHASE * STEPS {
        let (phase, since) = (now / STEPS / PHASE, now % (PHASE * STEPS));
        if since == 0 {
            // Two have most of the demand, and which these are moves.
            for (index, envoy) in envoys.iter_mut().enumerate() {
                let index = (index + 3 * phase as usize) % 10;
                envoy.demand =
                    [900.0, 600.0, 100.0, 80.0, 80.0, 60.0, 60.0, 60.0, 60.0, 0.0][index];
            }
        }
        let mut admitted = 0;
        for envoy in &mut envoys {
            admitted += envoy.step(now).await;
        }
        auditor.note(admitted, now);
        if since >= 15 * STEPS {
            (used, measured) = (used + admitted, measured + 1);
        }
        service.pass(1_000 / u64::from(STEPS));
    }
    assert!(auditor.excess <= 0.0, "{} too many", auditor.excess);
    let utilisation = used as f64 * f64::from(STEPS) / f64::from(measured) / RATE;
    assert!(utilisation >= 0.9, "{utilisation}");
    let counts = service.quotas.counts();
    let messages = (counts.assigned + counts.carried_on + counts.abandoned) as f64;
    let most = 1.3 * 10.0 * f64::from(PHASE);
    assert!(messages <= most, "{messages} messages, at most {most}");
}
