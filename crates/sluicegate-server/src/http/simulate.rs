//! Simulates other limits with recorded decisions.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate::Config;
use sluicegate::store::Span;

use super::body::{self, some, span_of};
use super::error::{ApiError, json};
use super::gates::unknown;
use super::guard;
use super::service::Service;
use crate::access::{Call, Caller};
use crate::simulate::{Bounds, From as Source, Problem, Proposal, Terms, play};

/// Maximum size of a body, in bytes. A file with 10,000 limits fits.
const MOST_BYTES: usize = 4 << 20;

const EXAMPLE: &str = r#"{"limit":"demo","policies":["token_bucket 5/s burst 10"],"since":"1h"}"#;

/// The body as the client wrote it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, deserialize_with = "some")]
    limit: Option<String>,
    #[serde(default, deserialize_with = "some")]
    policies: Option<Vec<String>>,
    /// The text of a config file.
    #[serde(default, deserialize_with = "some")]
    config: Option<String>,
    #[serde(default, deserialize_with = "some")]
    since: Option<String>,
    #[serde(default, deserialize_with = "some")]
    from: Option<Source>,
    #[serde(default)]
    scale: bool,
}

/// `POST /v1/simulate`: 200 with what other policies, or another file, would have decided.
pub(super) async fn simulate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let fields: Fields = body::read_up_to(MOST_BYTES, body, EXAMPLE).await?;
    let since = match &fields.since {
        Some(since) => span_of("since", since)?,
        None => Span::HOUR,
    };
    let terms = Terms { since: since.into(), scale: fields.scale, from: fields.from };
    let proposal = proposal(&service, &caller, &fields)?;
    let in_background = Arc::clone(&service);
    // The task ends the turn, even if the client has gone.
    let simulating = tokio::task::spawn_blocking(move || {
        let _turn = in_background.simulator.turn()?;
        let (sources, bounds) = (in_background.simulator.sources(), Bounds::from_now());
        let wanted = proposal.names().map(str::to_owned).collect();
        let gathered = sources.gather(&wanted, terms, bounds);
        let registry = Some(&in_background.registry);
        Some(gathered.and_then(|it| play(&proposal, it, registry, terms.scale, bounds)))
    });
    let simulated = simulating.await.map_err(|_| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "failed", "the simulation failed")
    })?;
    let simulated = simulated.ok_or_else(|| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "another simulation runs, and there is one at a time: try again when it is done",
        )
    })?;
    Ok(json(StatusCode::OK, &simulated?))
}

fn proposal(service: &Service, caller: &Caller, fields: &Fields) -> Result<Proposal, ApiError> {
    match (&fields.limit, &fields.policies, &fields.config) {
        (Some(limit), Some(policies), None) => {
            caller.may(Call::Inspect, limit)?;
            let known = service.registry.configured(limit).ok_or_else(|| unknown(limit))?;
            Ok(Proposal::of_policies(&known, policies)?)
        }
        (limit, None, Some(text)) => {
            if let Some(limit) = limit {
                caller.may(Call::Inspect, limit)?;
            }
            // A caller must not read files of this machine.
            let config = Config::parse_alone(text, "config")
                .map_err(|errors| ApiError::malformed(errors.to_string()))?;
            let mut proposal = Proposal::of_config(&config, limit.as_deref())?;
            proposal.retain(|limit| caller.covers(limit));
            Ok(proposal)
        }
        _ => Err(ApiError::malformed(format!(
            "the body needs `limit` and `policies`, or `config` with the text of a file: send {EXAMPLE}"
        ))),
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Wrong(message) => Self::malformed(message),
            Problem::Sampled(message) => Self::new(StatusCode::CONFLICT, "sampled", message),
            Problem::Unrecorded(message) => {
                Self::new(StatusCode::BAD_REQUEST, "unsupported", message)
            }
            Problem::Failed(message) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "failed", message)
            }
        }
    }
}
