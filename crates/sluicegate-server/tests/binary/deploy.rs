//! Tests the files in `deploy/` as far as the program reads them.

use std::path::PathBuf;

use crate::support::{File, sluicegate};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn is_valid(file: &str) {
    let checked = sluicegate(&["config", "check", file]);
    assert_eq!((checked.status, &*checked.stderr), (0, ""), "{file}");
}

#[test]
fn the_config_files_are_valid() {
    for name in ["debian/limits.yaml", "config/limits.yaml"] {
        is_valid(path(name).to_str().unwrap());
    }
    // The value `config` of the chart becomes its config file.
    let values = read("helm/sluicegate/values.yaml");
    let config = values.split_once("\nconfig:\n").unwrap().1;
    let lines = config.lines().take_while(|line| line.starts_with("  "));
    let config: String = lines.map(|line| format!("{}\n", &line[2..])).collect();
    assert!(config.contains("demo:"), "{config}");
    is_valid(File::new("limits.yaml", &config).path());
}

#[test]
fn the_version_of_the_chart_is_that_of_the_program() {
    let chart = read("helm/sluicegate/Chart.yaml");
    let version = env!("CARGO_PKG_VERSION");
    assert!(chart.contains(&format!("\nversion: {version}\n")), "{chart}");
    assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
}

/// Every option that a file of a platform passes is one of the program.
#[test]
fn the_options_are_known() {
    let help = sluicegate(&["serve", "--help"]).stdout + &sluicegate(&["health", "--help"]).stdout;
    for name in [
        "systemd/sluicegate.service",
        "container/Containerfile",
        "compose.yaml",
        "helm/sluicegate/templates/workload.yaml",
    ] {
        let text = read(name);
        let text = text.lines().filter(|line| {
            let line = line.trim_start();
            ["ExecStart", "CMD", "[serve", "- --"].iter().any(|begin| line.starts_with(begin))
        });
        let mut count = 0;
        for word in text.flat_map(|line| line.split([' ', '"', ',', '[', ']', '='])) {
            let is_option = word.starts_with("--") && !word.contains('{');
            assert!(!is_option || help.contains(&format!("{word} ")), "{name}: {word}");
            count += usize::from(is_option);
        }
        assert!(count > 0, "{name}: no options were found");
    }
}
