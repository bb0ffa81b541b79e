//! Tests clients in Redis' protocol that others wrote.

use std::path::PathBuf;
use std::process::Command;

use redis::{Commands as _, Value};
use sluicegate_testkit::servers::{Authority, tools_folder};

use crate::support::{File, Service};

const LIMITS: &str = "limits: {api: {policies: [token_bucket 1/h burst 2]}}";

fn start() -> (Service, File) {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--resp", "127.0.0.1:0", "--config", file.path()]);
    (service, file)
}

/// Runs a program to its end, and returns its output.
fn output(command: &mut Command, advice: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{error}: {advice}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}: {advice}");
    text + &errors
}

#[test]
fn redis_cli_sends_commands_and_shows_answers() {
    let (service, _file) = start();
    let port = service.address_of("resp").port().to_string();
    let ask = |words: &[&str]| {
        let advice =
            "there is no redis-cli: run `cargo xtask setup`, or install the package `redis-tools`";
        output(Command::new("redis-cli").args(["-p", &port]).args(words), advice)
    };
    assert_eq!(ask(&["SG.CHECK", "api", "a"]), "1\n1\n0\n3600000\n");
    assert_eq!(ask(&["CL.THROTTLE", "a", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    let map = ask(&["-3", "SG.CHECK", "api", "a"]);
    assert!(map.starts_with("allowed (true)\nremaining 0\nretry_after_ms 0\n"), "{map}");
    assert!(ask(&["SG.CHECK", "nope", "a"]).starts_with("NOLIMIT there is no limit"));
    assert_eq!(ask(&["--no-auth-warning", "-a", "any", "--user", "default", "PING"]), "PONG\n");
}

#[test]
fn redis_rs_checks_and_pipelines() {
    let (service, _file) = start();
    for protocol in ["", "?protocol=resp3"] {
        let url = format!("redis://{}/{protocol}", service.address_of("resp"));
        let mut client = redis::Client::open(url).unwrap().get_connection().unwrap();
        let key = format!("a{protocol}");
        let numbers: Vec<i64> =
            redis::cmd("CL.THROTTLE").arg(&key).arg(&[15, 30, 60]).query(&mut client).unwrap();
        assert_eq!(numbers, [0, 16, 15, -1, 2]);
        let mut pipeline = redis::pipe();
        for _ in 0..3 {
            pipeline.cmd("SG.CHECK").arg("api").arg(&key);
        }
        let answers: Vec<Value> = pipeline.query(&mut client).unwrap();
        let allowed: Vec<bool> = answers.into_iter().map(is_allowed).collect();
        assert_eq!(allowed, [true, true, false]);
        let answers: Vec<Value> = pipeline.atomic().query(&mut client).unwrap();
        assert_eq!(answers.into_iter().map(is_allowed).collect::<Vec<_>>(), [false; 3]);
        let error = redis::cmd("SG.CHECK").arg(&["nope", "a"]).query::<Value>(&mut client);
        assert_eq!(error.unwrap_err().code(), Some("NOLIMIT"));
        assert!(client.get::<_, Value>("a").is_err(), "there are no values");
        assert!(redis::cmd("PING").query::<String>(&mut client).unwrap() == "PONG");
    }
}

/// Returns whether a decision allows the request.
fn is_allowed(answer: Value) -> bool {
    match answer {
        Value::Array(values) => values[0] == Value::Int(1),
        Value::Map(fields) => fields[0].1 == Value::Boolean(true),
        other => panic!("{other:?}"),
    }
}

/// The program has the example of the guide.
#[test]
fn redis_py_checks_and_pipelines() {
    let (service, _file) = start();
    let guide = include_str!("../../../../docs/resp.md");
    let example = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let example = example.replace("6380", &service.address_of("resp").port().to_string());
    let program = format!(
        "{example}
assert answer[b'allowed'] is False and answer[b'retry_after_ms'] == -1, answer
assert for_alice[b'allowed'] is True and for_bob[b'binding'] is None, for_bob
for numbers in [limiter.execute_command('CL.THROTTLE', 'a', 15, 30, 60) for _ in range(2)]:
    assert numbers[:2] == [0, 16], numbers
with limiter.pipeline(transaction=False) as pipeline:
    for _ in range(1000):
        pipeline.execute_command('THROTTLE', 'a', 1000, 1, 3600)
    assert [numbers[2] for numbers in pipeline.execute()] == list(range(999, -1, -1))
two = redis.Redis(port=limiter.connection_pool.connection_kwargs['port'], protocol=2)
assert two.execute_command('SG.PEEK', 'api', 'bob')[:2] == [1, 1]
try:
    two.execute_command('SG.CHECK', 'nope', 'a')
    assert False
except redis.ResponseError as error:
    assert str(error).startswith('NOLIMIT'), error
print('done')
"
    );
    let package: PathBuf = tools_folder().with_file_name("redis-8.1.0");
    assert!(package.exists(), "there is no redis-py: run `cargo xtask setup`, which needs Python");
    let mut python = Command::new("python3");
    python.args(["-c", &program]).env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = output(
        &mut python,
        "there is no python3 that can run redis-py: install Python 3.10 or later",
    );
    assert!(said.ends_with("done\n"), "{said}");
}

#[test]
fn redis_cli_presents_its_certificate_over_tls() {
    let authority = Authority::new().unwrap();
    let (ours, theirs) = (
        authority.certificate("service", &["127.0.0.1"]).unwrap(),
        authority.certificate("shop", &["shop.example"]).unwrap(),
    );
    let ca = authority.certificate_file().display().to_string();
    let tls = format!(
        "{{cert: {}, key: {}, client_ca: {ca}, required: false}}",
        ours.certificate_file().display(),
        ours.key_file().display()
    );
    let file = File::new(
        "limits.yaml",
        &format!(
            "listeners: {{http: \"127.0.0.1:0\", resp: {{address: \"127.0.0.1:0\", tls: {tls}}}}}\n\
             clients: [{{name: shop, certificate: shop.example, may: [check]}}]\n{LIMITS}"
        ),
    );
    let service = Service::start_configured(&["--config", file.path()]);
    let port = service.address_of("resp").port().to_string();
    let ask = |certificate: &[&str], words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port, "--tls", "--cacert", &ca]).args(certificate).args(words);
        output(&mut command, "there is no redis-cli: install the package `redis-tools`")
    };
    let (cert, key) = (theirs.certificate_file(), theirs.key_file());
    let own = ["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(ask(&own, &["SG.CHECK", "api", "a"]), "1\n1\n0\n3600000\n");
    assert!(ask(&own, &["SG.RESET", "api", "a"]).starts_with("NOPERM client `shop`"));
    assert!(ask(&[], &["SG.CHECK", "api", "a"]).starts_with("NOAUTH Authentication required"));
}
