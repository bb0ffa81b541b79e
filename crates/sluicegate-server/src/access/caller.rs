//! The caller of a request, and what it may do.

use std::sync::{Arc, LazyLock};

use sluicegate::config::{ClientConfig, LimitPattern, Right};

use super::call::Call;
use super::counts::Counts;
use super::refusal::Refusal;

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Any program, if no client is configured.
    Anyone,
    /// A program on this machine that makes an administrative call, if there is neither a client nor an admin token.
    Local,
    /// A holder of the admin token.
    Admin,
    /// A configured client.
    Client(Arc<Client>),
}

/// A configured client.
#[derive(Debug)]
pub(crate) struct Client {
    name: Arc<str>,
    may: Box<[Right]>,
    /// The limits that it may use; all if there is no pattern.
    limits: Box<[LimitPattern]>,
    counts: Arc<Counts>,
}

tokio::task_local! {
    /// The name of the caller whose request this task decides.
    static DECIDED_FOR: Option<Arc<str>>;
}

impl Caller {
    /// Returns an error unless the caller may make this call for a limit. A call for several limits needs the right for
    /// each.
    ///
    /// # Errors
    /// Returns a refusal, which is counted.
    pub(crate) fn may(&self, call: Call, limit: &str) -> Result<(), Refusal> {
        self.may_make(call)?;
        let Self::Client(client) = self else { return Ok(()) };
        if client.covers(limit) {
            return Ok(());
        }
        // A client may send any text as a name.
        let limit: String = limit.chars().take(64).collect();
        Err(client.refuse(format!(
            "client `{}` isn't permitted to use limit `{}`: no pattern of its `limits` matches the name",
            client.name,
            limit.escape_debug()
        )))
    }

    /// Returns an error unless the caller may make this call for at least one limit.
    pub(super) fn may_make(&self, call: Call) -> Result<(), Refusal> {
        if self.can(call) {
            return Ok(());
        }
        let Self::Client(client) = self else {
            return Err(Refusal::forbidden("this call is only for administrators"));
        };
        let wanted = call.rights().first().map(ToString::to_string).unwrap_or_default();
        Err(client.refuse(format!(
            "client `{}` isn't permitted to make this call: it needs the right `{wanted}` in its `may`",
            client.name
        )))
    }

    /// Returns `true` if the caller may make this call for at least one limit.
    pub(crate) fn can(&self, call: Call) -> bool {
        match self {
            Self::Local | Self::Admin => true,
            Self::Anyone => !call.is_administrative(),
            Self::Client(client) => client.may.iter().any(|right| call.rights().contains(right)),
        }
    }

    /// Returns `true` if a list for this caller has the limit.
    pub(crate) fn covers(&self, limit: &str) -> bool {
        match self {
            Self::Client(client) => client.covers(limit),
            _ => true,
        }
    }

    /// Returns `true` if lists for this caller have all limits.
    pub(crate) fn covers_all(&self) -> bool {
        match self {
            Self::Client(client) => client.limits.is_empty(),
            _ => true,
        }
    }

    /// Returns the name for logs and lists; `None` if the caller has presented nothing.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        static ADMIN: LazyLock<Arc<str>> = LazyLock::new(|| ClientConfig::ADMIN.into());
        match self {
            Self::Client(client) => Some(Arc::clone(&client.name)),
            Self::Admin => Some(Arc::clone(&ADMIN)),
            Self::Anyone | Self::Local => None,
        }
    }

    /// Runs the decision of a request of this caller, whose observers can see its [name](Self::name_in_decision).
    pub(crate) fn deciding<F: Future>(
        &self,
        decision: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        DECIDED_FOR.scope(self.name(), decision)
    }

    /// Makes a decision that doesn't wait, as [`Caller::deciding`] does.
    #[cfg(feature = "resp")]
    pub(crate) fn deciding_now<T>(&self, decide: impl FnOnce() -> T) -> T {
        DECIDED_FOR.sync_scope(self.name(), decide)
    }

    /// Returns the name of the caller whose request this task decides, if it has one.
    pub(crate) fn name_in_decision() -> Option<Arc<str>> {
        DECIDED_FOR.try_with(Option::clone).ok().flatten()
    }
}

impl Client {
    pub(super) fn new(config: &ClientConfig, counts: Arc<Counts>) -> Self {
        Self {
            name: config.name.as_str().into(),
            may: config.may.as_slice().into(),
            limits: config.limits.as_slice().into(),
            counts,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the counts, to continue them.
    pub(super) const fn shared_counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    fn covers(&self, limit: &str) -> bool {
        self.limits.is_empty() || self.limits.iter().any(|pattern| pattern.matches(limit))
    }

    fn refuse(&self, message: String) -> Refusal {
        let refusal = Refusal::forbidden(message);
        self.counts.count_refusal(refusal.kind);
        refusal
    }
}
