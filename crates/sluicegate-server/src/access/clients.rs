//! The clients of a configuration, by their credentials.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate::config::{ClientConfig, ClientCredential};

use super::caller::Client;
use super::counts::Counts;
use super::tokens::{Tag, Tokens};
use crate::serving::ClientCertificate;

/// The clients of a configuration.
pub(super) struct Clients {
    source: Arc<[ClientConfig]>,
    /// In the order of the configuration.
    all: Vec<Arc<Client>>,
    by_tag: HashMap<Tag, Arc<Client>>,
    by_certificate: HashMap<Box<str>, Arc<Client>>,
}

impl Clients {
    /// Makes the clients of a configuration. A client continues the counts that it had `before`.
    pub(super) fn new(source: Arc<[ClientConfig]>, tokens: &Tokens, before: Option<&Self>) -> Self {
        let counts: HashMap<&str, &Arc<Counts>> = before
            .iter()
            .flat_map(|before| &before.all)
            .map(|client| (client.name(), client.shared_counts()))
            .collect();
        let (mut all, mut by_tag, mut by_certificate) =
            (Vec::new(), HashMap::new(), HashMap::new());
        for config in &*source {
            let counts = counts.get(config.name.as_str()).map(|counts| Arc::clone(counts));
            let client = Arc::new(Client::new(config, counts.unwrap_or_default()));
            match &config.credential {
                ClientCredential::Tokens(own) => {
                    let tags = own.iter().map(|token| tokens.tag(token.expose().as_bytes()));
                    by_tag.extend(tags.map(|tag| (tag, Arc::clone(&client))));
                }
                ClientCredential::Certificate(name) => {
                    by_certificate.insert(name.as_str().into(), Arc::clone(&client));
                }
                // A credential that a later version may add admits no client here.
                _ => {}
            }
            all.push(client);
        }
        Self { source, all, by_tag, by_certificate }
    }

    /// Returns `true` if these are the clients of a configuration.
    pub(super) fn are_of(&self, source: &Arc<[ClientConfig]>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.all.iter().map(|client| &**client)
    }

    pub(super) fn with_tag(&self, tag: Tag) -> Option<&Arc<Client>> {
        self.by_tag.get(&tag)
    }

    /// Returns the client of the certificate's first name that one has.
    pub(super) fn with_certificate(&self, certificate: &ClientCertificate) -> Option<&Arc<Client>> {
        certificate.names.iter().find_map(|name| self.by_certificate.get(name.as_str()))
    }
}
