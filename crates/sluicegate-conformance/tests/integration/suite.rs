//! The suite over the kernels on a plain map, and over layers that can be part of a stack.

mod map_store {
    use sluicegate_conformance::kernels::MapStore;

    sluicegate_conformance::suite!(leases[MapStore::default()]);
}

mod a_shared_and_a_guarded_store {
    use std::sync::Arc;

    use sluicegate_conformance::kernels::MapStore;
    use sluicegate_conformance::suite::Guarded;
    use sluicegate_core::SharedStore;

    sluicegate_conformance::suite!(leases
        each[[
            SharedStore::new(MapStore::default()),
            SharedStore::new(Guarded::new(Arc::new(MapStore::default()), "a server")),
        ]]
    );
}
