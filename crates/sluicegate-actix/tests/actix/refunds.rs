//! Requests that give back what they took: a login form, and what clients try on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use actix_web::dev::Service as _;
use actix_web::test::{TestRequest, init_service};
use actix_web::{App, HttpResponse, web};
use sluicegate::{Config, Gate, Registry};
use sluicegate_actix::LimitMiddleware;
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use tokio::sync::Semaphore;

use super::serve;
use super::web::{Client, Limits, key};

/// A login form behind a limit of three guesses for each account.
struct Form {
    client: Client,
    login: Gate,
    state: Arc<State>,
}

struct State {
    /// Requests that have started to verify a password.
    started: AtomicUsize,
    /// Requests that were answered.
    ended: AtomicUsize,
    /// Each permit allows one answer.
    verified: Semaphore,
}

async fn verify(password: web::Path<String>, state: web::Data<State>) -> HttpResponse {
    state.started.fetch_add(1, Ordering::SeqCst);
    state.verified.acquire().await.unwrap().forget();
    state.ended.fetch_add(1, Ordering::SeqCst);
    match password.as_str() {
        "right" => HttpResponse::Ok().finish(),
        _ => HttpResponse::Unauthorized().finish(),
    }
}

impl Form {
    fn at(store: &str) -> Self {
        let config = format!(
            "store: \"{store}\"\nlimits: {{login: {{deadline: 5s, policies: [sliding_log 3/h]}}}}"
        );
        let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
        let login = registry.gate("login");
        let limit = LimitMiddleware::new(login.clone())
            .key(key("query:account"))
            .refund_if(|response| response.status().is_success());
        let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let state = Arc::new(State { started, ended, verified: Semaphore::new(0) });
        let data = web::Data::from(Arc::clone(&state));
        let client = serve(limit, move |config| {
            config.app_data(data.clone()).route("/{password}", web::get().to(verify));
        });
        Self { client, login, state }
    }

    fn guess(&self, account: &str, password: &str) -> tokio::task::JoinHandle<u16> {
        let client = self.client.at([127, 0, 0, 1]);
        let path = format!("/{password}?account={account}");
        tokio::spawn(async move { client.get(&path).await.status })
    }

    fn verify(&self, guesses: usize) {
        self.state.verified.add_permits(guesses);
    }

    async fn left(&self) -> u64 {
        self.login.peek("alice").await.unwrap().remaining().unwrap()
    }
}

async fn until(happened: impl Fn() -> bool) {
    until_async("what a guess does", async || if happened() { Ok(()) } else { Err(()) }).await;
}

#[tokio::test]
async fn of_forty_guesses_at_once_three_are_verified() {
    let server = Server::start().unwrap();
    for form in [Form::at("memory:"), Form::at(&server.url())] {
        for (password, status, left) in [("right", 200, 3), ("wrong", 401, 0)] {
            let before = form.state.started.load(Ordering::SeqCst);
            let started = || form.state.started.load(Ordering::SeqCst) - before;
            let guesses: Vec<_> = (0..40).map(|_| form.guess("alice", password)).collect();
            let denied = || guesses.iter().filter(|guess| guess.is_finished()).count();
            // None of the running requests has been answered yet.
            until(|| denied() + started() >= 40).await;
            assert_eq!(started(), 3);
            form.verify(3);
            let mut statuses = Vec::new();
            for guess in guesses {
                statuses.push(guess.await.unwrap());
            }
            let of = |status| statuses.iter().filter(|each| **each == status).count();
            assert_eq!((of(429), of(status)), (37, 3), "{password}: {statuses:?}");
            assert_eq!(form.left().await, left);
        }
    }
}

/// Actix runs a handler to its end after its client has disconnected, so its result is known. A wrong
/// guess keeps its unit, and a right one gets it back.
#[tokio::test]
async fn a_client_that_hangs_up_gets_back_what_a_right_guess_took_and_nothing_else() {
    let form = Form::at("memory:");
    for (password, left) in [("wrong", 2), ("right", 2), ("wrong", 1), ("right", 1), ("wrong", 0)] {
        let started = form.state.started.load(Ordering::SeqCst);
        let ended = form.state.ended.load(Ordering::SeqCst);
        let guess = form.guess("alice", password);
        until(|| form.state.started.load(Ordering::SeqCst) > started).await;
        guess.abort();
        assert!(guess.await.unwrap_err().is_cancelled());
        form.verify(1);
        until(|| form.state.ended.load(Ordering::SeqCst) > ended).await;
        // The single worker gives units back before it serves the next request.
        form.verify(1);
        assert_eq!(form.guess("bob", "right").await.unwrap(), 200);
        assert_eq!(form.left().await, left, "{password}");
    }
    assert_eq!(form.guess("alice", "right").await.unwrap(), 429);
}

#[tokio::test]
async fn a_request_that_is_given_up_or_whose_handler_panics_gets_nothing_back() {
    let limits = Limits::with("sliding_log 9/h");
    let limit = LimitMiddleware::new(limits.api()).refund_if(|_| true);
    let endless = async || std::future::pending::<&'static str>().await;
    let application = App::new().wrap(limit.clone()).route("/", web::get().to(endless));
    let application = init_service(application).await;
    let peer = SocketAddr::from(([127, 0, 0, 1], 80));
    let mut answer = Box::pin(application.call(TestRequest::get().peer_addr(peer).to_request()));
    let first_look = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context)));
    assert!(first_look.await.is_pending());
    drop(answer);
    assert_eq!(limits.left("api", "127.0.0.1"), 8);
    let client = serve(limit, |config| {
        let panics = async || -> &'static str { panic!("on purpose") };
        config.route("/", web::get().to(panics));
    });
    assert!(client.try_send("GET", "/", &[]).await.is_err());
    assert_eq!(limits.left("api", "127.0.0.1"), 7);
}

/// An error that a handler returns is a response too.
#[tokio::test]
async fn an_error_of_the_handler_is_judged_by_its_status() {
    let limits = Limits::with("sliding_log 9/h");
    let limit = LimitMiddleware::new(limits.api())
        .refund_if(|response| response.status().is_server_error());
    let client = serve(limit, |config| {
        let fails = async |is_ours: web::Path<bool>| -> Result<&'static str, actix_web::Error> {
            match *is_ours {
                true => Err(actix_web::error::ErrorBadGateway("ours")),
                false => Err(actix_web::error::ErrorBadRequest("theirs")),
            }
        };
        config.route("/{ours}", web::get().to(fails));
    });
    assert_eq!(client.get("/true").await.status, 502);
    assert_eq!(limits.left("api", "127.0.0.1"), 9);
    assert_eq!(client.get("/false").await.status, 400);
    assert_eq!(limits.left("api", "127.0.0.1"), 8);
}

/// The server refuses scripts while the handler runs.
#[tokio::test]
async fn a_store_that_fails_before_the_giving_back_keeps_the_units_and_the_response_goes_out() {
    let server = Arc::new(Server::start().unwrap());
    let config = format!(
        "store: \"{}\"\nlimits: {{login: {{deadline: 5s, policies: [fixed_window 3/h]}}}}",
        server.url()
    );
    let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
    let login = registry.gate("login");
    let limit = LimitMiddleware::new(login.clone()).refund_if(|_| true);
    let data = web::Data::from(Arc::clone(&server));
    let client = serve(limit, move |config| {
        let breaks = async |server: web::Data<Server>| {
            server.cli(&["ACL", "SETUSER", "default", "-@scripting"]).unwrap();
            "answered"
        };
        config.app_data(data.clone()).route("/", web::get().to(breaks));
    });
    let reply = client.get("/").await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "answered"));
    server.cli(&["ACL", "SETUSER", "default", "+@scripting"]).unwrap();
    assert_eq!(login.peek("127.0.0.1").await.unwrap().remaining(), Some(2));
}
