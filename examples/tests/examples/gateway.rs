//! A gateway to a language model, whose answers are streamed.

#[path = "../../src/bin/gateway.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::site::{Limits, Server, Site};

/// A gateway to a model that the test controls.
struct World {
    limits: Limits,
    site: Site,
    asked: Arc<Mutex<Vec<mpsc::Sender<String>>>>,
}

impl World {
    async fn new() -> Self {
        let limits = Limits::of(program::LIMITS);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&asked);
        let model: program::Model = Arc::new(move |_| {
            let (sender, tokens) = mpsc::channel(9);
            known.lock().unwrap().push(sender);
            tokens
        });
        let site = Site::of(program::app(&limits.registry, model).unwrap()).await;
        Self { limits, site, asked }
    }

    /// Returns the remaining units of each of the three limits.
    async fn left(&self) -> [Vec<u64>; 3] {
        [
            self.limits.left("user", "blue/eve").await,
            self.limits.left("team", "blue").await,
            self.limits.left("everybody", "everybody").await,
        ]
    }
}

/// A prompt of four tokens and 16 bytes.
const ASK: &str = "POST /complete\nauthorization: Bearer k1\ncontent-length: 16";

#[tokio::test]
async fn a_streamed_answer_is_paid_by_user_team_and_everybody_as_far_as_it_was_streamed() {
    let world = World::new().await;
    for hangs_up in [false, true] {
        for (limit, key) in [("user", "blue/eve"), ("team", "blue"), ("everybody", "everybody")] {
            world.limits.reset(limit, key).await;
        }
        let mut reader = world.site.open(ASK, b"tell me a story.").await;
        reader.read_until("\r\n\r\n").await;
        let left = world.left().await;
        assert_eq!(left, [[19, 5_496], [599, 99_496], [5_999, 599_496]], "the estimate is taken");
        let model = world.asked.lock().unwrap().pop().unwrap();
        for word in ["once ", "upon ", "a "] {
            model.send(word.to_owned()).await.unwrap();
            reader.read_until(word).await;
        }
        // Both ways end the answer after three tokens.
        if hangs_up {
            drop(reader);
            model.closed().await;
        } else {
            drop(model);
            reader.read_until("0\r\n\r\n").await;
        }
        world.limits.until_left("user", "blue/eve", &[19, 5_993]).await;
        let left = world.left().await;
        assert_eq!(left, [[19, 5_993], [599, 99_993], [5_999, 599_993]], "{hangs_up}");
    }
}

#[tokio::test]
async fn whoever_is_refused_by_one_limit_takes_nothing_of_the_others() {
    let world = World::new().await;
    let complete = async |key: &str| {
        let head = format!("POST /complete\nauthorization: Bearer {key}\ncontent-length: 16");
        let mut reader = world.site.open(&head, b"tell me a story.").await;
        reader.read_until("\r\n\r\n").await
    };
    // These answers take long: eleven estimates are 5,544 of 6,000 tokens.
    for _ in 0..11 {
        assert!(complete("k1").await.starts_with("HTTP/1.1 200"));
    }
    world.asked.lock().unwrap().clear();
    world.limits.until_left("user", "blue/eve", &[9, 5_956]).await;
    let before = world.left().await;
    for _ in 0..9 {
        assert!(complete("k1").await.starts_with("HTTP/1.1 200"));
        world.asked.lock().unwrap().clear();
    }
    world.limits.until_left("user", "blue/eve", &[0, 5_920]).await;
    let denied = complete("k1").await;
    assert!(
        denied.starts_with("HTTP/1.1 429") && denied.contains("retry-after: 3\r\n"),
        "{denied}"
    );
    let after = world.left().await;
    assert_eq!((before[1][0], after[1][0]), (589, 580), "the team paid for nine");
    assert!(complete("k2").await.starts_with("HTTP/1.1 200"), "another user of the team");
    world.limits.pass("3s");
    assert!(complete("k1").await.starts_with("HTTP/1.1 200"));
    assert!(complete("k9").await.starts_with("HTTP/1.1 401"));
}

#[tokio::test]
async fn gateways_share_a_server() {
    let redis = sluicegate_testkit::servers::shared().unwrap();
    let start = || Server::start_on(env!("CARGO_BIN_EXE_gateway"), &redis.url());
    let limits = Limits::on(&redis.url(), program::LIMITS);
    for (gateway, tokens) in [(start(), 99_994), (start(), 99_988)] {
        let field = [("authorization", "Bearer k3")];
        let reply = gateway.send("POST", "/complete", &field, "one two three").await;
        assert_eq!((reply.status, &*reply.body), (200, "one two three "));
        limits.until_left("team", "red", &[600, tokens]).await;
    }
}
