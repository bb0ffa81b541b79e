//! The settings of a middleware, with the same names for every framework.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_http::{ClientAddress, FieldFormat, KeyExtractor, OnMissingKey, RequestView};

use super::asks::Charges;
use super::charge::Charge;
use super::choice::ByGate;
use super::response_view::ResponseView;
use super::rules::{
    ChargeOf, CostOf, KeySource, PauseOn, Rules, SettleAtEnd, SettleBy, Terms, Unanswered,
};
use super::served::Served;
use crate::config::Switch;
use crate::registry::{Gate, JoinError};

/// Implements the builder methods of [`Middleware`](crate::middleware::Middleware) for a type that has one in the field
/// of this name. They take and return `self`.
///
/// ```
/// use sluicegate::middleware::{Middleware, builder_methods};
/// use sluicegate::{Config, Gate, Registry};
/// use sluicegate::config::Switch;
///
/// /// Around every handler of some framework.
/// struct Limited {
///     middleware: Middleware,
/// }
///
/// impl Limited {
///     fn by(gate: impl Into<Gate>) -> Self {
///         Self { middleware: Middleware::new(gate) }
///     }
///
///     builder_methods!(middleware);
/// }
///
/// let gate = Registry::open(&Config::default())?.gate("demo");
/// let limited = Limited::by(gate).cost(|_| 3).caller(Switch::Off);
/// # let _ = limited;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(hidden)] // Under this name; it is shown in the module.
#[macro_export]
macro_rules! __middleware_builder_methods {
    ($middleware:ident) => {
        /// Sets the source of the key, overriding the configuration: a
        /// [`KeyExpression`](sluicegate::http::KeyExpression), a function, or a combination
        /// ([`KeyExtractor`](sluicegate::http::KeyExtractor)).
        ///
        /// This, [`cost`](Self::cost), [`on_missing_key`](Self::on_missing_key) and [`pause_on`](Self::pause_on) apply to
        /// the gate added last, and to all of its limits.
        pub fn key(mut self, key: impl $crate::http::KeyExtractor + 'static) -> Self {
            self.$middleware = self.$middleware.key(key);
            self
        }

        /// Adds a gate with its own key. All limits are decided together, all or nothing. To join gates with configured
        /// keys, use [`Gate::and`](sluicegate::Gate::and) instead.
        ///
        /// # Errors
        /// Returns the errors of [`Gate::and`](sluicegate::Gate::and), and an error if a function chooses the gate:
        /// there, join the gates that it returns.
        pub fn and(
            mut self,
            gate: impl Into<$crate::Gate>,
            key: impl $crate::http::KeyExtractor + 'static,
        ) -> Result<Self, $crate::error::JoinError> {
            self.$middleware = self.$middleware.and(gate.into(), key)?;
            Ok(self)
        }

        /// Sets what happens to a request without the key, overriding the configuration. Default:
        /// all such requests share one key.
        pub fn on_missing_key(mut self, then: $crate::http::OnMissingKey) -> Self {
            self.$middleware = self.$middleware.on_missing_key(then);
            self
        }

        /// Sets the cost of a request, overriding the policies' own costs.
        ///
        /// The cost is a number of units, or units by the names of policies, `|_| [("requests", 1)]`, which doesn't
        /// touch the others ([`Charge`](sluicegate::middleware::Charge)). With the number 0 the limit is not asked.
        pub fn cost<C: Into<$crate::middleware::Charge>>(
            mut self,
            cost: impl Fn(&dyn $crate::http::RequestView) -> C + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.cost(cost);
            self
        }

        /// Sets how to find the client's address for the keys of all limits here. It doesn't apply to keys given in
        /// code with an address of their own. The default is the configuration's. Its default is the peer of the
        /// connection, and it trusts no header field.
        pub fn client_address(mut self, address: $crate::http::ClientAddress) -> Self {
            self.$middleware = self.$middleware.client_address(address);
            self
        }

        /// Lets requests pass without asking any limit, such as health checks. Several predicates
        /// add up.
        pub fn skip_if(
            mut self,
            skip: impl Fn(&dyn $crate::http::RequestView) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.skip_if(skip);
            self
        }

        /// Sets which response fields tell clients about the limits, overriding the configuration. Every response has
        /// them, except redirections; 304 (Not Modified) doesn't count as one. A denial always has `Retry-After`.
        pub fn fields(mut self, format: $crate::http::FieldFormat) -> Self {
            self.$middleware = self.$middleware.fields(format);
            self
        }

        /// Gives back the units that the request took before its response, if `refund` returns `true` for the response:
        /// `|response| response.status().is_success()` for a login.
        ///
        /// Concurrent requests are served only up to the limits, regardless of their later responses. Requests may be
        /// refused in the meantime because of units that are given back later.
        ///
        /// A request gets back its own units, once, and never those of others: see
        /// [`taken_by`](sluicegate::question::Question::taken_by). The response is sent after that, with fields that show the
        /// remaining units then. A request without a response, because its handler failed or its client disconnected,
        /// gets nothing back. Neither does one whose store fails at that moment, which doesn't change the response.
        ///
        /// Together with [`charge_after`](Self::charge_after), only the units that [`cost`](Self::cost) names were
        /// taken. The charge of the response replaces them: under each named policy, the difference is charged or given
        /// back.
        pub fn refund_if(
            mut self,
            refund: impl Fn(&dyn $crate::middleware::ResponseView) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.refund_if(refund);
            self
        }

        /// Charges after the response.
        ///
        /// `charge` returns the units for all policies of all limits. Or it returns units by the names of policies,
        /// `[("tokens", 412)]`, for each limit that has them ([`Charge`](sluicegate::middleware::Charge)). `None` or 0
        /// charges nothing.
        ///
        /// Before the response, the limits are asked whether the request would pass. Only units that
        /// [`cost`](Self::cost) names are charged then. For example, `.cost(|_| [("requests", 1)])` takes one unit of
        /// the policy `requests`, if the other policies have remaining units too.
        ///
        /// Concurrent requests may therefore all pass before any of them is charged; later ones find the debt. So this
        /// doesn't limit guesses: see [`refund_if`](Self::refund_if). The response is sent after the charge, so a
        /// client that waits for it can't outrun its charge. If the store fails then, the charge is lost, but not the
        /// response. If `charge` names a policy that no limit has, the charge is lost too, and logged as an error. A
        /// request without a response, because its handler failed or its client disconnected, costs
        /// [`charge_unanswered`](Self::charge_unanswered).
        pub fn charge_after<C: Into<$crate::middleware::Charge>>(
            mut self,
            charge: impl Fn(&dyn $crate::middleware::ResponseView) -> C + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.charge_after(charge);
            self
        }

        /// Pauses the key of the request after a response, for the time that `pause` returns.
        ///
        /// It is for a handler that calls an upstream, and passes on its 429 or 503.
        ///
        /// [`ResponseView::retry_after`](sluicegate::middleware::ResponseView::retry_after) reads `Retry-After`:
        /// `|response| response.retry_after()`. `None`, and less than 1 ms, pauses nothing. Until the pause ends, every
        /// request for the key is denied in every process ([`Gate::pause`](sluicegate::Gate::pause)). The response is
        /// sent after that. A store that fails at that moment doesn't change the response, and the key isn't paused.
        /// If there are several limits, those of the gate added last are paused, each for the request's key there.
        pub fn pause_on(
            mut self,
            pause: impl Fn(&dyn $crate::middleware::ResponseView) -> Option<::std::time::Duration>
            + Send
            + Sync
            + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.pause_on(pause);
            self
        }

        /// Sets the cost of a request that gets no response, when charging comes [after it](Self::charge_after). There
        /// is no response if the handler panicked or returned an error, or the client disconnected.
        ///
        /// By default, the request costs what it would have cost beforehand, without the units taken then, so that
        /// hanging up isn't free. 0 charges nothing.
        pub fn charge_unanswered(mut self, charge: impl Into<$crate::middleware::Charge>) -> Self {
            self.$middleware = self.$middleware.charge_unanswered(charge);
            self
        }

        /// Settles the units of a request, an estimate by [`cost`](Self::cost), for the usage in the head of its
        /// response.
        ///
        /// The usage is `|response| response.charge()`, for example, or a number in a header field. `None` reports no
        /// usage.
        ///
        /// The settlement is sent when the body has ended. Until then the request [holds](Self::hold) its units. The
        /// usage is the first one that is reported by these:
        /// 1. the handler, by the [`InFlight`](sluicegate::middleware::InFlight) in the request's extensions;
        /// 2. this function;
        /// 3. [`settle_at_end`](Self::settle_at_end).
        ///
        /// If none does, the estimate stays charged, even for a request whose handler failed or whose client
        /// disconnected. The response fields show the remaining units before the settlement.
        pub fn settle<C: Into<$crate::middleware::Charge>>(
            mut self,
            settle: impl Fn(&dyn $crate::middleware::ResponseView) -> Option<C> + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.settle(settle);
            self
        }

        /// [Settles](Self::settle) the units of a request for the usage that is known at its end. That is when the body
        /// of its response has ended or is dropped, or when there was no response.
        pub fn settle_at_end<C: Into<$crate::middleware::Charge>>(
            mut self,
            settle: impl Fn(&$crate::middleware::Served) -> Option<C> + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.settle_at_end(settle);
            self
        }

        /// Makes each request hold its units until the body of its response has ended or is dropped. If a limit has a
        /// policy [`concurrency`](sluicegate::Policy::concurrency), requests always do.
        ///
        /// A hold is renewed while the request is served. After a crash of the process it lasts for up to `lasts`
        /// ([`Question::lasts`](sluicegate::question::Question::lasts)).
        ///
        /// This can't be combined with [`refund_if`](Self::refund_if) or [`charge_after`](Self::charge_after): such
        /// requests are refused as a mistake in the program.
        pub fn hold(mut self, lasts: ::std::time::Duration) -> Self {
            self.$middleware = self.$middleware.hold(lasts);
            self
        }

        /// Sets for how long a request [holds](Self::hold) its units at most, regardless of how long it is served
        /// ([`Question::max_life`](sluicegate::question::Question::max_life)). Default: 1 h.
        pub fn max_life(mut self, longest: ::std::time::Duration) -> Self {
            self.$middleware = self.$middleware.max_life(longest);
            self
        }

        /// Lets requests wait for their turn, at most this long: see
        /// [`Question::within`](sluicegate::question::Question::within). If the wait can't end in time, the request
        /// is refused immediately. No effect together with [`charge_after`](Self::charge_after).
        pub fn wait_up_to(mut self, longest: ::std::time::Duration) -> Self {
            self.$middleware = self.$middleware.wait_up_to(longest);
            self
        }

        /// Sets the priority of a request that [waits](Self::wait_up_to) for permits in a limit's
        /// [queue](sluicegate::policy::Queue): from 0, the highest and the default, to 15. A priority beyond the lowest
        /// of the queue counts as the lowest. Other waits have no priorities.
        pub fn priority(
            mut self,
            priority: impl Fn(&dyn $crate::http::RequestView) -> u8 + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.priority(priority);
            self
        }

        /// Sets the maximum number of requests that wait for their turn, if they [may wait](Self::wait_up_to). Further
        /// requests pass or are refused immediately, so that many waiters don't fill the memory. Default: 10,000.
        /// Clones share this maximum.
        pub fn wait_at_most(mut self, requests: usize) -> Self {
            self.$middleware = self.$middleware.wait_at_most(requests);
            self
        }

        /// Sets whether handlers run in the scope of a [`Caller`](sluicegate::Caller), so that
        /// limited functions inside know whose request they serve. Default: true.
        pub fn caller(mut self, switch: $crate::config::Switch) -> Self {
            self.$middleware = self.$middleware.caller(switch);
            self
        }
    };
}

/// The builder methods on the settings.
impl Rules {
    pub(super) fn and(
        self: Arc<Self>,
        gate: impl Into<Gate>,
        key: impl KeyExtractor + 'static,
    ) -> Result<Arc<Self>, JoinError> {
        let gate = gate.into();
        if self.chooser.is_some() {
            return Err(JoinError::of_chosen(&gate));
        }
        gate.notice(&[]);
        let more = gate.len();
        let joined = self.gate.clone().and(gate)?;
        let joined = self.told(|rules| {
            rules.last = rules.terms.len();
            rules.terms.resize_with(rules.last + more, Terms::default);
            rules.gate = joined;
        });
        Ok(joined.key(key))
    }

    pub(super) fn key(self: Arc<Self>, key: impl KeyExtractor + 'static) -> Arc<Self> {
        let key: Arc<dyn KeyExtractor> = Arc::new(key);
        self.told(|rules| {
            rules.last(|terms| terms.key = KeySource::Given(Arc::clone(&key)));
            rules.show();
        })
    }

    pub(super) fn on_missing_key(self: Arc<Self>, then: OnMissingKey) -> Arc<Self> {
        self.told(|rules| rules.last(|terms| terms.on_missing_key = Some(then)))
    }

    pub(super) fn cost<C: Into<Charge>>(
        self: Arc<Self>,
        cost: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static,
    ) -> Arc<Self> {
        let cost: CostOf = Arc::new(move |request| cost(request).into());
        self.told(|rules| rules.last(|terms| terms.cost = Some(Arc::clone(&cost))))
    }

    pub(super) fn client_address(self: Arc<Self>, address: ClientAddress) -> Arc<Self> {
        self.told(|rules| rules.client_address = Some(address))
    }

    pub(super) fn skip_if(
        self: Arc<Self>,
        skip: impl Fn(&dyn RequestView) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        self.told(|rules| rules.skip_if.push(Arc::new(skip)))
    }

    pub(super) fn fields(self: Arc<Self>, format: FieldFormat) -> Arc<Self> {
        self.told(|rules| {
            rules.fields = Some(format);
            rules.show();
        })
    }

    pub(super) fn refund_if(
        self: Arc<Self>,
        refund: impl Fn(&dyn ResponseView) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        self.told(|rules| rules.refund_if = Some(Arc::new(refund)))
    }

    pub(super) fn charge_after<C: Into<Charge>>(
        self: Arc<Self>,
        charge: impl Fn(&dyn ResponseView) -> C + Send + Sync + 'static,
    ) -> Arc<Self> {
        let charge: ChargeOf = Arc::new(move |response| charge(response).into());
        self.told(|rules| rules.charge_after = Some(charge))
    }

    pub(super) fn pause_on(
        self: Arc<Self>,
        pause: impl Fn(&dyn ResponseView) -> Option<Duration> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let pause: PauseOn = Arc::new(pause);
        self.told(|rules| rules.last(|terms| terms.pause_on = Some(Arc::clone(&pause))))
    }

    pub(super) fn charge_unanswered(self: Arc<Self>, charge: impl Into<Charge>) -> Arc<Self> {
        self.told(|rules| rules.unanswered = Unanswered::Charge(Charges::all(charge.into())))
    }

    pub(super) fn settle<C: Into<Charge>>(
        self: Arc<Self>,
        settle: impl Fn(&dyn ResponseView) -> Option<C> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let settle: SettleBy = Arc::new(move |response| settle(response).map(Into::into));
        self.told(|rules| rules.settle = Some(settle))
    }

    pub(super) fn settle_at_end<C: Into<Charge>>(
        self: Arc<Self>,
        settle: impl Fn(&Served) -> Option<C> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let settle: SettleAtEnd = Arc::new(move |served| settle(served).map(Into::into));
        self.told(|rules| rules.settle_at_end = Some(settle))
    }

    pub(super) fn hold(self: Arc<Self>, lasts: Duration) -> Arc<Self> {
        self.told(|rules| rules.hold = Some(lasts))
    }

    pub(super) fn max_life(self: Arc<Self>, longest: Duration) -> Arc<Self> {
        self.told(|rules| rules.max_life = Some(longest))
    }

    pub(super) fn wait_up_to(self: Arc<Self>, longest: Duration) -> Arc<Self> {
        self.told(|rules| rules.wait_up_to = longest)
    }

    pub(super) fn priority(
        self: Arc<Self>,
        priority: impl Fn(&dyn RequestView) -> u8 + Send + Sync + 'static,
    ) -> Arc<Self> {
        self.told(|rules| rules.priority = Some(Arc::new(priority)))
    }

    pub(super) fn wait_at_most(self: Arc<Self>, requests: usize) -> Arc<Self> {
        self.told(|rules| rules.places = Rules::places(requests))
    }

    pub(super) fn caller(self: Arc<Self>, switch: Switch) -> Arc<Self> {
        self.told(|rules| rules.caller = switch)
    }

    fn told(mut self: Arc<Self>, say: impl FnOnce(&mut Self)) -> Arc<Self> {
        let rules = Arc::make_mut(&mut self);
        say(rules);
        if let Some(chooser) = &mut rules.chooser {
            chooser.by_gate = ByGate::default();
        }
        self
    }

    fn last(&mut self, say: impl FnMut(&mut Terms)) {
        self.terms.iter_mut().skip(self.last).for_each(say);
    }
}
