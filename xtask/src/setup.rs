//! `cargo xtask setup`: real servers to test with.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::book::ensure_mdbook;
use crate::deploy;
use crate::envoy;
use crate::limitador;
use crate::packages::{advice, install_program, install_server, unpack_program};
use crate::redis_py;
use crate::run::{find_program, say};
use crate::servers::{DiscoveryError, available, workspace_root};
use crate::valkey;
use crate::web_proxies;

const VALKEY: &str = "valkey";
const FAKETIME: &str = "faketime";
const PROMTOOL: &str = "promtool";
const NGINX: &str = "nginx";
const ENVOY: &str = "envoy";
const HAPROXY: &str = "haproxy";
const CADDY: &str = "caddy";
const TRAEFIK: &str = "traefik";
const CHROMIUM: &str = "chromium";
const REDIS_PY: &str = "redis-py";

/// The libraries that Debian's HAProxy needs, and a minimal system lacks.
const HAPROXY_LIBRARIES: [&str; 2] = ["liblua5.3-0", "libopentracing-c-wrapper0"];

/// Makes sure there is a server, and tries to get a recent Valkey too.
pub(crate) fn setup() -> Result<()> {
    // The command was given explicitly, so try again what failed before.
    for what in
        [VALKEY, FAKETIME, CHROMIUM, PROMTOOL, NGINX, HAPROXY, ENVOY, CADDY, TRAEFIK, REDIS_PY]
    {
        drop(fs::remove_file(given_up(what)));
    }
    ensure_servers()?;
    if let Err(error) = ensure_mdbook() {
        say(&format!("mdbook could not be had, so `cargo xtask book` builds nothing: {error:#}"));
    }
    if let Err(error) = deploy::fetch() {
        say(&format!("`cargo xtask ci deploy` checks less: {error:#}"));
    }
    if let Err(error) = limitador::fetch() {
        say(&format!("the benchmarks can't build Limitador: {error:#}"));
    }
    Ok(())
}

/// Makes sure there is a server, like [`setup`], but doesn't retry other programs that couldn't be
/// installed before. Test runs without a network must not wait for them each time.
pub(crate) fn ensure_servers() -> Result<()> {
    match available() {
        Ok(_) => {}
        Err(error @ DiscoveryError::Explicit(_)) => return Err(error.into()),
        Err(DiscoveryError::None { unusable }) => {
            say("there is no redis-server or valkey-server yet");
            for why in unusable {
                say(&format!("unusable: {why}"));
            }
            if let Err(error) = install_server() {
                say(&format!("the package manager gives no server: {error:#}"));
            }
        }
    }
    ensure_valkey();
    ensure_faketime();
    ensure_chromium();
    ensure_unpacked("prometheus", PROMTOOL, &[]);
    ensure_unpacked("nginx", NGINX, &[]);
    ensure_unpacked("haproxy", HAPROXY, &HAPROXY_LIBRARIES);
    ensure_fetched(ENVOY, envoy::fetch);
    ensure_fetched(CADDY, web_proxies::fetch_caddy);
    ensure_fetched(TRAEFIK, web_proxies::fetch_traefik);
    ensure_fetched(REDIS_PY, redis_py::fetch);

    let Ok(binaries) = available() else {
        bail!("there is no server to test with, and none could be installed.\n{}", advice());
    };
    say("servers to test with:");
    for binary in &binaries {
        say(&format!("  {binary}"));
    }
    Ok(())
}

fn ensure_valkey() {
    if let Ok(binaries) = available() {
        if binaries.iter().any(|binary| binary.product() == "valkey") {
            return;
        }
        if given_up(VALKEY).exists() {
            say("no valkey-server: earlier attempts failed; `cargo xtask setup` tries again");
            return;
        }
    }
    say("getting a valkey-server into target/tools");
    if let Err(error) = valkey::fetch() {
        say(&format!("NOT TESTED on Valkey: no valkey-server could be had: {error:#}"));
        // Best effort: without the mark, the next run tries again.
        drop(fs::write(given_up(VALKEY), "remove this file to try again\n"));
    }
}

/// Installs the library that gives a server a clock of its own.
fn ensure_faketime() {
    if find_program(FAKETIME).is_some() {
        return;
    }
    if given_up(FAKETIME).exists() {
        say("no faketime: earlier attempts failed; `cargo xtask setup` tries again");
        return;
    }
    if let Err(error) = install_program(FAKETIME) {
        say(&format!("NOT TESTED with servers whose clock is wrong: no faketime: {error:#}"));
        // Best effort, as above.
        drop(fs::write(given_up(FAKETIME), "remove this file to try again\n"));
    }
}

/// Installs the browser that the tests of the service's page drive. Its package starts no service.
fn ensure_chromium() {
    if find_program(CHROMIUM).is_none() {
        ensure_fetched(CHROMIUM, || install_program(CHROMIUM));
    }
}

/// Extracts a program that tests need, from a package that starts a service when it is installed.
/// `promtool` checks the service's metrics, and `nginx` and `haproxy` are proxies that use the service.
fn ensure_unpacked(package: &'static str, name: &'static str, libraries: &[&'static str]) {
    if find_program(name).is_none() {
        ensure_fetched(name, || unpack_program(package, name, libraries));
    }
}

/// Installs a proxy or a client that calls the service in tests. The version matters, so a program on `PATH` doesn't replace it.
fn ensure_fetched(name: &'static str, fetch: impl FnOnce() -> Result<()>) {
    if given_up(name).exists() {
        say(&format!("no {name}: earlier attempts failed; `cargo xtask setup` tries again"));
        return;
    }
    if let Err(error) = fetch() {
        say(&format!("{name} could not be had, so its tests fail: {error:#}"));
        // Best effort, as above.
        drop(fs::write(given_up(name), "remove this file to try again\n"));
    }
}

/// Returns the path of the mark that a program couldn't be installed.
fn given_up(what: &str) -> PathBuf {
    workspace_root().join(format!("target/tools/{what}-could-not-be-had"))
}
