//! Tests what the processes of a fleet tell each other.

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::servers::{FakeClock, shared};
use sluicegate_testkit::wait::until_seldom;

use crate::event_stream::Stream;
use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = "limits:\n  api: {policies: [\"fixed_window 10/d\"], deadline: 5s}\n";

fn start(file: &File, name: &str) -> Service {
    Service::start(&["--config", file.path(), "--name", name, "--drain", "0s"])
}

fn fleet(service: &Service) -> Value {
    service.get("/v1/fleet").json()
}

/// Returns each process by its name.
fn names(service: &Service) -> Vec<String> {
    let fleet = fleet(service);
    let name = |process: &Value| process["name"].as_str().unwrap().to_owned();
    fleet["processes"].as_array().unwrap().iter().map(name).collect()
}

/// Waits until a process knows `count` processes.
fn knows(service: &Service, count: usize) {
    until_seldom("it knows the others", || {
        let names = names(service);
        if names.len() == count { Ok(()) } else { Err(names) }
    });
}

#[test]
fn processes_know_each_other_until_they_stop() {
    let head = own_store(shared().unwrap().url());
    let file = File::new("limits.yaml", &format!("{head}{LIMITS}"));
    let (one, mut two) = (start(&file, "one"), start(&file, "two \u{202e}<b>"));
    let unnamed = Service::start(&["--config", file.path()]);
    knows(&one, 3);
    let seen = fleet(&one);
    assert_eq!(seen["differing_for_ms"], Value::Null);
    let processes = seen["processes"].as_array().unwrap();
    let own: Vec<&Value> = processes.iter().filter(|it| it["is_self"] == true).collect();
    assert_eq!((own.len(), &own[0]["name"]), (1, &json!("one")));
    assert!(
        processes.iter().all(|it| it["config"] == own[0]["config"] && it["version"] == "0.1.0")
    );
    let listed = sluicegate(&["fleet", "--server", &format!("http://{}", one.address())]);
    assert_eq!(listed.status, 0, "{listed:?}");
    assert!(!listed.stdout.contains('\u{202e}'), "{listed:?}");
    assert!(listed.stdout.ends_with("all have the same configuration\n"), "{listed:?}");
    two.signal(Signal::TERM);
    two.wait();
    knows(&one, 2);
    drop(unnamed);
}

/// Half of the fleet refuses a reload: the other half decides by it, and all of them say so.
#[test]
fn it_shows_who_has_another_configuration_and_why() {
    let head = own_store(shared().unwrap().url());
    let files = [0, 1].map(|_| File::new("limits.yaml", &format!("{head}{LIMITS}")));
    let mut services = [start(&files[0], "a"), start(&files[1], "b")];
    knows(&services[0], 2);
    files[0].replace(&format!("{head}{}", LIMITS.replace("10/d", "9/d")));
    files[1].replace(&format!("{head}{}", LIMITS.replace("10/d", "ten/d")));
    services.iter().for_each(|service| service.signal(Signal::HUP));
    for service in &services {
        until_seldom("both show the difference", || {
            let seen = fleet(service);
            let refused = |index: usize| {
                seen["processes"][index]["refused"]["message"].as_str().map(str::to_owned)
            };
            let is_shown = seen["differing_for_ms"].is_u64()
                && refused(0).is_none()
                && refused(1)
                    .is_some_and(|why| why.contains("limits.yaml:4:") && why.contains("ten"));
            if is_shown { Ok(()) } else { Err(seen) }
        });
    }
    let listed = sluicegate(&["fleet", "--server", &format!("http://{}", services[0].address())]);
    assert_eq!(listed.status, 1, "{listed:?}");
    let lines: Vec<&str> = listed.stdout.lines().collect();
    let refused = lines.iter().position(|line| line.contains("refused a configuration")).unwrap();
    let [problem, spec, carets, consequence] = lines[refused..refused + 4] else {
        panic!("{listed:?}");
    };
    assert!(problem.contains("limits.yaml:4:"), "{listed:?}");
    assert_eq!(spec.trim(), "fixed_window ten/d");
    assert_eq!(spec.find("ten"), carets.find('^'), "{listed:?}");
    assert_eq!(consequence.trim(), "the old configuration stays in force");
    let [.., summary, _, _] = &lines[..] else { panic!("{listed:?}") };
    assert!(summary.starts_with("2 configurations have decided at the same time"), "{listed:?}");
    let mut holders: Vec<_> =
        lines[lines.len() - 2..].iter().map(|it| it.split("  ").last()).collect();
    holders.sort_unstable();
    assert_eq!(holders, [Some("a"), Some("b")], "{listed:?}");
    services[1].signal(Signal::TERM);
    let (_, log) = services[1].wait();
    let event = log.lines().find(|line| line.contains("limits.yaml:4:")).unwrap();
    assert!(event.ends_with("; the old configuration stays in force"), "{event}");
    assert!(!event.contains(r"\n") && !event.contains('^'), "{event}");
}

/// A file that says the same in other words is another file: a process that starts later has it too.
#[test]
fn a_reload_that_changes_no_limit_is_no_difference() {
    let text = format!("{}{LIMITS}", own_store(shared().unwrap().url()));
    let file = File::new("limits.yaml", &text);
    let one = start(&file, "one");
    file.replace(&format!("{text}# a remark\n"));
    one.signal(Signal::HUP);
    let two = start(&file, "two");
    knows(&two, 2);
    until_seldom("both have one configuration", || {
        let seen = fleet(&two);
        if seen["differing_for_ms"].is_null() { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn processes_of_one_name_are_two() {
    let file = File::new("limits.yaml", &format!("{}{LIMITS}", own_store(shared().unwrap().url())));
    let (one, _two) = (start(&file, "same"), start(&file, "same"));
    knows(&one, 2);
}

/// A key that calls two processes by turns uses more of its limit than each of them sees.
#[test]
fn the_used_capacity_is_that_of_all_processes() {
    let file = File::new("limits.yaml", &format!("{}{LIMITS}", own_store(shared().unwrap().url())));
    let services = [start(&file, "one"), start(&file, "two")];
    services.iter().for_each(|service| knows(service, 2));
    let spend = |service: &Service, key: &str, cost: u64| {
        let answer = service.call("check", "api", key, &json!({"cost": cost}));
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    spend(&services[0], "alice", 3);
    spend(&services[1], "alice", 4);
    spend(&services[1], "bob", 2);
    for service in &services {
        until_seldom("it knows what the other has seen", || {
            let limits = Stream::open(service, "follow=off").next_named("limits").data;
            let row = &limits["rows"][0];
            if row["capacity_permille"] == 700 { Ok(()) } else { Err(limits) }
        });
        // Only the rows of limits, which a client sees for its own ones, have the names.
        assert!(!service.get("/v1/fleet").body.contains("api"));
    }
}

#[test]
fn alone_a_process_shows_itself() {
    let service = Service::start(&["--name", "solo"]);
    assert_eq!(names(&service), ["solo"]);
    assert!(fleet(&service)["processes"][0]["config"].is_string());
    let wrong = sluicegate(&["serve", "--name", ""]);
    assert!(wrong.stderr.contains("must have 1 to 100 bytes"), "{wrong:?}");
}

/// The ages of the fleet, the ends of overrides and the times of the audit come from the server.
#[test]
fn a_process_whose_clock_is_wrong_by_hours_shows_nothing_wrong() {
    let file = File::new("limits.yaml", &format!("{}{LIMITS}", own_store(shared().unwrap().url())));
    let right = start(&file, "right");
    let clocks = [-5, 5].map(|hours| {
        let clock = FakeClock::new().unwrap();
        clock.set_offset(hours * 3_600).unwrap();
        clock
    });
    let wrong = clocks
        .each_ref()
        .map(|clock| Service::start_with_clock(clock, &["--config", file.path(), "--drain", "0s"]));
    for (service, key) in wrong.iter().chain([&right]).zip(["behind", "ahead", "present"]) {
        knows(service, 3);
        let body = json!({"times": 2, "for": "1h"}).to_string();
        let path = format!("/v1/limits/api/overrides/{key}");
        let set = service.send("PUT", &path, &[], body.as_bytes());
        assert_eq!(set.status, 200, "{}", set.body);
    }
    for service in wrong.iter().chain([&right]) {
        let seen = fleet(service);
        for process in seen["processes"].as_array().unwrap() {
            for age in ["uptime_ms", "config_age_ms"] {
                assert!(process[age].as_u64().unwrap() < 600_000, "{age}: {seen}");
            }
        }
        let listed = service.get("/v1/limits/api/overrides").json();
        let overrides = listed["overrides"].as_array().unwrap();
        assert_eq!(overrides.len(), 3, "{listed}");
        for each in overrides {
            let left = each["ends_in_ms"].as_u64().unwrap();
            assert!((3_000_000..=3_600_000).contains(&left), "{listed}");
        }
        let audit = service.get("/v1/audit").json();
        let entries = audit["audit"].as_array().unwrap();
        let times: Vec<&str> = entries.iter().map(|it| it["at"].as_str().unwrap()).collect();
        // By the clocks of the processes, the last change would be between the others.
        assert!(
            times.len() == 3 && times.is_sorted_by(|later, earlier| later > earlier),
            "{audit}"
        );
    }
}
