//! A limit in a file of another program.

use std::sync::Arc;

use sluicegate_core::LimitName;
use sluicegate_http::ClientAddress;

use super::{Around, Checker};
use crate::config_file::files::Files;
use crate::config_file::origins::Origins;
use crate::config_file::problem::Reporter;
use crate::config_file::{ConfigCaps, ConfigErrors, ConfigProblem, LimitBlock, LimitConfig};

impl LimitBlock<'_> {
    /// Reads the limit of this name, with the places of its settings. Also returns warnings about valid settings that are
    /// probably mistakes.
    ///
    /// `on_store_failure` may be `local`, which needs a store with a fallback.
    ///
    /// ```
    /// use sluicegate::config::{LimitBlock, Tree, TreeKey, TreeValue};
    ///
    /// let text = "policies: [gcra 5/m]";
    /// let spec = Tree::new(TreeValue::Text("gcra 5/m".to_owned()), 1, 12, 11..19);
    /// let policies = Tree::new(TreeValue::List(vec![spec]), 1, 11, 0..0);
    /// let name = TreeKey::new("policies".to_owned(), 1, 1);
    /// let settings = Tree::new(TreeValue::Map(vec![(name, policies)]), 1, 1, 0..0);
    /// let fields = &LimitBlock::FIELDS;
    /// let block =
    ///     LimitBlock { file: "f", text, path: "here", settings: &settings, fields, policies: None };
    /// let errors = block.read(&"api".parse()?).unwrap_err();
    /// assert!(errors.to_string().starts_with("f:1:19: here.policies[0]: `m` is ambiguous"), "{errors}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns all problems of the settings together.
    pub fn read(
        &self,
        name: &LimitName,
    ) -> Result<(LimitConfig, Origins, Vec<ConfigProblem>), ConfigErrors> {
        let mut reporter = Reporter::new(self.file);
        let mut warnings = reporter.empty();
        let caps = ConfigCaps::default();
        let mut values_left = caps.max_values;
        let mut origins = Origins::default();
        let mut checker = Checker {
            text: self.text,
            reporter: &mut reporter,
            warnings: &mut warnings,
            files: &mut Files::new(caps, self.text.len()),
            values_left: &mut values_left,
            origins: &mut origins,
        };
        let Self { settings, path, fields, policies, .. } = *self;
        let address = Arc::new(ClientAddress::default());
        // The caller knows whether its store has a fallback.
        let around = Around { address: &address, has_fallback: true, fields, policies };
        let limit = checker.limit(settings.position, Some(name), settings, path, around);
        origins.finish(reporter.files(), limit.iter());
        let warnings = warnings.into_problems();
        reporter.finish(limit.map(|limit| (limit, origins, warnings)))
    }
}
