//! What a middleware can be told, in the same words for every framework.

use std::sync::Arc;

use sluicegate_core::Span;
use sluicegate_http::{ClientAddress, FieldFormat, KeyExtractor, OnMissingKey, RequestView};

use super::response_view::ResponseView;
use super::rules::{CostOf, KeySource, Rules, Terms, Unanswered};
use crate::registry::{Gate, Switch};

/// The methods of a middleware that has its rules in a field `rules: Arc<Rules>`.
macro_rules! builder_methods {
    () => {
        /// What the key is made from, instead of what the configuration says: a
        /// [`KeyExpression`](crate::http::KeyExpression), a function, or several put together
        /// ([`KeyExtractor`](crate::http::KeyExtractor)).
        ///
        /// This, [`cost`](Self::cost) and [`on_missing_key`](Self::on_missing_key) are about the
        /// gate named last, and all limits that it has.
        pub fn key(self, key: impl $crate::http::KeyExtractor + 'static) -> Self {
            self.tell(|rules| rules.key(key))
        }

        /// Asks `gate` too, about a key of its own: all limits are decided together, all or
        /// nothing. Gates whose keys the configuration makes are joined by
        /// [`Gate::and`](crate::Gate::and) instead.
        pub fn and(
            self,
            gate: impl Into<$crate::Gate>,
            key: impl $crate::http::KeyExtractor + 'static,
        ) -> Self {
            self.tell(|rules| rules.and(gate.into(), key))
        }

        /// What happens to a request without the key, instead of what the configuration says:
        /// unless told, all such requests share one.
        pub fn on_missing_key(self, then: $crate::http::OnMissingKey) -> Self {
            self.tell(|rules| rules.on_missing_key(then))
        }

        /// How many units a request takes of every policy, instead of the policies' own costs. At
        /// 0 the limit is not asked; what is above 2^53 − 1 counts as that, which no limit admits.
        pub fn cost(
            self,
            units: impl Fn(&dyn $crate::http::RequestView) -> u64 + Send + Sync + 'static,
        ) -> Self {
            self.tell(|rules| rules.cost(units))
        }

        /// How the client's address is found: in the keys of all limits here, unless a key given
        /// in code has a way of its own. Without this it is as the configuration says, which unless
        /// told is the peer of the connection, and no header field is believed.
        pub fn client_address(self, address: $crate::http::ClientAddress) -> Self {
            self.tell(|rules| rules.client_address(address))
        }

        /// Requests that pass unasked, such as those for a health check; may be called several
        /// times.
        pub fn skip_if(
            self,
            skip: impl Fn(&dyn $crate::http::RequestView) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.tell(|rules| rules.skip_if(skip))
        }

        /// Which response fields tell a client about the limits, instead of what the
        /// configuration says. They stand on responses of all kinds but redirections;
        /// `Retry-After` stands on a denial in any case.
        pub fn fields(self, format: $crate::http::FieldFormat) -> Self {
            self.tell(|rules| rules.fields(format))
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
            self,
            units: impl Fn(&dyn $crate::middleware::ResponseView) -> Option<u64>
            + Send
            + Sync
            + 'static,
        ) -> Self {
            self.tell(|rules| rules.charge_after(units))
        }

        /// What a request is charged that gets no response, where charging is
        /// [for afterwards](Self::charge_after): its handler panicked or ended with an error, or
        /// the client went away. Unless told it is what the request would have cost beforehand, so
        /// that nobody works for free for clients that hang up. 0 charges nothing.
        pub fn charge_unanswered(self, units: u64) -> Self {
            self.tell(|rules| rules.charge_unanswered(units))
        }

        /// Requests wait for their turn at most this long, and only then are they turned away:
        /// see [`Gate::acquire`](crate::Gate::acquire). A wait that can't end in time is refused
        /// at once. It has no effect together with [`charge_after`](Self::charge_after).
        pub fn wait_up_to(self, longest: impl Into<$crate::Span>) -> Self {
            let longest = longest.into();
            self.tell(|rules| rules.wait_up_to(longest))
        }

        /// Whether handlers run as a [`Caller`](crate::Caller), so that limited functions
        /// beneath know whose request they are for; they do unless told.
        pub fn caller(self, switch: $crate::Switch) -> Self {
            self.tell(|rules| rules.caller(switch))
        }

        fn tell<T>(mut self, say: impl FnOnce(&mut $crate::middleware::Rules) -> T) -> Self {
            say(::std::sync::Arc::make_mut(&mut self.rules));
            self
        }
    };
}
pub(crate) use builder_methods;

impl Rules {
    pub(crate) fn and(&mut self, gate: Gate, key: impl KeyExtractor + 'static) {
        self.last = self.terms.len();
        self.terms.resize_with(self.last + gate.len(), Terms::default);
        self.gate = self.gate.clone().and(gate);
        self.key(key);
    }

    pub(crate) fn key(&mut self, key: impl KeyExtractor + 'static) {
        let key: Arc<dyn KeyExtractor> = Arc::new(key);
        self.last(|terms| terms.key = KeySource::Given(Arc::clone(&key)));
        self.show();
    }

    pub(crate) fn on_missing_key(&mut self, then: OnMissingKey) {
        self.last(|terms| terms.on_missing_key = Some(then));
    }

    pub(crate) fn cost(&mut self, units: impl Fn(&dyn RequestView) -> u64 + Send + Sync + 'static) {
        let units: CostOf = Arc::new(units);
        self.last(|terms| terms.cost = Some(Arc::clone(&units)));
    }

    pub(crate) fn client_address(&mut self, address: ClientAddress) {
        self.client_address = Some(address);
    }

    pub(crate) fn skip_if(
        &mut self,
        skip: impl Fn(&dyn RequestView) -> bool + Send + Sync + 'static,
    ) {
        self.skip_if.push(Arc::new(skip));
    }

    pub(crate) fn charge_after(
        &mut self,
        units: impl Fn(&dyn ResponseView) -> Option<u64> + Send + Sync + 'static,
    ) {
        self.charge_after = Some(Arc::new(units));
    }

    pub(crate) const fn charge_unanswered(&mut self, units: u64) {
        self.unanswered = Unanswered::Units(units);
    }

    pub(crate) fn fields(&mut self, format: FieldFormat) {
        self.fields = Some(format);
        self.show();
    }

    pub(crate) const fn wait_up_to(&mut self, longest: Span) {
        self.wait_up_to = longest;
    }

    pub(crate) const fn caller(&mut self, switch: Switch) {
        self.caller = switch;
    }

    fn last(&mut self, say: impl FnMut(&mut Terms)) {
        self.terms.iter_mut().skip(self.last).for_each(say);
    }
}
