//! Decisions about requests that a proxy serves.

use std::time::Duration;

use sluicegate_http::{PreparedFields, RequestView};

use super::asks::fields_of;
use super::refusal::Refusal;
use crate::registry::Gate;

/// Asks the limits of a gate about a request that a proxy serves, by the keys that the configuration makes of it. Each
/// limit takes `cost` units, from 0 to 2^53 − 1, or by default its own cost.
///
/// The future doesn't borrow the request. A limit that counts requests in flight refuses: the end of the request is
/// unknown.
///
/// ```
/// use sluicegate::middleware::authorize;
/// use sluicegate::{Config, Registry};
///
/// let config = "limits: {paths: {policies: [gcra 1/min burst 3], key: path}}";
/// let paths = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("paths");
/// let request = http::Request::get("/cart").body(())?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert!(authorize(&paths, &request, Some(2)).await.is_ok());
/// let refusal = authorize(&paths, &request, Some(2)).await.unwrap_err();
/// assert_eq!(refusal.denied().problem().status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the refusal, if the request is refused or can't be decided.
pub fn authorize(
    gate: &Gate,
    request: &dyn RequestView,
    cost: Option<u64>,
) -> impl Future<Output = Result<Authorized, Refusal>> + Send + use<> {
    let (gate, keys) = (gate.clone(), gate.keys(request));
    async move {
        let keys = keys.map_err(Refusal::without_key)?;
        let ask = || {
            keys.ask_with(|_, ask| match cost {
                Some(cost) => ask.cost(cost),
                None => ask,
            })
        };
        let decision = gate.check(ask()).await;
        let decision = decision.map_err(|error| Refusal::failed(gate.name(), error))?;
        let fields = fields_of(&gate, &decision, ask);
        if decision.is_denied() {
            return Err(Refusal::of_decision(decision, fields));
        }
        Ok(Authorized { wait: decision.wait(), fields })
    }
}

/// A request that may be served.
#[derive(Debug)]
pub struct Authorized {
    wait: Duration,
    fields: PreparedFields,
}

impl Authorized {
    /// Waits until it is the request's turn, as under a shaper. Returns the response fields for the client.
    ///
    /// A wait needs a tokio runtime with timers.
    pub async fn waited(self) -> PreparedFields {
        wait_for_turn(self.wait).await;
        self.fields
    }
}

/// Waits for the time before a request is served.
pub(super) async fn wait_for_turn(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}
