//! The Lua script: what decisions have in common around the twins of the kernels.

mod constants;
#[cfg(lua_mutants)]
mod mutant;
mod template;

use std::sync::LazyLock;

use sha1::{Digest as _, Sha1};

use crate::twin::{MODULES, Module};

use template::Template;

/// Before the kernels.
const HEAD: [Template; 17] = [
    Template::new(include_str!("lua/head.lua")),
    Template::new(include_str!("lua/inline.lua")),
    Template::new(include_str!("lua/once_lane.lua")),
    Template::new(include_str!("lua/grant_lane.lua")),
    Template::new(include_str!("lua/settle_lane.lua")),
    Template::new(include_str!("lua/hold_lane.lua")),
    Template::new(include_str!("lua/permit_lane.lua")),
    Template::new(include_str!("lua/call.lua")),
    Template::new(include_str!("lua/errands.lua")),
    Template::new(include_str!("lua/express.lua")),
    Template::new(include_str!("lua/general.lua")),
    Template::new(include_str!("lua/tally.lua")),
    Template::new(include_str!("lua/inlined.lua")),
    Template::new(include_str!("lua/hold.lua")),
    Template::new(include_str!("lua/queue.lua")),
    Template::new(include_str!("lua/line.lua")),
    Template::new(include_str!("lua/ban.lua")),
];
/// After them.
const TAIL: [Template; 4] = [
    Template::new(include_str!("lua/lease.lua")),
    Template::new(include_str!("lua/tail.lua")),
    Template::new(include_str!("lua/once.lua")),
    Template::new(include_str!("lua/batch.lua")),
];
/// The words of the kernels' modules are checked while this is compiled.
const _: () = {
    let mut modules: &[Module] = &MODULES;
    while let [module, others @ ..] = modules {
        let _ = Template::new(module.text);
        modules = others;
    }
};

/// The script, with the digest by which a server knows it. There is one for all limits: calls of any
/// of them can come together.
#[derive(Debug)]
pub struct Script {
    text: String,
    digest: String,
}

impl Script {
    /// The script.
    #[must_use]
    pub fn get() -> &'static Self {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
            let mut text = String::new();
            let kernels = MODULES.iter().map(|module| Template::new(module.text));
            for template in HEAD.into_iter().chain(kernels).chain(TAIL) {
                template.write(&mut text);
            }
            let digest = format!("{:x}", Sha1::digest(&text));
            Script { text, digest }
        });
        &SCRIPT
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
