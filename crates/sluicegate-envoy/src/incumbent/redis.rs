//! The Redis servers of the incumbent's environment.

use super::settings::Variables;

/// A Redis server of the incumbent.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct Redis {
    /// The URL of the store, without user and password.
    pub url: String,
    /// The user in `REDIS_AUTH` or `REDIS_PERSECOND_AUTH`.
    pub user: Option<String>,
    /// The password there.
    pub password: Option<String>,
    /// `REDIS_TLS_CACERT`: the file of the certificate authority.
    pub ca: Option<String>,
    /// `REDIS_TLS_CLIENT_CERT`: the file of the client's certificate.
    pub cert: Option<String>,
    /// `REDIS_TLS_CLIENT_KEY`: the file of its key.
    pub key: Option<String>,
}

/// Omits the password.
impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("url", &self.url).finish_non_exhaustive()
    }
}

impl<L: Fn(&str) -> Option<String>> Variables<L> {
    /// Returns the server of all limits, or of those that have no server of their own; `None` if `REDIS_URL` isn't set.
    pub(crate) fn redis(&mut self) -> Option<Redis> {
        self.redis_of("REDIS")
    }

    /// Returns the server of limits per second, if `REDIS_PERSECOND` is true.
    pub(crate) fn redis_per_second(&mut self) -> Option<Redis> {
        if !self.switch("REDIS_PERSECOND") {
            return None;
        }
        let redis = self.redis_of("REDIS_PERSECOND");
        if redis.is_none() {
            self.add_without_value("REDIS_PERSECOND_URL", "must be set for REDIS_PERSECOND");
        }
        redis
    }

    /// Returns the store that the variables with this beginning name.
    fn redis_of(&mut self, family: &str) -> Option<Redis> {
        let name = |variable: &str| format!("{family}_{variable}");
        let given = self.text(&name("URL"))?;
        let has_tls = self.switch(&name("TLS"));
        let kind = self.word(
            &name("TYPE"),
            &[("SINGLE", Kind::Single), ("SENTINEL", Kind::Sentinel), ("CLUSTER", Kind::Cluster)],
        );
        let socket = self.word(
            &name("SOCKET_TYPE"),
            &[("unix", Socket::Unix), ("tcp", Socket::Tcp), ("tls", Socket::Tls)],
        );
        let scheme = if has_tls || socket == Socket::Tls { "rediss" } else { "redis" };
        let url = match kind {
            _ if given.contains("://") => given,
            Kind::Cluster => format!("{scheme}+cluster://{given}"),
            Kind::Sentinel => {
                let (primary, hosts) = given.split_once(',').unwrap_or((&given, ""));
                if hosts.is_empty() {
                    let must = format!("must be NAME,HOST:PORT,… for {} SENTINEL", name("TYPE"));
                    self.add(&name("URL"), &must, &given);
                }
                format!("{scheme}+sentinel://{hosts}/{primary}")
            }
            Kind::Single if given.starts_with('/') => format!("unix://{given}"),
            Kind::Single => format!("{scheme}://{given}"),
        };
        let auth = self.text(&name("AUTH"));
        let (user, password) = match auth.as_deref().map(|auth| auth.split_once(':')) {
            Some(Some((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
            Some(None) => (None, auth),
            None => (None, None),
        };
        // Both servers have these files, and only one of them may have TLS.
        let is_encrypted = url.starts_with("rediss");
        let file = |variable| self.text(variable).filter(|_| is_encrypted);
        Some(Redis {
            user: user.filter(|user| !user.is_empty()),
            password,
            ca: file("REDIS_TLS_CACERT"),
            cert: file("REDIS_TLS_CLIENT_CERT"),
            key: file("REDIS_TLS_CLIENT_KEY"),
            url,
        })
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Single,
    Sentinel,
    Cluster,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Socket {
    Unix,
    Tcp,
    Tls,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(variables: &[(&str, &str)]) -> Result<[Option<Redis>; 2], Vec<String>> {
        let mut read = Variables::new(|name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let both = [read.redis(), read.redis_per_second()];
        read.finish(both).map_err(|errors| errors.problems().to_vec())
    }

    #[test]
    fn the_store_is_of_the_servers_kind() {
        for (variables, url) in [
            (&[("REDIS_URL", "r:6379"), ("REDIS_SOCKET_TYPE", "tcp")][..], "redis://r:6379"),
            (&[("REDIS_URL", "r:6379"), ("REDIS_TLS", "true")], "rediss://r:6379"),
            (&[("REDIS_URL", "/run/redis.sock")], "unix:///run/redis.sock"),
            (&[("REDIS_URL", "rediss://r")], "rediss://r"),
            (&[("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "cluster")], "redis+cluster://a:1,b:2"),
            (
                &[("REDIS_URL", "m,a:1,b:2"), ("REDIS_TYPE", "SENTINEL")],
                "redis+sentinel://a:1,b:2/m",
            ),
        ] {
            let [found, per_second] = redis(variables).unwrap();
            assert_eq!((found.unwrap().url.as_str(), per_second), (url, None));
        }
        let [found, _] = redis(&[("REDIS_URL", "r:1"), ("REDIS_AUTH", "user:pass:word")]).unwrap();
        let redis = found.unwrap();
        assert_eq!(redis.user.as_deref(), Some("user"));
        assert_eq!(redis.password.as_deref(), Some("pass:word"));
        assert!(!format!("{redis:?}").contains("pass:word"));
    }

    #[test]
    fn limits_per_second_may_have_a_server_of_their_own() {
        let variables = [
            ("REDIS_URL", "r:1"),
            ("REDIS_TLS", "true"),
            ("REDIS_TLS_CACERT", "ca.pem"),
            ("REDIS_PERSECOND", "true"),
            ("REDIS_PERSECOND_URL", "a:1,b:2"),
            ("REDIS_PERSECOND_TYPE", "cluster"),
            ("REDIS_PERSECOND_AUTH", "secret"),
        ];
        let [found, per_second] = redis(&variables).unwrap().map(Option::unwrap);
        assert_eq!((found.url.as_str(), found.ca.as_deref()), ("rediss://r:1", Some("ca.pem")));
        assert_eq!(per_second.url, "redis+cluster://a:1,b:2");
        assert_eq!((per_second.password.as_deref(), per_second.ca), (Some("secret"), None));
        let [_, per_second] = redis(&[("REDIS_PERSECOND_URL", "r:2")]).unwrap();
        assert_eq!(per_second, None);
        assert_eq!(
            redis(&[("REDIS_PERSECOND", "true")]).unwrap_err(),
            ["REDIS_PERSECOND_URL must be set for REDIS_PERSECOND"]
        );
    }
}
