//! What a middleware can be told, in the same words for every framework.

use std::sync::Arc;

use sluicegate_core::Span;
use sluicegate_http::{ClientAddress, FieldFormat, KeyExtractor, OnMissingKey, RequestView};

use super::response_view::ResponseView;
use super::rules::{CostOf, KeySource, Rules, Terms, Unanswered};
use crate::registry::{Gate, Switch};

/// Writes the methods by which an application tells a middleware what to do, for a type that has a
/// [`Middleware`](crate::middleware::Middleware) in the field of this name. They are those of
/// `Middleware`, take `self`, and return it.
///
/// ```
/// use sluicegate::middleware::{Middleware, builder_methods};
/// use sluicegate::{Config, Gate, Registry, Switch};
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
        /// What the key is made from, instead of what the configuration says: a
        /// [`KeyExpression`](sluicegate::http::KeyExpression), a function, or several put together
        /// ([`KeyExtractor`](sluicegate::http::KeyExtractor)).
        ///
        /// This, [`cost`](Self::cost) and [`on_missing_key`](Self::on_missing_key) are about the
        /// gate named last, and all limits that it has.
        pub fn key(mut self, key: impl $crate::http::KeyExtractor + 'static) -> Self {
            self.$middleware = self.$middleware.key(key);
            self
        }

        /// Asks `gate` too, about a key of its own: all limits are decided together, all or
        /// nothing. Gates whose keys the configuration makes are joined by
        /// [`Gate::and`](sluicegate::Gate::and) instead.
        pub fn and(
            mut self,
            gate: impl Into<$crate::Gate>,
            key: impl $crate::http::KeyExtractor + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.and(gate.into(), key);
            self
        }

        /// What happens to a request without the key, instead of what the configuration says:
        /// unless told, all such requests share one.
        pub fn on_missing_key(mut self, then: $crate::http::OnMissingKey) -> Self {
            self.$middleware = self.$middleware.on_missing_key(then);
            self
        }

        /// How many units a request takes of every policy, instead of the policies' own costs. At
        /// 0 the limit is not asked; what is above 2^53 − 1 counts as that, which no limit admits.
        pub fn cost(
            mut self,
            units: impl Fn(&dyn $crate::http::RequestView) -> u64 + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.cost(units);
            self
        }

        /// How the client's address is found: in the keys of all limits here, unless a key given
        /// in code has a way of its own. Without this it is as the configuration says, which unless
        /// told is the peer of the connection, and no header field is believed.
        pub fn client_address(mut self, address: $crate::http::ClientAddress) -> Self {
            self.$middleware = self.$middleware.client_address(address);
            self
        }

        /// Requests that pass unasked, such as those for a health check; may be called several
        /// times.
        pub fn skip_if(
            mut self,
            skip: impl Fn(&dyn $crate::http::RequestView) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.skip_if(skip);
            self
        }

        /// Which response fields tell a client about the limits, instead of what the
        /// configuration says. They stand on responses of all kinds but redirections;
        /// `Retry-After` stands on a denial in any case.
        pub fn fields(mut self, format: $crate::http::FieldFormat) -> Self {
            self.$middleware = self.$middleware.fields(format);
            self
        }

        /// Charges when the response is there: `units` says how many, and `None` or 0 charges
        /// nothing. Before, a request is only asked whether it would pass.
        ///
        /// So requests that are in flight at the same time may all pass before any of them is
        /// charged; those that come later find the debt. The response goes out when it is charged,
        /// so a client that waits for it can't outrun its charge. A store that fails then costs
        /// the charge and not the response. A request that gets no response, because its handler
        /// failed or nobody waits any more, is charged what
        /// [`charge_unanswered`](Self::charge_unanswered) says.
        pub fn charge_after(
            mut self,
            units: impl Fn(&dyn $crate::middleware::ResponseView) -> Option<u64>
            + Send
            + Sync
            + 'static,
        ) -> Self {
            self.$middleware = self.$middleware.charge_after(units);
            self
        }

        /// What a request is charged that gets no response, where charging is
        /// [for afterwards](Self::charge_after): its handler panicked or ended with an error, or
        /// the client went away. Unless told it is what the request would have cost beforehand, so
        /// that nobody works for free for clients that hang up. 0 charges nothing.
        pub fn charge_unanswered(mut self, units: u64) -> Self {
            self.$middleware = self.$middleware.charge_unanswered(units);
            self
        }

        /// Requests wait for their turn at most this long, and only then are they turned away:
        /// see [`Gate::acquire`](sluicegate::Gate::acquire). A wait that can't end in time is refused
        /// at once. It has no effect together with [`charge_after`](Self::charge_after).
        pub fn wait_up_to(mut self, longest: impl Into<$crate::Span>) -> Self {
            self.$middleware = self.$middleware.wait_up_to(longest);
            self
        }

        /// Whether handlers run as a [`Caller`](sluicegate::Caller), so that limited functions
        /// beneath know whose request they are for; they do unless told.
        pub fn caller(mut self, switch: $crate::Switch) -> Self {
            self.$middleware = self.$middleware.caller(switch);
            self
        }
    };
}

/// The same on what a middleware has of it.
impl Rules {
    pub(super) fn and(
        self: Arc<Self>,
        gate: impl Into<Gate>,
        key: impl KeyExtractor + 'static,
    ) -> Arc<Self> {
        let joined = self.told(|rules| {
            rules.last = rules.terms.len();
            let gate = gate.into();
            rules.terms.resize_with(rules.last + gate.len(), Terms::default);
            rules.gate = rules.gate.clone().and(gate);
        });
        joined.key(key)
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

    pub(super) fn cost(
        self: Arc<Self>,
        units: impl Fn(&dyn RequestView) -> u64 + Send + Sync + 'static,
    ) -> Arc<Self> {
        let units: CostOf = Arc::new(units);
        self.told(|rules| rules.last(|terms| terms.cost = Some(Arc::clone(&units))))
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

    pub(super) fn charge_after(
        self: Arc<Self>,
        units: impl Fn(&dyn ResponseView) -> Option<u64> + Send + Sync + 'static,
    ) -> Arc<Self> {
        self.told(|rules| rules.charge_after = Some(Arc::new(units)))
    }

    pub(super) fn charge_unanswered(self: Arc<Self>, units: u64) -> Arc<Self> {
        self.told(|rules| rules.unanswered = Unanswered::Units(units))
    }

    pub(super) fn wait_up_to(self: Arc<Self>, longest: impl Into<Span>) -> Arc<Self> {
        self.told(|rules| rules.wait_up_to = longest.into())
    }

    pub(super) fn caller(self: Arc<Self>, switch: Switch) -> Arc<Self> {
        self.told(|rules| rules.caller = switch)
    }

    fn told(mut self: Arc<Self>, say: impl FnOnce(&mut Self)) -> Arc<Self> {
        say(Arc::make_mut(&mut self));
        self
    }

    fn last(&mut self, say: impl FnMut(&mut Terms)) {
        self.terms.iter_mut().skip(self.last).for_each(say);
    }
}
