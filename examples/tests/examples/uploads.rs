//! Uploads, limited by their bytes.

#[path = "../../src/bin/uploads.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use actix_web::{App, HttpServer};

use super::site::{Limits, Server, Site};

struct World {
    limits: Limits,
    site: Site,
}

impl World {
    fn new() -> Self {
        let limits = Limits::of(program::LIMITS);
        let limit = program::limit(&limits.registry);
        let (sender, started) = std::sync::mpsc::channel();
        // Actix has a runtime of its own.
        std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let app = move || App::new().wrap(limit.clone()).configure(program::routes);
                let server = HttpServer::new(app).workers(1).disable_signals();
                let server = server.bind("127.0.0.1:0").unwrap();
                sender.send(server.addrs()[0]).unwrap();
                server.run().await.unwrap();
            });
        });
        Self { limits, site: Site { url: format!("http://{}", started.recv().unwrap()) } }
    }

    async fn put(&self, bytes: usize) -> (u16, Option<u64>, String) {
        let body = "x".repeat(bytes);
        let reply = self.site.send("PUT", "/files/a", &[("x-api-key", "alice")], &body).await;
        (reply.status, reply.retry, reply.body)
    }
}

#[tokio::test]
async fn an_upload_takes_what_it_announces() {
    let world = World::new();
    assert_eq!(world.put(1_500_000).await, (200, None, "a: 1500000 bytes\n".to_owned()));
    world.limits.until_left("uploads", "alice", &[3_500_000, 3]).await;
    for left in [2_000_000, 500_000] {
        assert_eq!(world.put(1_500_000).await.0, 200);
        world.limits.until_left("uploads", "alice", &[left, 3]).await;
    }
    // A minute gives back 1 MB.
    let (status, retry, body) = world.put(1_500_000).await;
    assert_eq!((status, retry), (429, Some(60)));
    assert!(body.contains(r#""violated-policies":["bytes"]"#), "{body}");
    assert_eq!(world.put(500_000).await.0, 200, "a smaller one passes");
    world.limits.pass("90s");
    assert_eq!(world.put(1_500_000).await.0, 200);
    assert_eq!(world.site.send("PUT", "/files/a", &[], "x").await.status, 400, "nobody's");
}

#[tokio::test]
async fn an_upload_that_announces_nothing_or_too_much_is_settled_for_what_was_read() {
    let world = World::new();
    let head = "PUT /files/a\nx-api-key: alice\ntransfer-encoding: chunked";
    let mut upload = world.site.open(head, b"3\r\nabc\r\n").await;
    world.limits.until_left("uploads", "alice", &[3_000_000, 2]).await;
    upload.write(b"0\r\n\r\n").await;
    upload.read_until("a: 3 bytes").await;
    world.limits.until_left("uploads", "alice", &[4_999_997, 3]).await;

    let (status, _, body) = world.put(2_000_001).await;
    assert_eq!((status, &*body), (413, "at most 2 MB\n"));
    world.limits.until_left("uploads", "alice", &[2_999_996, 3]).await;
}

#[tokio::test]
async fn a_client_that_goes_away_pays_for_what_was_read() {
    let world = World::new();
    let head = "PUT /files/a\nx-api-key: alice\ncontent-length: 900000";
    let upload = world.site.open(head, &[0; 1_000]).await;
    world.limits.until_left("uploads", "alice", &[4_100_000, 2]).await;
    drop(upload);
    world.limits.until_left("uploads", "alice", &[4_999_000, 3]).await;
}

#[tokio::test]
async fn three_uploads_at_a_time_over_all_instances() {
    let redis = sluicegate_testkit::servers::shared().unwrap();
    let start = || Server::start_on(env!("CARGO_BIN_EXE_uploads"), &redis.url());
    let (one, two) = (start(), start());
    let limits = Limits::on(&redis.url(), program::LIMITS);
    let head = "PUT /files/a\nx-api-key: alice\ncontent-length: 2";
    let mut open = Vec::new();
    for (server, left) in [(&one, 2), (&two, 1), (&one, 0)] {
        open.push(server.open(head, b"x").await);
        sluicegate_testkit::wait::until_async("an upload", async || {
            let seen = limits.left("uploads", "alice").await[1];
            if seen == left { Ok(()) } else { Err(seen) }
        })
        .await;
    }
    let field = [("x-api-key", "alice")];
    let denied = two.send("PUT", "/files/a", &field, "x").await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains(r#""violated-policies":["files"]"#), "{}", denied.body);
    let mut first = open.swap_remove(0);
    first.write(b"x").await;
    first.read_until("a: 2 bytes").await;
    sluicegate_testkit::wait::until_async("a place", async || {
        match two.send("PUT", "/files/a", &field, "x").await.status {
            200 => Ok(()),
            status => Err(status),
        }
    })
    .await;
}
