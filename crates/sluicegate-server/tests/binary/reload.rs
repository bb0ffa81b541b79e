//! Tests a config file that changes while the service runs.

use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::wait::until;

use crate::support::{File, Service};

fn text(burst: u64) -> String {
    format!("limits:\n  login:\n    policies: [gcra 1/h burst {burst}]\n")
}

fn until_it_is(wanted: impl Into<Value>, look: impl Fn() -> Value) {
    let wanted = wanted.into();
    until(&wanted.to_string(), || {
        let seen = look();
        if seen == wanted { Ok(()) } else { Err(seen) }
    });
}

fn config(service: &Service) -> Value {
    service.get("/v1/limits").json()["config"].clone()
}

fn spec(service: &Service) -> Value {
    service.get("/v1/limits").json()["limits"][0]["policies"][0]["spec"].clone()
}

fn check(service: &Service) -> (u16, Value) {
    let reply = service.post("/v1/check", r#"{"limit":"login","key":"alice"}"#);
    (reply.status, reply.json()["policies"][0]["remaining"].clone())
}

#[test]
fn a_file_that_is_replaced_is_in_force_and_nothing_consumed_is_lost() {
    let file = File::new("limits.yaml", &text(2));
    let service = Service::start(&["--config", file.path()]);
    assert_eq!((check(&service), check(&service)), ((200, json!(1)), (200, json!(0))));
    assert_eq!(check(&service).0, 429);
    file.replace(&text(5));
    until_it_is("gcra 1/h burst 5", || spec(&service));
    assert_eq!(check(&service), (200, json!(2)), "two of five were taken before");
    assert!(
        service
            .get("/metrics")
            .body
            .contains("sluicegate_config_reloads_total{outcome=\"applied\"} 1")
    );
}

/// A kubelet writes a new folder, and then swaps the link `..data` that all files go through.
#[test]
fn a_mounted_config_map_is_followed() {
    let mount = tempfile::tempdir().unwrap();
    let path = |name: &str| mount.path().join(name);
    let write = |folder: &str, burst: u64| {
        std::fs::create_dir(path(folder)).unwrap();
        std::fs::write(path(folder).join("limits.yaml"), text(burst)).unwrap();
    };
    let swap = |folder: &str| {
        symlink(folder, path("..data_tmp")).unwrap();
        std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
    };
    write("..2026_01", 2);
    swap("..2026_01");
    symlink("..data/limits.yaml", path("limits.yaml")).unwrap();
    let service = Service::start(&["--config", path("limits.yaml").to_str().unwrap()]);
    assert_eq!(spec(&service), "gcra 1/h burst 2");
    for (burst, old, new) in [(5, "..2026_01", "..2026_02"), (7, "..2026_02", "..2026_03")] {
        write(new, burst);
        swap(new);
        std::fs::remove_dir_all(path(old)).unwrap();
        until_it_is(format!("gcra 1/h burst {burst}"), || spec(&service));
    }
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("sluicegate_config_reloads_total{outcome=\"failed\"} 0"), "{metrics}");
}

/// A list of limits that was asked about before the change.
#[test]
fn a_limit_that_is_removed_is_unknown_even_together_with_others() {
    let limits = |names: &[&str]| {
        let limits =
            names.iter().map(|name| format!("  {name}: {{policies: [gcra 1/h burst 9]}}\n"));
        format!("unknown_limits: pass\nlimits:\n{}", limits.collect::<String>())
    };
    let file = File::new("limits.yaml", &limits(&["a", "b"]));
    let service = Service::start(&["--config", file.path()]);
    let both = json!({"limits": [{"limit": "a", "key": "k"}, {"limit": "b", "key": "k"}]});
    let status = || json!(service.post("/v1/peek", both.to_string()).status);
    assert_eq!(status(), 200);
    file.replace(&limits(&["a"]));
    until_it_is(404, status);
    file.replace(&limits(&["a", "b"]));
    until_it_is(200, status);
}

#[test]
fn warnings_are_logged_at_the_start_and_at_every_reload() {
    let file = File::new("limits.yaml", "limits: {login: {policies: [gcra 0/s]}}");
    let mut service = Service::start(&["--config", file.path()]);
    file.replace("limits: {login: {policies: [gcra 5/s cost 6]}}");
    until_it_is("gcra 5/s cost 6", || spec(&service));
    service.signal(Signal::TERM);
    let (_, log) = service.wait();
    let at = format!("{}:1:29: limits.login.policies[0]:", file.path());
    let first = log.find(&format!("{at} refuses every request: its limit is 0")).unwrap();
    let second =
        log.find(&format!("{at} refuses every request that doesn't set its cost")).unwrap();
    assert!(first < second, "{log}");
}

#[test]
fn a_service_whose_log_nobody_reads_any_more_goes_on() {
    let file = File::new("limits.yaml", &text(2));
    let mut service = Service::start(&["--config", file.path()]);
    service.leave_its_log();
    for burst in [3, 4, 5] {
        file.replace(&text(burst));
        until_it_is(format!("gcra 1/h burst {burst}"), || spec(&service));
    }
    service.signal(Signal::HUP);
    assert_eq!(check(&service).0, 200);
}

#[test]
fn a_config_that_comes_through_a_pipe_is_read_once() {
    let file = File::new("limits.yaml", "");
    std::fs::remove_file(file.path()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(file.path()).status().unwrap();
    assert!(made.success());
    let path = file.path().to_owned();
    let writer = std::thread::spawn(move || std::fs::write(path, text(2)).unwrap());
    let mut service = Service::start(&["--config", file.path()]);
    writer.join().unwrap();
    assert_eq!(
        (spec(&service), config(&service)["stale"].clone()),
        (json!("gcra 1/h burst 2"), json!(false))
    );
    service.signal(Signal::TERM);
    let (_, stderr) = service.wait();
    assert!(stderr.contains("isn't a regular file"), "{stderr}");
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_everybody_can_see_it() {
    let file = File::new("limits.yaml", &text(2));
    let mut service = Service::start(&["--config", file.path()]);
    assert_eq!(config(&service)["stale"], false);
    file.replace("limits:\n  login:\n    policies: [gcra 1/m]\n");
    until_it_is(true, || config(&service)["stale"].clone());
    assert_eq!(spec(&service), "gcra 1/h burst 2");
    assert_eq!(check(&service), (200, json!(1)));
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("sluicegate_config_stale 1"), "{metrics}");
    assert!(metrics.contains("sluicegate_config_reloads_total{outcome=\"failed\"} 1"), "{metrics}");
    file.replace(&text(3));
    until_it_is(false, || config(&service)["stale"].clone());
    assert_eq!(spec(&service), "gcra 1/h burst 3");
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert!(status.success());
    let place = format!("{}:3:", file.path());
    assert!(stderr.contains(&place) && stderr.contains("`m` is ambiguous"), "{stderr}");
}

#[test]
fn sighup_reads_the_file_again() {
    let file = File::new("limits.yaml", &text(2));
    let service = Service::start(&["--config", file.path()]);
    let unchanged = |count: u64| {
        let line = format!("sluicegate_config_reloads_total{{outcome=\"unchanged\"}} {count}\n");
        let metrics = service.get("/metrics").body;
        if metrics.contains(&line) { Ok(()) } else { Err(metrics) }
    };
    for count in 1..=2 {
        service.signal(Signal::HUP);
        until("the reload", || unchanged(count));
    }
    assert_eq!(check(&service), (200, json!(1)));
}

#[test]
fn sighup_without_a_config_file_ends_nothing() {
    let service = Service::start(&[]);
    service.signal(Signal::HUP);
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn what_takes_a_restart_is_refused_and_the_command_line_goes_before_the_file() {
    let file = File::new("limits.yaml", &text(2));
    let service = Service::start(&["--config", file.path(), "--store", "memory:"]);
    // The command line sets the address and the store.
    file.replace(&format!(
        "listeners: {{http: 127.0.0.1:1}}\nstore: \"redis://127.0.0.1:1\"\n{}",
        text(3)
    ));
    until_it_is("gcra 1/h burst 3", || spec(&service));
    assert_eq!(check(&service), (200, json!(2)));
    file.replace(&format!("memory: {{max_keys: 1234}}\n{}", text(4)));
    until_it_is(true, || config(&service)["stale"].clone());
    assert_eq!(spec(&service), "gcra 1/h burst 3");
}

#[test]
fn a_limit_that_is_switched_off_lets_everything_pass_and_says_so() {
    let file = File::new("limits.yaml", &text(1));
    let service = Service::start(&["--config", file.path()]);
    file.replace(&format!("{}    enabled: false\n", text(1)));
    until_it_is(false, || service.get("/v1/limits").json()["limits"][0]["enabled"].clone());
    for _ in 0..3 {
        let reply = service.post("/v1/check", r#"{"limit":"login","key":"alice"}"#);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json()["source"], "bypass");
        assert_eq!(reply.field("ratelimit"), None);
    }
}
