//! The settings for commands in Redis' protocol.

use super::switch::Switch;

/// The settings for commands in Redis' protocol: the section `resp`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RespConfig {
    /// Whether `CL.THROTTLE` and `THROTTLE`, whose numbers are in the command, are carried out. Default: on.
    pub throttle: Switch,
}
