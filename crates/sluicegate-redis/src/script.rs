//! The Lua scripts: what decisions have in common around the twins of the kernels a limit needs.

mod constants;
#[cfg(lua_mutants)]
mod mutant;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sha1::{Digest as _, Sha1};
use sluicegate_core::Limit;

use crate::twin::{MODULES, Module, Twin};

use template::Template;

/// Before the kernels.
const HEAD: [Template; 3] = [
    Template::new(include_str!("lua/head.lua")),
    Template::new(include_str!("lua/express.lua")),
    Template::new(include_str!("lua/general.lua")),
];
/// After them.
const TAIL: Template = Template::new(include_str!("lua/tail.lua"));
const CANCEL: Template = Template::new(include_str!("lua/cancel.lua"));
const READY: Template = Template::new(include_str!("lua/ready.lua"));
/// The words of the kernels' modules are checked while this is compiled.
const _: () = {
    let mut modules: &[Module] = &MODULES;
    while let [module, others @ ..] = modules {
        let _ = Template::new(module.text);
        modules = others;
    }
};

/// A script with its digest, by which the server knows it.
#[derive(Debug)]
pub struct Script {
    text: String,
    digest: String,
}

impl Script {
    /// The script for the policies of a limit. A module that no policy needs would cost every
    /// decision the making of its functions.
    #[must_use]
    pub fn of(limit: &Limit) -> Arc<Self> {
        static SCRIPTS: Mutex<BTreeMap<Vec<&str>, Arc<Script>>> = Mutex::new(BTreeMap::new());
        let rules = limit.members().iter().map(|member| member.policy().rule());
        let modules = rules.map(|rule| Twin::of(rule).module);
        let modules: BTreeMap<_, _> = modules.map(|module| (module.name, module.text)).collect();
        let mut scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
        let script = scripts.entry(modules.keys().copied().collect()).or_insert_with(|| {
            let modules: Vec<_> = modules.into_values().map(Template::new).collect();
            Arc::new(Self::new(HEAD.iter().chain(&modules).chain([&TAIL])))
        });
        Arc::clone(script)
    }

    fn new<'t>(templates: impl IntoIterator<Item = &'t Template>) -> Self {
        let mut text = String::new();
        for template in templates {
            template.write(&mut text);
        }
        let digest = format!("{:x}", Sha1::digest(&text));
        Self { text, digest }
    }

    /// The script that gives a reservation back.
    #[must_use]
    pub fn cancel() -> &'static Self {
        static CANCEL_SCRIPT: OnceLock<Script> = OnceLock::new();
        CANCEL_SCRIPT.get_or_init(|| Self::new([&CANCEL]))
    }

    /// The script that tells whether the server can decide.
    #[must_use]
    pub fn ready() -> &'static Self {
        static READY_SCRIPT: OnceLock<Script> = OnceLock::new();
        READY_SCRIPT.get_or_init(|| Self::new([&READY]))
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
