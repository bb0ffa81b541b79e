//! Checks for handlers, where a denial is the error.

use sluicegate_core::{Decision, Error};

use super::Gate;
use crate::allowed::Allowed;
use crate::ask::Ask;
use crate::denied::Denied;

impl Gate {
    /// [`Gate::check`] for a handler that returns a denial by `?`: in axum and actix-web by the adapter's
    /// `Denied`, which is made `From` this one.
    ///
    /// ```
    /// use sluicegate::{Config, Denied, Gate, Registry};
    ///
    /// async fn login(limit: &Gate, account: &str) -> Result<&'static str, Denied> {
    ///     limit.enforce(account).await?;
    ///     Ok("welcome")
    /// }
    ///
    /// let config = "limits: {login: {policies: [gcra 1/min]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let limit = registry.gate("login");
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// assert!(login(&limit, "alice").await.is_ok());
    /// let denied = login(&limit, "alice").await.unwrap_err();
    /// assert_eq!(denied.problem().status(), 429);
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The denial, or the failure to decide, as the response that middleware would send.
    pub async fn enforce<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Allowed, Denied> {
        self.enforced(self.check(ask).await)
    }

    /// [`Gate::enforce`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::enforce`] and [`Gate::check_now`].
    pub fn enforce_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Allowed, Denied> {
        self.enforced(self.check_now(ask))
    }

    fn enforced(&self, answer: Result<Decision, Error>) -> Result<Allowed, Denied> {
        match answer {
            Ok(decision) if decision.is_allowed() => Ok(Allowed::new(decision)),
            Ok(decision) => Err(self.denial(decision)),
            Err(error) => Err(Denied::failed(self.name(), error)),
        }
    }

    /// A denial that tells clients what the configuration says.
    #[cold]
    pub(crate) fn denial(&self, decision: Decision) -> Denied {
        Denied::from(decision).with_fields(self.look().http().fields)
    }
}
