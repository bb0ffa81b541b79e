//! The listeners of the service.

use std::path::PathBuf;

use super::{Checker, excerpt, field, path};
use crate::config_file::listen_address::{ListenAddress, ListenAddressError};
use crate::config_file::listeners::{
    ClientCertificates, ListenerConfig, ListenersConfig, TlsConfig,
};
use crate::config_file::tree::{Node, Value};

const ADDRESS: &str = "an address such as 127.0.0.1:8080, localhost:8080, :8080 or unix:/PATH";

impl Checker<'_> {
    pub(super) fn listeners(&mut self, node: &Node) -> Option<ListenersConfig> {
        const FIELDS: [&str; 6] = ["http", "grpc", "resp", "admin", "metrics", "health"];
        let fields = self.fields(node, "listeners", &FIELDS)?;
        let [http, grpc, resp, admin, metrics, health] =
            FIELDS.map(|name| match field(&fields, name) {
                Some(node) => self.listener(node, &path("listeners", name)).map(Some),
                None => Some(None),
            });
        Some(ListenersConfig {
            http: http?.unwrap_or_else(|| ListenersConfig::default().http),
            grpc: grpc?,
            resp: resp?,
            admin: admin?,
            metrics: metrics?,
            health: health?,
        })
    }

    fn listener(&mut self, node: &Node, at: &str) -> Option<ListenerConfig> {
        if !matches!(node.value, Value::Map(_)) {
            return self.address(node, at).map(Into::into);
        }
        let fields = self.fields(node, at, &["address", "tls"])?;
        let address = match field(&fields, "address") {
            Some(node) => self.address(node, &path(at, "address")),
            None => {
                self.report(node.position, at, "has no address: add `address: 127.0.0.1:8080`");
                None
            }
        };
        let tls = match field(&fields, "tls") {
            Some(node) => self.tls(node, &path(at, "tls")).map(Some),
            None => Some(None),
        };
        Some(ListenerConfig { address: address?, tls: tls? })
    }

    fn address(&mut self, node: &Node, at: &str) -> Option<ListenAddress> {
        let text = self.text(node, at, ADDRESS)?;
        let address = text.parse().map_err(|error: ListenAddressError| {
            self.report(node.position, at, &format!("`{}` {error}", excerpt(text)));
        });
        address.ok()
    }

    fn tls(&mut self, node: &Node, at: &str) -> Option<TlsConfig> {
        let fields = self.fields(node, at, &["cert", "key", "client_ca", "required"])?;
        let [cert, key, client_ca] = ["cert", "key", "client_ca"].map(|name| {
            let file = field(&fields, name);
            if file.is_none() && name != "client_ca" {
                let message = format!("has no {name}: add the path of a PEM file, `{name}: FILE`");
                self.report(node.position, at, &message);
            }
            file.map(|node| self.file(node, &path(at, name)))
        });
        let required = field(&fields, "required").map(|node| match node.value {
            Value::Bool(is_required) => Some(is_required),
            _ => {
                self.expected(node, &path(at, "required"), "true or false");
                None
            }
        });
        let clients = match (client_ca, required) {
            (None, None) => ClientCertificates::Ignored,
            (None, Some(_)) => {
                let message = "needs the authorities of clients: add the path of a PEM file, \
                               `client_ca: FILE`, or leave it out";
                self.report(node.position, &path(at, "required"), message);
                return None;
            }
            (Some(ca), Some(Some(false))) => ClientCertificates::Accepted(ca?),
            (Some(ca), required) => {
                required.unwrap_or(Some(true))?;
                ClientCertificates::Required(ca?)
            }
        };
        Some(TlsConfig { cert: cert??, key: key??, clients })
    }

    fn file(&mut self, node: &Node, at: &str) -> Option<PathBuf> {
        let text = self.text(node, at, "the path of a file")?;
        if text.is_empty() {
            self.expected(node, at, "the path of a file");
            return None;
        }
        Some(text.into())
    }
}
