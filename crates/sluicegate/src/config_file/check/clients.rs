//! The clients of the service.

use std::collections::{HashMap, HashSet};
use std::env;
use std::path::Path;

use super::{Checker, Fields, excerpt, field, path};
use crate::config_file::client::{ClientConfig, ClientCredential, ClientToken, Right};
use crate::config_file::limit_pattern::{LimitPattern, LimitPatternError};
use crate::config_file::tree::{Node, Value};

const EXAMPLE: &str = "{name: shop, token_file: /run/secrets/shop, may: [check]}";
/// The fields that prove a client's identity.
const CREDENTIALS: [&str; 3] = ["token_file", "token_env", "certificate"];

/// The names and credentials of the clients before, each with the name of its client.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    tokens: HashMap<Box<str>, String>,
    certificates: HashMap<String, String>,
}

impl Checker<'_> {
    pub(super) fn clients(&mut self, node: &Node) -> Option<Vec<ClientConfig>> {
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                let message = format!(
                    "is empty, so no client could make a call: write one such as {EXAMPLE}, or remove it"
                );
                self.report(node.position, "clients", &message);
                return None;
            }
            _ => {
                self.expected(node, "clients", &format!("a list of clients such as [{EXAMPLE}]"));
                return None;
            }
        };
        let mut taken = Taken::default();
        let checked: Vec<Option<ClientConfig>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.client(node, &format!("clients[{index}]"), &mut taken))
            .collect();
        checked.into_iter().collect()
    }

    fn client(&mut self, node: &Node, parent: &str, taken: &mut Taken) -> Option<ClientConfig> {
        const FIELDS: [&str; 6] =
            ["name", "token_file", "token_env", "certificate", "may", "limits"];
        if matches!(node.value, Value::Null) {
            self.expected(node, parent, &format!("a client such as {EXAMPLE}"));
            return None;
        }
        let fields = self.fields(node, parent, &FIELDS)?;
        let name = match field(&fields, "name") {
            Some(name) => self.client_name(name, &path(parent, "name"), taken),
            None => {
                self.report(node.position, parent, "has no `name`: add one such as `name: shop`");
                None
            }
        };
        let credential = self.credential(node, &fields, parent);
        let credential = credential.filter(|(node, path, credential)| {
            self.is_own(node, path, credential, name.as_deref(), taken)
        });
        let may = match field(&fields, "may") {
            Some(node) => self.rights(node, &path(parent, "may")),
            None => {
                let message = "has no `may`: add what it may do, such as `may: [check]`";
                self.report(node.position, parent, message);
                None
            }
        };
        let limits = match field(&fields, "limits") {
            Some(node) => self.limit_patterns(node, &path(parent, "limits")),
            None => Some(Vec::new()),
        };
        let (_, _, credential) = credential?;
        Some(ClientConfig { name: name?, credential, may: may?, limits: limits? })
    }

    fn client_name(&mut self, node: &Node, path: &str, taken: &mut Taken) -> Option<String> {
        let name = self.text(node, path, "a name such as `shop`")?;
        if name.parse::<sluicegate_core::LimitName>().is_err() {
            let message = format!(
                "`{}` is not a name of a client: use 1 to {} ASCII letters, digits or any of _ - . : / @",
                excerpt(name),
                sluicegate_core::LimitName::MAX_LEN
            );
            self.report(node.position, path, &message);
            return None;
        }
        if name == ClientConfig::ADMIN {
            let message = "is the name of the holder of the admin token: choose another one";
            self.report(node.position, path, message);
            return None;
        }
        if !taken.names.insert(name.to_owned()) {
            let message = "an earlier client has this name: choose another one, or write both tokens of one client \
                           into its file or variable";
            self.report(node.position, path, message);
            return None;
        }
        Some(name.to_owned())
    }

    /// Returns the credential, and the node and path that give it.
    fn credential<'n>(
        &mut self,
        node: &Node,
        fields: &Fields<'n>,
        parent: &str,
    ) -> Option<(&'n Node, String, ClientCredential)> {
        let given: Vec<(&str, &'n Node)> =
            CREDENTIALS.into_iter().filter_map(|name| Some((name, field(fields, name)?))).collect();
        let (name, node) = match *given {
            [one] => one,
            [] => {
                let message = "has no credential: add `token_file`, `token_env` or `certificate`";
                self.report(node.position, parent, message);
                return None;
            }
            [(first, _), (second, node), ..] => {
                let message = format!("there is `{first}` too: keep one of them");
                self.report(node.position, &path(parent, second), &message);
                return None;
            }
        };
        let path = path(parent, name);
        let credential = match name {
            "token_file" => self.token_file(node, &path).map(ClientCredential::Tokens),
            "token_env" => self.token_env(node, &path).map(ClientCredential::Tokens),
            _ => self.certificate(node, &path).map(ClientCredential::Certificate),
        };
        Some((node, path, credential?))
    }

    fn token_file(&mut self, node: &Node, path: &str) -> Option<Vec<ClientToken>> {
        let file = self.text(node, path, "the path of a file such as /run/secrets/shop")?;
        if self.files.is_alone() {
            return stand_in(file);
        }
        let bytes = self
            .files
            .get(Path::new(file))
            .map_err(|error| self.report(node.position, path, &format!("`{file}`: {error}")))
            .ok()?;
        self.tokens(&bytes, node, path, &format!("the file `{file}`"))
    }

    fn token_env(&mut self, node: &Node, path: &str) -> Option<Vec<ClientToken>> {
        let variable = self.text(node, path, "the name of a variable such as SHOP_TOKEN")?;
        if self.files.is_alone() {
            return stand_in(variable);
        }
        let Some(value) = env::var_os(variable) else {
            let message = format!("the environment variable `{}` isn't set", excerpt(variable));
            self.report(node.position, path, &message);
            return None;
        };
        let whose = format!("the environment variable `{}`", excerpt(variable));
        self.tokens(value.as_encoded_bytes(), node, path, &whose)
    }

    /// Returns the tokens in a file or variable. No message has a part of one.
    fn tokens(
        &mut self,
        bytes: &[u8],
        node: &Node,
        path: &str,
        whose: &str,
    ) -> Option<Vec<ClientToken>> {
        const MOST: usize = ClientConfig::MOST_TOKENS;
        let problem = if bytes.len() > ClientConfig::MOST_TOKEN_BYTES {
            let most = ClientConfig::MOST_TOKEN_BYTES;
            format!("{whose} has more than {most} bytes: it has to hold the token and nothing else")
        } else {
            let words: Vec<&[u8]> =
                bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            let tokens: Option<Vec<ClientToken>> = words
                .iter()
                .map(|word| str::from_utf8(word).ok().and_then(ClientToken::new))
                .collect();
            match (words.len(), tokens) {
                (0, _) => {
                    format!("{whose} is empty: write a token such as one of `openssl rand -hex 32`")
                }
                (1..=MOST, Some(tokens)) => return Some(tokens),
                (1..=MOST, None) => {
                    format!(
                        "{whose} has a character that isn't printable ASCII: write a token such as one of `openssl rand -hex 32`"
                    )
                }
                (count, _) => {
                    format!(
                        "{whose} has {count} words: write one token, or two while one is replaced"
                    )
                }
            }
        };
        self.report(node.position, path, &problem);
        None
    }

    fn certificate(&mut self, node: &Node, path: &str) -> Option<String> {
        const WANTED: &str = "a name in the client's certificate, such as `shop.internal`";
        let name = self.text(node, path, WANTED)?;
        if name.trim().is_empty() {
            self.expected(node, path, WANTED);
            return None;
        }
        Some(name.to_owned())
    }

    /// Returns whether no earlier client has the credential.
    fn is_own(
        &mut self,
        node: &Node,
        path: &str,
        credential: &ClientCredential,
        name: Option<&str>,
        taken: &mut Taken,
    ) -> bool {
        let mine = || name.unwrap_or("?").to_owned();
        let other = match credential {
            ClientCredential::Tokens(tokens) => tokens
                .iter()
                .find_map(|token| taken.tokens.insert(token.expose().into(), mine()))
                .map(|other| (other, "token")),
            ClientCredential::Certificate(certificate) => taken
                .certificates
                .insert(certificate.clone(), mine())
                .map(|other| (other, "certificate")),
        };
        let Some((other, what)) = other else { return true };
        let message = if Some(other.as_str()) == name {
            format!("has the same {what} twice: keep one")
        } else {
            format!("client `{other}` has the same {what}: give each client its own")
        };
        self.report(node.position, path, &message);
        false
    }

    fn rights(&mut self, node: &Node, path: &str) -> Option<Vec<Right>> {
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                let message = "is empty: write one or more of check, hold, read, admin";
                self.report(node.position, path, message);
                return None;
            }
            _ => {
                self.expected(node, path, "a list of one or more of check, hold, read, admin");
                return None;
            }
        };
        let rights: Vec<Option<Right>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.one_of(node, &format!("{path}[{index}]"), &Right::WORDS))
            .collect();
        rights.into_iter().collect()
    }

    fn limit_patterns(&mut self, node: &Node, path: &str) -> Option<Vec<LimitPattern>> {
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                let message =
                    "is empty, so the client could use no limit: name some, or remove it for all";
                self.report(node.position, path, message);
                return None;
            }
            _ => {
                self.expected(node, path, "a list of names of limits such as [api, \"shop-*\"]");
                return None;
            }
        };
        let patterns: Vec<Option<LimitPattern>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let path = format!("{path}[{index}]");
                let written = match &node.value {
                    Value::Text(text) => text,
                    // A limit may be named 404.
                    Value::Number => node.written(self.text),
                    _ => {
                        self.expected(node, &path, "a name of a limit such as `api` or \"shop-*\"");
                        return None;
                    }
                };
                written
                    .parse()
                    .map_err(|error: LimitPatternError| {
                        self.report(node.position, &path, &error.to_string());
                    })
                    .ok()
            })
            .collect();
        patterns.into_iter().collect()
    }
}

/// Returns a token in place of one that isn't read. Different places have different ones.
fn stand_in(place: &str) -> Option<Vec<ClientToken>> {
    let text: String = place.bytes().map(|byte| format!("{byte:02x}")).collect();
    Some(vec![ClientToken::new(&text)?])
}
