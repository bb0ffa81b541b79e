//! `cargo xtask setup`: real servers to test with.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::packages::{advice, install_server};
use crate::run::say;
use crate::servers::{DiscoveryError, available, workspace_root};
use crate::valkey;

/// Makes sure there is a server, and tries to have a recent Valkey among them.
pub(crate) fn setup() -> Result<()> {
    // Asked for explicitly, so what failed before is tried again.
    drop(fs::remove_file(given_up()));
    ensure_servers()
}

/// As [`setup`], except that a second server, which could not be had once, isn't tried for again:
/// test runs without a network should not wait for it each time.
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
        if given_up().exists() {
            say("no valkey-server: earlier attempts failed; `cargo xtask setup` tries again");
            return;
        }
    }
    say("getting a valkey-server into target/tools");
    if let Err(error) = valkey::fetch() {
        say(&format!("NOT TESTED on Valkey: no valkey-server could be had: {error:#}"));
        // Best effort: without the mark the next run just tries again.
        drop(fs::write(given_up(), "remove this file to try again\n"));
    }
}

fn given_up() -> PathBuf {
    workspace_root().join("target/tools/valkey-could-not-be-had")
}
