//! The rules of all domains.

use std::collections::HashMap;
use std::sync::Arc;

use super::block::Block;
use super::config::DomainConfig;
use super::domain::Domain;
use super::fields;
use super::keys;
use super::loader::Loader;
use super::problem::{LoadErrors, Problem, Report};
use super::rule::Rule;
use super::source::{Flaw, Source};
use super::yaml::document::Document;
use super::yaml::read::read;
use super::yaml::walk;

/// The settings of a load.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LoadOptions {
    /// Whether several files may have the same domain, as with `MERGE_DOMAIN_CONFIG`.
    pub merge_domains: bool,
    /// Whether `x_sluicegate` blocks are refused, so that the incumbent accepts the files too.
    pub strict: bool,
}

/// The rules of a set of files or messages, by domain.
#[derive(Debug, Default)]
pub struct Rules {
    domains: HashMap<String, Domain>,
    rules: Vec<Arc<Rule>>,
    warnings: Vec<Problem>,
}

impl Rules {
    /// Maximum size of all files together, in bytes.
    pub const MAX_BYTES: usize = 8 << 20;
    /// Maximum number of values of a file, and of those that its aliases stand for.
    pub const MAX_VALUES: usize = 1_000_000;

    /// Reads files, each a name with its content. Their order decides which of several wildcards matches.
    ///
    /// # Errors
    ///
    /// Returns the problems if a file can't be read, or the rules contradict each other. The incumbent refuses the same
    /// files.
    pub fn load<N: AsRef<str>, T: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (N, T)>,
        options: LoadOptions,
    ) -> Result<Self, LoadErrors> {
        let mut report = Report::default();
        let mut domains = Vec::new();
        let mut left = Self::MAX_BYTES;
        for (name, bytes) in files {
            let (name, bytes) = (name.as_ref(), bytes.as_ref());
            let Some(after) = left.checked_sub(bytes.len()) else {
                let message =
                    format!("the files have more than {} bytes: remove some", Self::MAX_BYTES);
                report.add_unplaced(name, &message);
                break;
            };
            left = after;
            domains.extend(domain(name, bytes, options.strict, &mut report));
        }
        if report.is_empty() {
            Self::new(domains, options.merge_domains)
        } else {
            report.finish(Self::default())
        }
    }

    /// Makes the rules of domains. With `merge_domains`, several may have the same name.
    ///
    /// # Errors
    ///
    /// Returns the problems if the rules contradict each other, or a field has a wrong value.
    pub fn new(domains: Vec<DomainConfig>, merge_domains: bool) -> Result<Self, LoadErrors> {
        let mut loader = Loader::default();
        for domain in domains {
            loader.add(domain, merge_domains);
        }
        let Loader { domains, rules, warnings, report, .. } = loader;
        report.finish(Self { domains, rules, warnings: warnings.into_problems() })
    }

    /// Returns the rules with a limit or a block, in the order of the files; unlimited ones too.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Returns a line for each rule, as the incumbent prints it: `shop.plan_gold: unit=HOUR requests_per_unit=3,
    /// shadow_mode: false, quota_mode: false`. Blocks aren't in them.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.rules.iter().map(|rule| rule.line())
    }

    /// Returns the `x_sluicegate` block of a domain.
    #[must_use]
    pub fn domain_block(&self, domain: &str) -> Option<&Block> {
        self.domains.get(domain)?.block.as_deref()
    }

    /// Returns warnings about accepted rules that are probably mistakes.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Returns the number of domains.
    #[must_use]
    pub fn domain_count(&self) -> usize {
        self.domains.len()
    }

    /// Returns the names of the domains, in no order.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(String::as_str)
    }

    /// Returns the domain of this name.
    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }
}

fn domain(name: &str, bytes: &[u8], strict: bool, report: &mut Report) -> Option<DomainConfig> {
    let (source, flaw) = Source::decode(name, bytes);
    let document = flaw.map_or_else(|| document(&source), Err);
    let document = document.map_err(|flaw| report.add_flaw(&source, &flaw)).ok()?;
    let mut own = Report::default();
    keys::check(&document, strict, &source, &mut own);
    let source = Arc::new(source);
    let domain = own.is_empty().then(|| fields::read(&document, &source, &mut own));
    report.append(own);
    domain
}

fn document(source: &Source) -> Result<Document, Flaw> {
    let document = read(&source.text, Rules::MAX_VALUES)?;
    walk::check(&document, Rules::MAX_VALUES as u64)?;
    Ok(document)
}
