//! Tests that the README's examples of the service work unchanged.

use sluicegate_testkit::servers::Server;

use crate::support::{File, Service, sluicegate};

/// Returns the README's code blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let readme = include_str!("../../../../README.md");
    let fence = format!("```{language}\n");
    let rest = readme.split(&*fence).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_first_question_of_the_readme_is_answered() {
    let readme = include_str!("../../../../README.md");
    let (_, request) = readme.split_once("Try it: `curl -d '").unwrap();
    let (body, address) = request.split_once("' http://127.0.0.1:8080").unwrap();
    let path = address.split('`').next().unwrap();
    let service = Service::start(&[]);
    assert_eq!(service.post(path, body).status, 200);
}

#[test]
fn the_service_of_the_readme_answers_its_request() {
    let [config] = blocks("yaml")[..] else { panic!("one configuration") };
    let request = blocks("sh").into_iter().find(|block| block.starts_with("curl")).unwrap();
    let body = request.split('\'').nth(1).unwrap();
    let path = request.split("127.0.0.1:8080").nth(1).unwrap().trim();
    let server = Server::start().unwrap();
    assert!(config.contains("redis://127.0.0.1:6379"));
    let config = config.replace("redis://127.0.0.1:6379", &server.url());
    let file = File::new("limits.yaml", &config);
    assert_eq!(sluicegate(&["config", "check", file.path()]).status, 0);
    let service = Service::start(&["--config", file.path()]);
    let reply = service.post(path, body);
    assert_eq!((reply.status, reply.json()["policies"][0]["remaining"].as_u64()), (200, Some(197)));
}

#[test]
fn the_replay_of_the_readme_makes_a_page() {
    let command = blocks("sh").into_iter().find(|block| block.contains("replay")).unwrap();
    let arguments = command.split_once("-- ").unwrap().1.split_once(" >").unwrap().0;
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/apache_access.log");
    let arguments = arguments.replace("data/apache_access.log", log).replace("\\\n", " ");
    // Split into words, with policies in quotes.
    let words: Vec<&str> = arguments
        .split('"')
        .enumerate()
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect();
    let done = sluicegate(&words);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with("<!DOCTYPE html>"));
    for policy in ["token_bucket 1/s burst 10", "sliding_log 10/min", "fixed_window 100/h"] {
        assert!(done.stdout.contains(policy), "{policy}");
    }
}
