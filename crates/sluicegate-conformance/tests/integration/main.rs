//! The integration tests of the reference model, the kernels and the suite, in one program.

mod faults;
mod giving_back;
mod kernel_edges;
mod kernel_states;
mod kernels;
mod reference;
mod suite;
mod used_units;
