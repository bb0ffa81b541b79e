//! A login form that locks out.

#[path = "../../src/bin/login.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use super::site::{Limits, Reply, Server, Site};

struct World {
    limits: Limits,
    site: Site,
}

async fn attempt(site: &Site, address: [u8; 4], account: &str, password: &str) -> Reply {
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!("account={account}&password={password}");
    site.send_from(address, "POST", "/login", &form, &body).await
}

impl World {
    async fn new() -> Self {
        let limits = Limits::of(program::LIMITS);
        let site = Site::of(program::app(limits.registry.clone())).await;
        Self { limits, site }
    }

    async fn attempt(&self, account: &str, password: &str) -> (u16, Option<u64>) {
        let reply = attempt(&self.site, [127, 0, 0, 1], account, password).await;
        (reply.status, reply.retry)
    }

    /// Guesses until the account is locked. Returns the number of checked guesses, and the duration
    /// of the lock.
    async fn lock(&self, account: &str) -> (usize, u64) {
        for guess in 0..9 {
            let (status, retry) = self.attempt(account, "guess").await;
            if status == 429 {
                return (guess, retry.unwrap());
            }
            assert_eq!(status, 401);
        }
        panic!("it isn't locked");
    }
}

#[tokio::test]
async fn an_account_is_locked_for_twice_as_long_each_time_until_a_right_password() {
    let world = World::new().await;
    for seconds in [900, 1_800, 3_600] {
        assert_eq!(world.lock("alice").await, (5, seconds));
        world.limits.pass("1min");
        let locked = world.attempt("Alice", "swordfish").await;
        assert_eq!(locked, (429, Some(seconds - 60)), "the right password isn't looked at");
        world.limits.pass(&format!("{seconds}s"));
    }
    assert_eq!(world.attempt("alice", "swordfish").await, (200, None));
    assert_eq!(world.lock("alice").await, (5, 900), "as if nobody had guessed");
}

#[tokio::test]
async fn right_passwords_are_free_and_guesses_at_other_accounts_are_not() {
    let world = World::new().await;
    for _ in 0..30 {
        assert_eq!(world.attempt("alice", "swordfish").await.0, 200);
    }
    assert_eq!(world.limits.left("address", "127.0.0.1").await, [20]);
    // The owner of an account can't use it to get more guesses at others.
    for guess in 0..20 {
        assert_eq!(world.attempt(&format!("someone-{guess}"), "guess").await.0, 401);
        assert_eq!(world.attempt("alice", "swordfish").await.0, if guess < 19 { 200 } else { 429 });
    }
    let denied = world.attempt("bob", "tuna").await;
    assert_eq!(denied, (429, Some(900)), "the address is locked, and not the account");
    assert_eq!(attempt(&world.site, [127, 0, 0, 2], "bob", "tuna").await.status, 200);
}

#[tokio::test]
async fn answers_tell_nobody_which_accounts_there_are() {
    let world = World::new().await;
    let mut answers = Vec::new();
    for account in ["alice", "nobody"] {
        let mut of_account = Vec::new();
        for _ in 0..8 {
            let reply = attempt(&world.site, [127, 0, 0, 3], account, "guess").await;
            of_account.push((reply.status, reply.retry, reply.body, reply.limits));
        }
        assert_eq!(world.limits.left("account", account).await, [] as [u64; 0], "it is locked");
        world.limits.reset("address", "127.0.0.3").await;
        answers.push(of_account);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].iter().filter(|answer| answer.0 == 401).count(), 5);
}

#[tokio::test]
async fn instances_lock_out_together() {
    let redis = sluicegate_testkit::servers::shared().unwrap();
    let start = || Server::start_on(env!("CARGO_BIN_EXE_login"), &redis.url());
    let (one, two) = (start(), start());
    let mut statuses = Vec::new();
    for site in [&one, &two, &one, &two, &one, &two] {
        statuses.push(attempt(site, [127, 0, 0, 1], "alice", "guess").await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429]);
    drop((one, two));
    let locked = attempt(&start(), [127, 0, 0, 1], "alice", "swordfish").await;
    assert_eq!(locked.status, 429);
    assert!((890..=900).contains(&locked.retry.unwrap()), "{:?}", locked.retry);
}
