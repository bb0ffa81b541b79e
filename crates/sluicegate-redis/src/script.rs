//! The Lua scripts: a common head and tail around the modules of the kernels a limit needs.

use std::sync::{Arc, OnceLock};

use sluicegate_core::Limit;
use sluicegate_core::kernel::Rule;

const HEAD: &str = include_str!("lua/head.lua");
const BUCKET: &str = include_str!("lua/bucket.lua");
const WINDOW: &str = include_str!("lua/window.lua");
const LOG: &str = include_str!("lua/log.lua");
const TAIL: &str = include_str!("lua/tail.lua");
const CANCEL: &str = include_str!("lua/cancel.lua");
const READY: &str = include_str!("lua/ready.lua");

/// A script with its digest, by which the server knows it.
#[derive(Debug)]
pub struct Script {
    text: String,
    digest: String,
}

/// Which kernels a script holds, as bits.
const BUCKET_BIT: usize = 1;
const WINDOW_BIT: usize = 2;
const LOG_BIT: usize = 4;

impl Script {
    /// The script for the policies of a limit. A module that no policy needs would cost every
    /// decision the making of its functions.
    #[must_use]
    pub fn of(limit: &Limit) -> Arc<Self> {
        static SCRIPTS: [OnceLock<Arc<Script>>; 8] = [const { OnceLock::new() }; 8];
        let kernels = limit.members().iter().fold(0, |kernels, member| {
            kernels
                | match member.policy().rule() {
                    Rule::Bucket(_) | Rule::WarmUp(_) => BUCKET_BIT,
                    Rule::Window(_) | Rule::Counter(_) => WINDOW_BIT,
                    Rule::Log(_) => LOG_BIT,
                }
        });
        Arc::clone(SCRIPTS[kernels].get_or_init(|| Arc::new(Self::with(kernels))))
    }

    fn with(kernels: usize) -> Self {
        let mut text = HEAD.to_owned();
        for (bit, module) in [(BUCKET_BIT, BUCKET), (WINDOW_BIT, WINDOW), (LOG_BIT, LOG)] {
            if kernels & bit != 0 {
                text.push_str(module);
            }
        }
        text.push_str(TAIL);
        Self::new(text)
    }

    fn new(text: String) -> Self {
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    /// The script that gives a reservation back.
    #[must_use]
    pub fn cancel() -> &'static Self {
        static CANCEL_SCRIPT: OnceLock<Script> = OnceLock::new();
        CANCEL_SCRIPT.get_or_init(|| Self::new(CANCEL.to_owned()))
    }

    /// The script that tells whether the server can decide.
    #[must_use]
    pub fn ready() -> &'static Self {
        static READY_SCRIPT: OnceLock<Script> = OnceLock::new();
        READY_SCRIPT.get_or_init(|| Self::new(READY.to_owned()))
    }

    /// The source.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 of the source, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}
