//! Compiles and runs the code of the guides that needs more than one of our crates, or that begins a
//! program. The programs are in `bin/`.

#[cfg(doctest)]
#[doc = include_str!("../../docs/http.md")]
mod http {}

#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
mod start {}

#[cfg(doctest)]
#[doc = include_str!("../../docs/coming-from.md")]
mod coming_from {}

#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes/grpc.md")]
mod grpc {}
