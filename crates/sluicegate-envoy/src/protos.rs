//! The messages of Envoy's protocols, as `protos/generate` writes them.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    reason = "generated code"
)]

/// The descriptors of the services that are served, and of their messages, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("protos/descriptors.bin");

pub mod envoy {
    pub mod r#type {
        pub mod v3 {
            include!("protos/envoy.r#type.v3.rs");
        }
    }
    pub mod config {
        pub mod core {
            pub mod v3 {
                include!("protos/envoy.config.core.v3.rs");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    include!("protos/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    pub mod service {
        pub mod auth {
            pub mod v3 {
                include!("protos/envoy.service.auth.v3.rs");
            }
        }
        pub mod discovery {
            pub mod v3 {
                include!("protos/envoy.service.discovery.v3.rs");
            }
        }
        pub mod rate_limit_quota {
            pub mod v3 {
                include!("protos/envoy.service.rate_limit_quota.v3.rs");
            }
        }
        pub mod ratelimit {
            pub mod v3 {
                include!("protos/envoy.service.ratelimit.v3.rs");
            }
        }
    }
}
pub mod ratelimit {
    pub mod config {
        pub mod ratelimit {
            pub mod v3 {
                include!("protos/ratelimit.config.ratelimit.v3.rs");
            }
        }
    }
}
pub mod google {
    pub mod rpc {
        include!("protos/google.rpc.rs");
    }
}
