//! Errors that programs return from `main`. It prints their `Debug` output, which is therefore the message.

use std::fmt;

use crate::config_file::ConfigErrors;
use crate::open_store::OpenError;
use crate::registry::{JoinError, ReloadError};
use crate::uses::MissingNames;

macro_rules! debug_as_printed {
    ($($error:ty),+) => {
        $(impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })+
    };
}

debug_as_printed!(ConfigErrors, JoinError, MissingNames, OpenError, ReloadError);
