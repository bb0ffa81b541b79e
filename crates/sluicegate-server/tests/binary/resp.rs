//! Tests commands in Redis' protocol.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::json;
use sluicegate_testkit::servers::shared;
use sluicegate_testkit::wait::until;

use crate::resp_client::{RespClient, command};
use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = "
limits:
  api: {policies: [token_bucket 1/h burst 5], deadline: 60s}
  llm: {policies: [fixed_window 10/d as requests, fixed_window 9000/d as tokens]}
  listed: {policies: [gcra 1/h], key: ip, allow: [192.0.2.1], block: [192.0.2.2]}
";

/// Starts a service with the limits, and more of a configuration.
fn start(more: &str) -> (Service, File) {
    let file = File::new("limits.yaml", &format!("{LIMITS}{more}"));
    let service = Service::start(&["--resp", "127.0.0.1:0", "--config", file.path()]);
    (service, file)
}

fn connect(service: &Service) -> RespClient {
    RespClient::connect(service.address_of("resp"))
}

#[test]
fn commands_decide_by_the_limits_that_http_has() {
    let (service, _file) = start("");
    let mut client = connect(&service);
    assert_eq!(client.ask("SG.CHECK api a 3"), "*4 :1 :2 :0 :10800000");
    assert_eq!(service.call("check", "api", "a", &json!({"cost": 2})).status, 200);
    assert!(client.ask("sg.check api a").starts_with("*4 :0 :0 :3"), "of the same key");
    client.ask("HELLO 3");
    let denied = client.ask("SG.PEEK api a 9");
    let expected = "%5 allowed #f remaining :0 retry_after_ms :-1 reset_after_ms :1";
    assert!(denied.starts_with(expected) && denied.ends_with("binding token_bucket"), "{denied}");
    let charged = client.ask("SG.CHARGE api a 2");
    assert!(charged.starts_with("%5 allowed #t remaining :0"), "{charged}");
    let refunded = client.ask("SG.REFUND api a 4");
    assert!(refunded.starts_with("%5 allowed #t remaining :2"), "{refunded}");
    let reset = client.ask("SG.RESET api a");
    assert!(reset.starts_with("%5 allowed #t remaining :5 retry_after_ms :0 reset_after_ms :0"));
    let each = client.ask("SG.CHECK llm a requests=1,tokens=8000");
    assert!(each.starts_with("%5 allowed #t remaining :9"), "{each}");
    let each = client.ask("SG.CHECK llm a requests=1,tokens=2000");
    assert!(each.ends_with("binding tokens"), "{each}");
    for (words, error) in [
        (
            "SG.CHECK nope a",
            "-NOLIMIT there is no limit called `nope`: name a limit of the configuration",
        ),
        ("SG.CHECK api a 0", "-ERR the units are `0`: send a whole number from 1"),
        ("SG.CHECK api a x", "-ERR the units are `x`"),
        ("SG.CHECK llm a nope=1", "-ERR "),
        ("SG.CHECK listed nonsense", "-ERR limit `listed`"),
        ("SG.FROB api a", "-ERR unknown command 'SG.FROB'"),
    ] {
        let answer = client.ask(words);
        assert!(answer.starts_with(error), "{words}: {answer}");
    }
}

#[test]
fn keys_on_lists_have_no_policy_that_decides() {
    let (service, _file) = start("");
    let mut client = connect(&service);
    assert_eq!(client.ask("SG.CHECK listed 192.0.2.1"), "*4 :1 $-1 :0 :0");
    assert_eq!(client.ask("SG.CHECK listed 192.0.2.2"), "*4 :0 $-1 :-1 :0");
    client.ask("HELLO 3");
    let blocked = client.ask("SG.CHECK listed 192.0.2.2");
    assert!(blocked.contains("remaining _") && blocked.ends_with("binding _"), "{blocked}");
}

#[test]
fn throttle_commands_count_as_limits_and_a_setting_turns_them_off() {
    let (service, file) = start("  cl.throttle: {policies: [gcra 1/s], block: [evil]}\n");
    let mut client = connect(&service);
    assert_eq!(client.ask("CL.THROTTLE a 15 30 60"), "*5 :0 :16 :15 :-1 :2");
    assert_eq!(client.ask("THROTTLE a 15 30 60 3"), "*5 :1 :15 :12 :6 :0");
    assert_eq!(client.ask("CL.THROTTLE evil 15 30 60"), "*5 :1 :16 :0 :-1 :0");
    let counted = |limit: &str| {
        let labels = format!(r#"{{limit="{limit}",policy="",outcome="allowed"}}"#);
        service.metric(&format!("sluicegate_decisions_total{labels}"))
    };
    assert_eq!((counted("cl.throttle"), counted("throttle")), (1, 1));
    assert_eq!(service.metric(r#"sluicegate_connections{listener="resp"}"#), 1);
    let recent = service.get("/v1/recent").json();
    let limits: Vec<&str> = recent["recent"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["limit"].as_str().unwrap())
        .collect();
    assert_eq!(limits, ["cl.throttle", "throttle", "cl.throttle"]);
    file.replace(&format!("{LIMITS}resp: {{throttle: false}}"));
    until("the setting is in force", || {
        let answer = client.ask("CL.THROTTLE a 15 30 60");
        answer.starts_with("-ERR CL.THROTTLE is turned off: set").then_some(()).ok_or(answer)
    });
    assert!(client.ask("THROTTLE a 15 30 60").starts_with("-ERR THROTTLE is turned off"));
    assert!(client.ask("SG.CHECK api a").starts_with("*4 :1"));
}

#[test]
fn a_pipeline_is_answered_in_order_and_a_transaction_as_one_answer() {
    let (service, _file) = start("");
    let mut client = connect(&service);
    let commands: String = (0..1_000).map(|number| command(&format!("ECHO {number}"))).collect();
    client.send(&commands);
    for number in 0..1_000 {
        assert_eq!(client.answer(), number.to_string());
    }
    let mixed = ["SG.CHECK api a 5", "PING", "HELLO 3", "SG.PEEK api a", "FROB", "HELLO 2"];
    client.send(mixed.map(command).concat());
    assert_eq!(client.answer(), "*4 :1 :0 :0 :18000000");
    assert_eq!(client.answer(), "+PONG");
    assert!(client.answer().starts_with("%7"));
    assert!(client.answer().starts_with("%5 allowed #f"));
    assert!(client.answer().starts_with("-ERR unknown command"));
    assert!(client.answer().starts_with("*14"));
    client.send(["MULTI", "SG.CHECK api b 5", "SG.CHECK api b", "EXEC"].map(command).concat());
    assert_eq!([(); 3].map(|()| client.answer()), ["+OK", "+QUEUED", "+QUEUED"]);
    let answer = client.answer();
    assert!(answer.starts_with("*2 *4 :1 :0 :0 :18000000 *4 :0 :0 :3"), "{answer}");
    // A connection that ends before EXEC charges nothing.
    client.send(["MULTI", "SG.CHECK api c 5"].map(command).concat());
    assert_eq!([(); 2].map(|()| client.answer()), ["+OK", "+QUEUED"]);
    drop(client);
    assert_eq!(connect(&service).ask("SG.PEEK api c 5"), "*4 :1 :5 :0 :0");
}

#[test]
fn a_pipeline_is_one_call_of_a_server() {
    let server = shared().unwrap();
    let limit = "  cl.throttle: {policies: [gcra 1/s], deadline: 60s}\n";
    let store = limit.to_owned() + &own_store(server.url());
    let (service, _file) = start(&store);
    let mut client = connect(&service);
    // The first call connects.
    assert_eq!(client.ask("SG.CHECK api a"), "*4 :1 :4 :0 :3600000");
    let calls = service.metric("sluicegate_store_calls_total");
    let checks: String = (0..100).map(|_| command("SG.CHECK api a")).collect();
    client.send(checks + &command("CL.THROTTLE a 15 30 60") + &command("CL.THROTTLE a 15 30 60 0"));
    for left in [3, 2, 1, 0] {
        let answer = client.answer();
        assert!(answer.starts_with(&format!("*4 :1 :{left} :0 ")), "{answer}");
    }
    for _ in 4..100 {
        let answer = client.answer();
        assert!(answer.starts_with("*4 :0 :0 :3"), "{answer}");
    }
    assert_eq!(client.answer(), "*5 :0 :16 :15 :-1 :2");
    assert_eq!(client.answer(), "*5 :0 :16 :15 :-1 :2");
    assert_eq!(service.metric("sluicegate_store_calls_total") - calls, 1);
    client.send(["MULTI", "SG.RESET api a", "SG.CHECK api a", "EXEC"].map(command).concat());
    assert_eq!([(); 3].map(|()| client.answer()), ["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(client.answer(), "*2 *4 :1 :5 :0 :0 *4 :1 :4 :0 :3600000");
}

#[test]
fn a_store_that_fails_is_an_error_unless_the_limit_decides() {
    let limits = "
store: redis://127.0.0.1:9
limits:
  open: {policies: [gcra 1/h], on_store_failure: allow}
  closed: {policies: [gcra 1/h], on_store_failure: deny}
  error: {policies: [gcra 1/h], on_store_failure: error}
";
    let file = File::new("limits.yaml", limits);
    let service = Service::start(&["--resp", "127.0.0.1:0", "--config", file.path()]);
    let mut client = connect(&service);
    assert_eq!(client.ask("SG.CHECK open a"), "*4 :1 $-1 :0 :0");
    for words in ["SG.CHECK closed a", "SG.CHECK error a", "SG.RESET open a"] {
        let answer = client.ask(words);
        assert!(answer.starts_with("-STORE "), "{words}: {answer}");
    }
}

#[test]
fn lines_of_words_are_commands_too_and_http_is_none() {
    let (service, _file) = start("");
    let mut client = connect(&service);
    client.send("PING\r\nSG.CHECK api \"a b\"\n\nquit\n");
    assert_eq!(client.answer(), "+PONG");
    assert_eq!(client.answer(), "*4 :1 :4 :0 :3600000");
    assert_eq!(client.answer(), "+OK");
    assert_eq!(client.rest(), "", "it is closed");
    let mut page = connect(&service);
    page.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSG.RESET api a\r\n");
    let rest = page.rest();
    assert!(
        rest.starts_with("-ERR Protocol error: this is HTTP") && !rest.contains("*4"),
        "{rest}"
    );
}

#[test]
fn a_unix_socket_serves_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resp.sock");
    let service = Service::start(&["--resp", &format!("unix:{}", path.display())]);
    assert_eq!(service.said_address("resp"), format!("unix:{}", path.display()));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"SG.CHECK demo a\r\nSG.RESET demo a\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("*4\r\n:1\r\n").count(), 2, "{answers}");
}

#[test]
fn the_configuration_has_the_listener_and_wrong_settings_are_refused() {
    let file = File::new(
        "limits.yaml",
        &format!("listeners: {{http: \"127.0.0.1:0\", resp: \"127.0.0.1:0\"}}\n{LIMITS}"),
    );
    let service = Service::start_configured(&["--config", file.path()]);
    assert_eq!(connect(&service).ask("PING"), "+PONG");
    for (wrong, problem) in [
        ("resp: {throttle: maybe}", "resp.throttle"),
        ("resp: {throttel: true}", "throttel"),
        ("listeners: {resp: nonsense}", "listeners.resp"),
    ] {
        let file = File::new("limits.yaml", &format!("{LIMITS}{wrong}\n"));
        let done = sluicegate(&["config", "check", file.path()]);
        assert!(done.status != 0 && done.stderr.contains(problem), "{wrong}: {done:?}");
    }
}
