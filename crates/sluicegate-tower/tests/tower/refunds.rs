//! Requests that give back what they took: a login form, and what clients try on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use sluicegate::http::Peer;
use sluicegate::{Config, Gate, Registry};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use sluicegate_tower::LimitLayer;
use tokio::sync::Semaphore;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::catch_panic::CatchPanicLayer;

use super::serve;
use super::web::{Client, Limits, key, now};

/// A login form behind a limit of three guesses for each account.
struct Form {
    client: Client,
    login: Gate,
    /// Requests whose password is being verified.
    running: Arc<AtomicUsize>,
    /// Each semaphore lets one request with its number be answered.
    verified: Arc<[Semaphore; 3]>,
}

fn three_guesses(gate: Gate) -> LimitLayer {
    LimitLayer::new(gate)
        .key(key("query:account"))
        .refund_if(|response| response.status().is_success())
}

/// Counts a request while its handler runs.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Form {
    async fn at(store: &str) -> Self {
        let config = format!(
            "store: \"{store}\"\nlimits: {{login: {{deadline: 5s, policies: [sliding_log 3/h]}}}}"
        );
        let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
        let login = registry.gate("login");
        let running = Arc::new(AtomicUsize::new(0));
        let verified: Arc<[Semaphore; 3]> = Arc::new([(); 3].map(|()| Semaphore::new(0)));
        let (counter, passes) = (Arc::clone(&running), Arc::clone(&verified));
        let verify = async move |Path((password, number)): Path<(String, usize)>| {
            let _running = Running::new(&counter);
            passes[number].acquire().await.unwrap().forget();
            if password == "right" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
        };
        let router = Router::new().route("/{password}/{number}", get(verify));
        let client = serve(router.layer(three_guesses(login.clone()))).await;
        Self { client, login, running, verified }
    }

    /// Returns a form with an embedded store and one with a store over a network.
    async fn both(server: &Server) -> [Self; 2] {
        [Self::at("memory:").await, Self::at(&server.url()).await]
    }

    fn guess(&self, account: &str, password: &str, number: usize) -> tokio::task::JoinHandle<u16> {
        let (client, path) =
            (self.client.clone(), format!("/{password}/{number}?account={account}"));
        tokio::spawn(async move { client.get(&path).await.status })
    }

    fn verify(&self, number: usize) {
        self.verified[number].add_permits(1);
    }

    async fn left(&self, account: &str) -> u64 {
        self.login.peek(account).await.unwrap().remaining().unwrap()
    }

    async fn are_running(&self, guesses: usize) {
        until_async("guesses that run", async || match self.running.load(Ordering::SeqCst) {
            running if running == guesses => Ok(()),
            running => Err(running),
        })
        .await;
    }
}

#[tokio::test]
async fn of_forty_guesses_at_once_three_are_verified() {
    let server = Server::start().unwrap();
    for form in Form::both(&server).await {
        for (password, status, left) in [("right", 200, 3), ("wrong", 401, 0)] {
            let guesses: Vec<_> = (0..40).map(|_| form.guess("alice", password, 0)).collect();
            let denied = || guesses.iter().filter(|guess| guess.is_finished()).count();
            // None of the running requests has been answered yet.
            until_async("forty guesses that run or are denied", async || {
                let running = form.running.load(Ordering::SeqCst);
                if denied() + running == 40 { Ok(()) } else { Err((denied(), running)) }
            })
            .await;
            assert_eq!(form.running.load(Ordering::SeqCst), 3);
            form.verified[0].add_permits(3);
            let mut statuses = Vec::new();
            for guess in guesses {
                statuses.push(guess.await.unwrap());
            }
            let of = |status| statuses.iter().filter(|each| **each == status).count();
            assert_eq!((of(429), of(status)), (37, 3), "{password}: {statuses:?}");
            assert_eq!(form.left("alice").await, left);
        }
    }
}

/// Runs three guesses concurrently, some right and some wrong, in every order of their ends.
#[tokio::test]
async fn guesses_that_end_out_of_order_leave_what_the_wrong_ones_left() {
    let server = Server::start().unwrap();
    for form in Form::both(&server).await {
        for right in 0..=3_usize {
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let account = format!("{right}{order:?}").replace([' ', '[', ']', ','], "");
                let password = |number| if number < right { "right" } else { "wrong" };
                let mut guesses =
                    [0, 1, 2].map(|number| Some(form.guess(&account, password(number), number)));
                form.are_running(3).await;
                for number in order {
                    form.verify(number);
                    let status = guesses[number].take().unwrap().await.unwrap();
                    assert_eq!(status, if number < right { 200 } else { 401 });
                }
                let left = form.left(&account).await;
                assert_eq!(left, u64::try_from(right).unwrap(), "{order:?}");
            }
        }
        let denied = form.guess("0012", "right", 0).await.unwrap();
        assert_eq!(denied, 429, "after three wrong guesses nobody gets to try");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_gets_nothing_back() {
    let server = Server::start().unwrap();
    for form in Form::both(&server).await {
        for (password, left) in [("right", 2), ("wrong", 1), ("right", 0)] {
            // Each guess has a connection of its own, which closes with it.
            let client = form.client.at([127, 0, 0, 1]);
            let path = format!("/{password}/0?account=alice");
            let guess = tokio::spawn(async move { client.get(&path).await });
            form.are_running(1).await;
            assert_eq!(form.left("alice").await, left);
            guess.abort();
            assert!(guess.await.unwrap_err().is_cancelled());
            // The server notices the closed connection, and drops the request.
            form.are_running(0).await;
            form.verify(0);
            assert_eq!(form.guess("bob", "right", 0).await.unwrap(), 200);
            assert_eq!(form.left("alice").await, left);
        }
        assert_eq!(form.guess("alice", "right", 0).await.unwrap(), 429);
    }
}

#[tokio::test]
async fn a_handler_that_panics_or_a_service_that_fails_gets_nothing_back() {
    let limits = Limits::with("sliding_log 9/h");
    let layer = LimitLayer::new(limits.api()).refund_if(|_| true);
    let panics = async || -> &'static str { panic!("on purpose") };
    let router = Router::new().route("/", get(panics)).layer(layer.clone());
    let client = serve(router.layer(CatchPanicLayer::new())).await;
    assert_eq!(client.get("/").await.status, 500);
    assert_eq!(limits.left("api", "127.0.0.1"), 8);
    let failing = service_fn(async |_: Request<()>| Err::<Response<String>, _>("no"));
    let peer = Peer(([127, 0, 0, 1], 80).into());
    let request = Request::builder().extension(peer).body(()).unwrap();
    assert_eq!(now(layer.layer(failing).oneshot(request)).unwrap_err(), "no");
    assert_eq!(limits.left("api", "127.0.0.1"), 7);
}

/// Makes the server refuse scripts or accept them again: it fails but keeps its data.
fn scripts(server: &Server, allowed: bool) {
    let scripts = if allowed { "+@scripting" } else { "-@scripting" };
    server.cli(&["ACL", "SETUSER", "default", scripts]).unwrap();
}

#[tokio::test]
async fn a_store_that_fails_before_the_giving_back_keeps_the_units_and_the_response_goes_out() {
    let server = Arc::new(Server::start().unwrap());
    for on_failure in ["error", "allow"] {
        let config = format!(
            "store: \"{}\"\nlimits: {{login: {{deadline: 5s, on_store_failure: {on_failure}, policies: [fixed_window 3/h as {on_failure}]}}}}",
            server.url()
        );
        let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
        let login = registry.gate("login");
        let (breaking, healing) = (Arc::clone(&server), Arc::clone(&server));
        let breaks = get(async move || scripts(&breaking, false));
        let heals = get(async move || scripts(&healing, true));
        let router = Router::new().route("/", get(async || ()));
        let router = router.route("/breaks", breaks).route("/heals", heals);
        let client = serve(router.layer(three_guesses(login.clone()))).await;
        let left = async || login.peek("alice").await.unwrap().remaining().unwrap();
        let reply = client.get("/breaks?account=alice").await;
        assert_eq!(reply.status, 200);
        assert!(reply.field("ratelimit").unwrap().contains(";r=2;"), "{reply:?}");
        // The request passes because the store fails, or because it works: in both cases it took
        // nothing.
        let while_gone = client.get("/heals?account=alice").await;
        assert_eq!(while_gone.status, if on_failure == "allow" { 200 } else { 503 });
        scripts(&server, true);
        assert_eq!(left().await, 2);
        let reply = client.get("/?account=alice").await;
        assert!(reply.field("ratelimit").unwrap().contains(";r=2;"), "{reply:?}");
        assert_eq!(left().await, 2);
    }
}
