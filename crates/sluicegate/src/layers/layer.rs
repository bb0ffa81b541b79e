//! What all layers have in common.

use sluicegate_core::Measure;

/// What a layer does by itself, beside answering.
pub(super) trait Layer {
    /// What it counts.
    fn measures(&self) -> Vec<Measure>;

    /// One short step of maintenance.
    fn maintain(&self) {}
}

/// The part of `Store` that a layer leaves to the store inside it, to which it adds what the layer does
/// by itself: for an `impl` of a type with these two fields.
macro_rules! leave_to {
    ($inside:ident, $layer:ident) => {
        fn id(&self) -> sluicegate_core::StoreId {
            self.$inside.id()
        }

        fn ping(
            &self,
        ) -> impl std::future::Future<Output = Result<(), sluicegate_core::StoreError>> + Send {
            self.$inside.ping()
        }

        fn rehearse(
            &self,
            limits: Vec<(sluicegate_core::Limit, sluicegate_core::OpenOptions)>,
        ) -> impl std::future::Future<Output = Result<Vec<String>, sluicegate_core::StoreError>> + Send
        {
            self.$inside.rehearse(limits)
        }

        fn maintain(&self) {
            self.$inside.maintain();
            $crate::layers::layer::Layer::maintain(&*self.$layer);
        }

        fn stats(&self) -> sluicegate_core::StoreStats {
            self.$inside.stats()
        }

        fn measures(&self) -> Vec<sluicegate_core::Measure> {
            let mut measures = self.$inside.measures();
            measures.extend($crate::layers::layer::Layer::measures(&*self.$layer));
            measures
        }
    };
}

/// The part of `OpenedLimit` that a layer leaves to the limit inside it: for an `impl` of a type with this
/// field.
macro_rules! leave_to_limit {
    ($inside:ident) => {
        fn limit(&self) -> &sluicegate_core::Limit {
            self.$inside.limit()
        }

        fn bell(&self, id: sluicegate_core::HoldId) -> Option<sluicegate_core::Bell> {
            self.$inside.bell(id)
        }

        fn wait_in_queue<'a>(
            &'a self,
            request: sluicegate_core::Request<'a>,
            within: sluicegate_core::Span,
        ) -> Option<
            sluicegate_core::BoxFuture<
                'a,
                Result<sluicegate_core::Decision, sluicegate_core::Error>,
            >,
        > {
            self.$inside.wait_in_queue(request, within)
        }

        fn holders<'a>(
            &'a self,
            key: &'a [u8],
            page: sluicegate_core::Page<'a>,
        ) -> sluicegate_core::BoxFuture<
            'a,
            Result<sluicegate_core::Holders, sluicegate_core::Error>,
        > {
            self.$inside.holders(key, page)
        }

        fn bans<'a>(
            &'a self,
            page: sluicegate_core::Page<'a>,
        ) -> sluicegate_core::BoxFuture<
            'a,
            Result<sluicegate_core::BannedKeys, sluicegate_core::Error>,
        > {
            self.$inside.bans(page)
        }

        fn nodes(&self, request: &sluicegate_core::Request<'_>) -> Vec<sluicegate_core::NodeId> {
            self.$inside.nodes(request)
        }
    };
}

/// Shows a layer by the store inside it, and a limit that it has opened by its name.
macro_rules! show_briefly {
    ($layer:ident, $opened:ident) => {
        impl<S: sluicegate_core::Store> std::fmt::Debug for $layer<S> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($layer)).field(&self.store.id()).finish()
            }
        }

        impl<L: sluicegate_core::OpenedLimit> std::fmt::Debug for $opened<L> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($opened)).field(self.limit().name()).finish()
            }
        }
    };
}

pub(super) use {leave_to, leave_to_limit, show_briefly};
