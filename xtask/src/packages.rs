//! Installs servers with the system's package manager, without a running service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::run::{find_program, program, run_aside, say, succeeds};
use crate::servers::{ServerBinary, tools_folder, workspace_root};

/// One way to get a server program.
struct Manager {
    program: &'static str,
    install: &'static str,
    /// Options that prevent questions.
    options: &'static [&'static str],
    refresh: Option<&'static [&'static str]>,
    /// Packages in order of preference; the first available one is enough.
    packages: &'static [&'static str],
    needs_root: bool,
}

/// None of these packages starts a service when it is installed. On Debian and Ubuntu the
/// `redis-server` package would. But its server is the program `redis-check-rdb` of `redis-tools`, a
/// package without a service. The program acts by the name that it is called with.
const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        install: "install",
        options: &["-o", "DPkg::Lock::Timeout=120", "-y", "--no-install-recommends"],
        refresh: Some(&["update"]),
        packages: &["redis-tools", "valkey-tools"],
        needs_root: true,
    },
    Manager {
        program: "dnf",
        install: "install",
        options: &["-y"],
        refresh: None,
        packages: &["valkey", "redis"],
        needs_root: true,
    },
    Manager {
        program: "apk",
        install: "add",
        options: &[],
        refresh: Some(&["update"]),
        packages: &["valkey", "redis"],
        needs_root: true,
    },
    Manager {
        program: "pacman",
        install: "-S",
        options: &["--noconfirm", "--needed"],
        refresh: None,
        packages: &["valkey", "redis"],
        needs_root: true,
    },
    Manager {
        program: "brew",
        install: "install",
        options: &[],
        refresh: None,
        packages: &["valkey", "redis"],
        needs_root: false,
    },
];

/// Programs that act as a server when they are called by a server's name.
const MULTI_CALL: [(&str, &str); 2] =
    [("redis-check-rdb", "redis-server"), ("valkey-check-rdb", "valkey-server")];

/// Installs a server with the system's package manager.
pub(crate) fn install_server() -> Result<()> {
    if link_multi_call()? {
        return Ok(());
    }
    let manager = manager()?;
    // Fail early without the permission to install.
    manager.command(&[])?;
    for package in manager.packages {
        say(&format!("installing {package} with {}", manager.program));
        if let Err(error) = manager.install(package) {
            say(&format!("{package} can't be installed: {error:#}"));
            continue;
        }
        if link_multi_call()? || crate::servers::available().is_ok() {
            return Ok(());
        }
        say(&format!("{package} brought no server program"));
    }
    bail!("{} installs none of {}", manager.program, manager.packages.join(", "))
}

/// Installs a program from the package of that name.
pub(crate) fn install_program(name: &'static str) -> Result<()> {
    let manager = manager()?;
    say(&format!("installing {name} with {}", manager.program));
    manager.install(name)?;
    find_program(name).map(|_| ()).with_context(|| format!("the package {name} brought no program"))
}

/// Extracts a program into the folder of tools, from a package that isn't installed. The `libraries` are packages that it
/// needs on Debian and Ubuntu.
///
/// On Debian and Ubuntu, installing it would start the package's service. Other package managers
/// start no service, so they install the package.
pub(crate) fn unpack_program(
    package: &'static str,
    name: &'static str,
    libraries: &[&'static str],
) -> Result<()> {
    let manager = manager()?;
    if manager.program != "apt-get" {
        say(&format!("installing {package} with {}", manager.program));
        manager.install(package)?;
        let found = find_program(name).map(|_| ());
        return found.with_context(|| format!("the package {package} brought no {name}"));
    }
    say(&format!("unpacking {package} into target/tools"));
    let folder = workspace_root().join("target/tools").join(package);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("replace {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let download = || {
        run_aside(program(Path::new("apt-get")).args(["download", package]).current_dir(&folder))
    };
    if let Err(error) = download() {
        say(&format!("{error:#}: once more with fresh package lists"));
        run_aside(&mut manager.command(&["update"])?)?;
        download()?;
    }
    let mut files = fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let archive = files.find(|file| file.extension().is_some_and(|extension| extension == "deb"));
    let archive = archive.with_context(|| format!("no package in {}", folder.display()))?;
    run_aside(program(Path::new("dpkg-deb")).arg("--extract").arg(&archive).arg(&folder))?;
    let places = ["usr/bin", "usr/sbin"].map(|place| folder.join(place).join(name));
    let target = places.into_iter().find(|place| place.is_file());
    let target = target.with_context(|| format!("the package {package} has no {name}"))?;
    for library in libraries {
        manager.install(library)?;
    }
    link_program(&target, name)?;
    let found = find_program(name).map(|_| ());
    found.with_context(|| format!("the package {package} has no {name}"))
}

fn manager() -> Result<&'static Manager> {
    let mut known = MANAGERS.iter();
    known
        .find(|manager| find_program(manager.program).is_some())
        .ok_or_else(|| anyhow!("no package manager that this command knows"))
}

/// Returns the manual steps for the developer on this system.
pub(crate) fn advice() -> String {
    let manager = MANAGERS.iter().find(|manager| find_program(manager.program).is_some());
    let by_manager = manager.map(|manager| {
        let root = if manager.needs_root { "sudo " } else { "" };
        let lines = manager.packages.iter().map(|package| {
            format!(
                "  {root}{} {} {package} && cargo xtask setup\n",
                manager.program, manager.install
            )
        });
        format!("run one of\n{}or ", lines.collect::<String>())
    });
    format!(
        "{}install Redis 6.2 or later, or Valkey, so that `redis-server` or `valkey-server` is on \
         PATH, or name the program in the environment variable SLUICEGATE_REDIS_SERVER",
        by_manager.unwrap_or_default()
    )
}

/// Links `name` in the folder of tools to `target`. Returns the path of the link.
pub(crate) fn link_program(target: &Path, name: &str) -> Result<PathBuf> {
    let folder = tools_folder();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let link = folder.join(name);
    // A link may exist whose target has been removed.
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).with_context(|| format!("replace {}", link.display()))?;
    }
    std::os::unix::fs::symlink(target, &link)
        .with_context(|| format!("link {} to {}", link.display(), target.display()))?;
    Ok(link)
}

/// Links `name` like [`link_program`], and checks that it is a server.
pub(crate) fn link_server(target: &Path, name: &str) -> Result<ServerBinary> {
    let link = link_program(target, name)?;
    ServerBinary::inspect(&link).map_err(|why| {
        // Best effort: an unusable link must not be found next time.
        drop(fs::remove_file(&link));
        anyhow!(why)
    })
}

/// Gives multi-call programs on `PATH` the names that make them servers. Returns whether there is
/// one.
fn link_multi_call() -> Result<bool> {
    let mut linked = false;
    for (program, server) in MULTI_CALL {
        let Some(path) = find_program(program) else { continue };
        match link_server(&path, server) {
            Ok(binary) => {
                say(&format!("{} is a server too: {binary}", path.display()));
                linked = true;
            }
            Err(error) => say(&format!("{} is no server: {error:#}", path.display())),
        }
    }
    Ok(linked)
}

impl Manager {
    fn install(&self, package: &str) -> Result<()> {
        let install = || run_aside(self.command(&[self.install])?.args(self.options).arg(package));
        match (install(), self.refresh) {
            (Err(error), Some(refresh)) => {
                say(&format!("{error:#}: once more with fresh package lists"));
                run_aside(&mut self.command(refresh)?)?;
                install()
            }
            (outcome, _) => outcome,
        }
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = if !self.needs_root || is_root() {
            program(Path::new(self.program))
        } else if succeeds(program(&sudo()?).args(["-n", "true"])) {
            let mut command = program(&sudo()?);
            // Never prompt for a password: the command might run unattended.
            command.args(["-n", self.program]);
            command
        } else {
            bail!("{} needs root, and sudo asks for a password", self.program);
        };
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        Ok(command)
    }
}

fn sudo() -> Result<PathBuf> {
    find_program("sudo").context("installing needs root, and there is no sudo")
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
