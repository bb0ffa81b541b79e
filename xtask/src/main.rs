//! Sluicegate's development commands: `cargo xtask --help`.
//!
//! Messages of the commands themselves go to standard error. Standard output belongs to the programs
//! that they run, so that `cargo xtask bench --json` can be piped.

mod bench;
mod beside;
mod book;
mod ci;
mod clients;
mod deb;
mod deploy;
mod envoy;
mod files;
mod limitador;
mod lines;
mod links;
mod lua_mutants;
mod markdown;
mod members;
mod msrv;
mod packages;
#[cfg(test)]
mod pages;
mod plots;
mod prose;
mod redis_py;
mod reference;
mod rings;
mod run;
/// The tests' own search for servers, compiled into this program too, so that both find the same
/// ones.
#[allow(dead_code, unreachable_pub, reason = "public and used in full where the file lives")]
#[path = "../../crates/sluicegate-testkit/src/servers/binary.rs"]
mod servers;
mod setup;
mod soak;
#[cfg(test)]
mod tables;
mod tarballs;
mod test;
mod valkey;
mod web_proxies;
mod wheel;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Sluicegate's development commands"
)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make sure there is a real redis-server or valkey-server to test with
    ///
    /// Looks on PATH, in SLUICEGATE_REDIS_SERVER (programs, separated by `:`) and in target/tools. If
    /// there is none, installs one with the system's package manager, without starting a service.
    /// Also tries to get a recent valkey-server, promtool, nginx, envoy, redis-py and mdbook into target/tools, and to install
    /// faketime.
    Setup,
    /// Run every test, on real servers
    Test {
        /// Arguments for `cargo test`, which then stops at the first program that fails
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run everything a change must pass, from formatting to tests
    Ci {
        /// Parts to run; all by default
        #[arg(value_parser = PossibleValuesParser::new(ci::part_names()))]
        parts: Vec<String>,
    },
    /// Run Redis clients of other languages against the service: Go, Node and Java
    ///
    /// Each comes from its registry. A toolchain that isn't installed is named.
    Clients,
    /// Run the benchmarks in bench/
    Bench {
        /// Arguments for the benchmark program, such as `--json`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the texts that aren't plain English, or lower the list of counts per file
    Prose {
        /// Lower the counts in xtask/prose.txt to the findings; no count rises
        #[arg(long, conflicts_with = "paths")]
        update: bool,
        /// Files and folders whose findings are printed; without any, check all files
        paths: Vec<String>,
    },
    /// Build the Debian package, with pages of the manual and completions for shells
    ///
    /// Needs the command cargo-deb. The package is in target/debian.
    Deb,
    /// Redraw the plots of docs/policies
    Plots,
    /// Write the generated pages of docs/: command-line.md
    Pages,
    /// Build the documentation as a book in target/book, and check its links
    ///
    /// Open target/book/index.html in a browser. The search needs no server. Installs mdBook into target/tools if there
    /// is none.
    Book,
    /// Run the long tests: large schedules, mutants of code and scripts, every fuzz target
    Soak {
        /// Parts to run; all by default
        #[arg(value_enum)]
        parts: Vec<soak::Soak>,
        /// Share of the mutants to run: every Nth, from the Kth on (from 0)
        #[arg(long, value_name = "K/N")]
        shard: Option<soak::Shard>,
        /// Script whose mutants are run, such as `bucket_lane.lua`
        #[arg(long, value_name = "FILE")]
        file: Option<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Task::Setup => setup::setup(),
        Task::Test { arguments } => test::test(&arguments),
        Task::Ci { parts } => ci::ci(&parts),
        Task::Clients => clients::clients(),
        Task::Bench { arguments } => bench::bench(&arguments),
        Task::Prose { update: true, .. } => prose::update(),
        Task::Prose { paths, .. } if paths.is_empty() => prose::check(),
        Task::Prose { paths, .. } => prose::show(&paths),
        Task::Deb => deb::deb(),
        Task::Plots => plots::plots(),
        Task::Pages => reference::pages(),
        Task::Book => book::book(),
        Task::Soak { parts, shard, file } => soak::soak(&parts, shard, file.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
