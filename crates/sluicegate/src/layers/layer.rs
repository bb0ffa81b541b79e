//! Code that all layers share.

/// Shows a layer by the store inside it, and a limit that it has opened by its name.
macro_rules! show_briefly {
    ($layer:ident, $opened:ident) => {
        impl<S: sluicegate_core::Store> std::fmt::Debug for $layer<S> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($layer)).field(&sluicegate_core::Store::id(self)).finish()
            }
        }

        impl<L: sluicegate_core::OpenedLimit> std::fmt::Debug for $opened<L> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($opened))
                    .field(sluicegate_core::OpenedLimit::limit(self).name())
                    .finish()
            }
        }
    };
}

pub(super) use show_briefly;
