//! The settings of a Redis or Valkey store, and whether they fit its URL.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use sluicegate_core::KeyPrefix;

use super::{Checked, Checker, Fields, field, path};
use crate::config_file::redis::{Password, RedisAccess, RedisConfig, SentinelAccess};
use crate::config_file::tree::{Node, Value};
use crate::config_file::warnings;

/// The fields for access to servers and sentinels.
const ACCESS: [&str; 7] = ["user", "password", "password_file", "ca", "cert", "key", "server_name"];

impl Checker<'_> {
    pub(super) fn redis(&mut self, node: &Node) -> Option<RedisConfig> {
        let known = [&["prefix", "breaker", "connections"], &ACCESS[..], &["sentinel"]].concat();
        let fields = self.fields(node, "redis", &known)?;
        let prefix = field(&fields, "prefix").map(|node| self.prefix(node));
        let breaker = field(&fields, "breaker").map(|node| self.switch(node, "redis.breaker"));
        let connections = match field(&fields, "connections") {
            Some(node) => self.connections(node),
            None => Some(RedisConfig::default().connections),
        };
        let access = self.access(node, &fields, "redis");
        let sentinel = field(&fields, "sentinel").map(|node| self.sentinel(node));
        Some(RedisConfig {
            prefix: prefix.unwrap_or_default_if_absent()?,
            breaker: breaker.unwrap_or_default_if_absent()?,
            connections: connections?,
            access: access?,
            sentinel: sentinel.unwrap_or_default_if_absent()?,
        })
    }

    fn connections(&mut self, node: &Node) -> Option<NonZeroUsize> {
        let most = RedisConfig::MAX_CONNECTIONS;
        let count = self.number::<NonZeroUsize>(node).filter(|count| *count <= most);
        if count.is_none() {
            self.expected(node, "redis.connections", &format!("a whole number from 1 to {most}"));
        }
        count
    }

    fn prefix(&mut self, node: &Node) -> Option<KeyPrefix> {
        let text = self.text(node, "redis.prefix", "text such as `sg`")?;
        if let Some(warning) = warnings::of_prefix(text) {
            self.warnings.report(node.position, &format!("redis.prefix: {warning}"));
        }
        text.parse()
            .map_err(|error: sluicegate_core::KeyPrefixError| {
                self.report(node.position, "redis.prefix", &error.to_string());
            })
            .ok()
    }

    fn sentinel(&mut self, node: &Node) -> Option<SentinelAccess> {
        let known = [&["tls"], &ACCESS[..]].concat();
        let fields = self.fields(node, "redis.sentinel", &known)?;
        let is_encrypted = match field(&fields, "tls").map(|node| (node, &node.value)) {
            None => Some(None),
            Some((_, Value::Bool(is_encrypted))) => Some(Some(*is_encrypted)),
            Some((node, _)) => {
                self.expected(node, "redis.sentinel.tls", "true or false");
                None
            }
        };
        let access = self.access(node, &fields, "redis.sentinel");
        Some(SentinelAccess { is_encrypted: is_encrypted?, access: access? })
    }

    fn access(&mut self, node: &Node, fields: &Fields<'_>, parent: &str) -> Option<RedisAccess> {
        let texts = ["user", "password_file", "ca", "cert", "key", "server_name"].map(|name| {
            let Some(node) = field(fields, name) else { return Some(None) };
            let wanted = if matches!(name, "user" | "server_name") { "a name" } else { "a file" };
            let path = path(parent, name);
            let text = self.text(node, &path, wanted)?;
            if text.is_empty() {
                self.expected(node, &path, wanted);
                return None;
            }
            Some(Some(text.to_owned()))
        });
        let password = field(fields, "password").map(|node| self.password(node, parent));
        let [user, password_file, ca, cert, key, server_name] = texts;
        let file = password_file?.map(PathBuf::from);
        let password = match (password, file) {
            (Some(_), Some(_)) => {
                let path = path(parent, "password_file");
                self.report(node.position, &path, "there is a `password` too: keep one of them");
                return None;
            }
            (Some(password), None) => Some(password?),
            (None, file) => file.map(Password::File),
        };
        let access = RedisAccess {
            user: user?,
            password,
            ca: ca?.map(PathBuf::from),
            cert: cert?.map(PathBuf::from),
            key: key?.map(PathBuf::from),
            server_name: server_name?,
        };
        #[cfg(feature = "redis")]
        if let Some(why) = access.tls(None).problem() {
            self.report(node.position, parent, &why);
            return None;
        }
        Some(access)
    }

    /// Reads a password, which no message shows.
    fn password(&mut self, node: &Node, parent: &str) -> Option<Password> {
        match &node.value {
            Value::Text(text) if !text.is_empty() => Some(Password::Text(text.clone())),
            _ => {
                let message = "must be text of one character at least: put it into quotes";
                self.report(node.position, &path(parent, "password"), message);
                None
            }
        }
    }
}

#[cfg(feature = "redis")]
mod with_redis {
    use crate::config_file::check::Checker;
    use crate::config_file::redis::{RedisConfig, SentinelAccess};
    use crate::config_file::store_url::StoreUrl;
    use crate::config_file::tree::Node;

    impl Checker<'_> {
        /// Reports settings that the URL of the store sets too, or contradicts.
        pub(in crate::config_file::check) fn match_redis(
            &mut self,
            store: &StoreUrl,
            redis: &RedisConfig,
            node: &Node,
        ) {
            let StoreUrl::Redis(url) = store else { return };
            let RedisConfig { access, sentinel, .. } = redis;
            let (has_user, has_password) = match url.credentials() {
                None => (false, false),
                Some(written) => (written.user().is_some(), written.has_password()),
            };
            if access.password.is_some() && has_password
                || access.user.is_some() && (has_user || has_password)
            {
                let message =
                    "redis: a user or password is also in the URL of `store`; keep one of them";
                self.reporter.report(node.position, message);
            }
            match (url.tls(), access.option_of_tls()) {
                (None, Some(option)) => {
                    let message = format!(
                        "redis.{option}: is of TLS, and the URL of `store` is not encrypted: write rediss:// there, or leave it out"
                    );
                    self.reporter.report(node.position, &message);
                }
                (Some(written), Some(_)) => {
                    let twice = [
                        ("ca", written.ca.is_some() && access.ca.is_some()),
                        ("cert", written.cert.is_some() && access.cert.is_some()),
                        (
                            "server_name",
                            written.server_name.is_some() && access.server_name.is_some(),
                        ),
                    ];
                    for (option, _) in twice.iter().filter(|(_, is_twice)| *is_twice) {
                        let message = format!(
                            "redis.{option}: is in the URL of `store` too: keep one of them"
                        );
                        self.reporter.report(node.position, &message);
                    }
                }
                (_, None) => {}
            }
            if !url.has_sentinels() && *sentinel != SentinelAccess::default() {
                let message = format!("redis.sentinel: has no effect while `store` is {url}");
                self.warnings.report(node.position, &message);
            }
            let is_plain = !sentinel.is_encrypted.unwrap_or(url.is_encrypted());
            if let (true, true, Some(option)) =
                (url.has_sentinels(), is_plain, sentinel.access.option_of_tls())
            {
                let message = format!(
                    "redis.sentinel.{option}: is of TLS, and the sentinels are not asked over it: add `tls: true` here, or leave it out"
                );
                self.reporter.report(node.position, &message);
            }
        }
    }
}
