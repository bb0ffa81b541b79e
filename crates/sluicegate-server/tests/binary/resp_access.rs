//! Tests the rights of clients in Redis' protocol.

use sluicegate_testkit::wait::until;

use crate::resp_client::RespClient;
use crate::support::{File, Service};

const LIMITS: &str = "
limits:
  shop-api: {policies: [gcra 1/h burst 1000]}
  shop-jobs: {policies: [concurrency 99 hold 30s]}
  secret: {policies: [gcra 1/h burst 1000]}
";

fn clients(names: &str) -> String {
    let client = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        format!("  - {{name: {name}, token_env: {}_TOKEN, {rest}}}\n", name.to_uppercase())
    };
    format!("{LIMITS}clients:\n{}", names.lines().map(client).collect::<String>())
}

const ALL: &str = "checks may: [check], limits: [shop-*]\nholds may: [hold]\nboss may: [admin]";

fn start(file: &File) -> Service {
    let tokens =
        [("CHECKS_TOKEN", "checks-t"), ("HOLDS_TOKEN", "holds-t"), ("BOSS_TOKEN", "boss-t")];
    Service::start_with(&tokens, &["--resp", "127.0.0.1:0", "--config", file.path()])
}

fn connect(service: &Service) -> RespClient {
    RespClient::connect(service.address_of("resp"))
}

#[test]
fn without_tokens_all_may_check_and_programs_on_this_machine_may_administer() {
    let service = Service::start(&["--resp", "127.0.0.1:0"]);
    let mut client = connect(&service);
    assert!(client.ask("SG.CHECK demo a").starts_with("*4 :1"));
    assert!(client.ask("SG.RESET demo a").starts_with("*4 :1"));
    // As in Redis, any password is right where there is none, unless it is sent alone.
    assert!(client.ask("HELLO 2 AUTH default any").starts_with("*14"));
    assert_eq!(client.ask("AUTH default any"), "+OK");
    let alone = client.ask("AUTH any");
    assert!(
        alone.starts_with("-ERR AUTH <password> called without any password configured"),
        "{alone}"
    );
    assert!(client.ask("AUTH somebody any").starts_with("-WRONGPASS"));
}

#[test]
fn an_admin_token_is_needed_only_for_admin_calls() {
    let args = ["--resp", "127.0.0.1:0", "--admin-token", "s3cret"];
    let service = Service::start(&args);
    let mut client = connect(&service);
    assert!(client.ask("SG.CHECK demo a").starts_with("*4 :1"));
    let refused = client.ask("SG.RESET demo a");
    assert_eq!(refused, "-NOAUTH this call needs the admin token: send AUTH TOKEN");
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS the admin token is wrong"));
    assert!(client.ask("HELLO 3 AUTH default wrong").starts_with("-WRONGPASS"));
    assert!(client.ask("SG.CHECK demo a").starts_with("*4 :1"), "still in RESP2");
    assert_eq!(client.ask("AUTH s3cret"), "+OK");
    assert!(client.ask("SG.RESET demo a").starts_with("*4 :1"));
    assert_eq!(client.ask("RESET"), "+RESET");
    assert!(client.ask("SG.RESET demo a").starts_with("-NOAUTH"));
    assert!(connect(&service).ask("HELLO 3 AUTH admin s3cret").starts_with("%7"));
    assert!(connect(&service).ask("AUTH default s3cret").starts_with("+OK"));
    assert!(connect(&service).ask("AUTH shop s3cret").starts_with("-WRONGPASS"));
}

#[test]
fn clients_have_their_rights_and_limits() {
    let file = File::new("limits.yaml", &clients(ALL));
    let service = start(&file);
    let mut client = connect(&service);
    for words in ["PING", "SG.CHECK shop-api a", "CLIENT SETINFO LIB-NAME x", "CL.THROTTLE a 1 1 1"]
    {
        let refused = client.ask(words);
        assert!(refused.starts_with("-NOAUTH Authentication required"), "{words}: {refused}");
    }
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(client.ask("HELLO 3 AUTH default nonsense").starts_with("-WRONGPASS"));
    assert!(client.ask("HELLO 3 AUTH checks boss-t").starts_with("-WRONGPASS"));
    assert!(client.ask("HELLO 2 AUTH default checks-t").starts_with("*14"));
    assert!(client.ask("SG.CHECK shop-api a").starts_with("*4 :1"));
    for (words, problem) in [
        ("SG.CHECK secret a", "-NOPERM client `checks` isn't permitted to use limit `secret`"),
        ("SG.CHECK nope a", "-NOPERM client `checks` isn't permitted to use limit `nope`"),
        (
            "CL.THROTTLE a 1 1 1",
            "-NOPERM client `checks` isn't permitted to use limit `cl.throttle`",
        ),
        ("THROTTLE a 1 1 1", "-NOPERM client `checks` isn't permitted to use limit `throttle`"),
        ("SG.HOLD shop-api a FOR 10s", "-NOPERM client `checks` isn't permitted to make this call"),
        ("SG.CHECK shop-jobs a", "-NOPERM "),
        ("SG.RESET shop-api a", "-NOPERM "),
        ("SG.CHARGE shop-api a", "-NOPERM "),
    ] {
        let answer = client.ask(words);
        assert!(answer.starts_with(problem), "{words}: {answer}");
    }
    assert_eq!(client.ask("AUTH holds holds-t"), "+OK");
    assert!(client.ask("SG.HOLD shop-jobs a FOR 10s").starts_with("*6 :1 :98"));
    assert_eq!(client.ask("CL.THROTTLE a 15 30 60"), "*5 :0 :16 :15 :-1 :2");
    assert!(client.ask("SG.RESET shop-api a").starts_with("-NOPERM"));
    assert_eq!(client.ask("AUTH boss-t"), "+OK");
    assert!(client.ask("SG.RESET secret a").starts_with("*4 :1"));
    let recent = service.send("GET", "/v1/recent", &[("Authorization", "Bearer boss-t")], b"");
    assert!(recent.body.contains(r#""client":"holds""#), "{}", recent.body);
}

#[test]
fn a_client_that_the_configuration_drops_is_refused_on_its_open_connection() {
    let file = File::new("limits.yaml", &clients(ALL));
    let service = start(&file);
    let mut client = connect(&service);
    assert_eq!(client.ask("AUTH checks-t"), "+OK");
    file.replace(&clients("boss may: [admin]"));
    until("the client has no rights", || {
        let answer = client.ask("SG.CHECK shop-api a");
        answer.starts_with("-NOAUTH").then_some(()).ok_or(answer)
    });
    file.replace(&clients(ALL));
    until("the client has its rights again", || {
        let answer = client.ask("SG.CHECK shop-api a");
        answer.starts_with("*4 ").then_some(()).ok_or(answer)
    });
}
