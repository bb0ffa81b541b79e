use std::time::Duration;

use sluicegate::error::RequestErrorKind;
use sluicegate::{Limit, Limiter, RedisStore};
use sluicegate_testkit::servers::Server;

use super::Plans;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_on_a_server_stay_when_a_key_gets_other_numbers() {
    let server = Server::start().unwrap();
    let limiter = || {
        let store = RedisStore::builder(&server.url()).unwrap();
        let store = store.deadline(Duration::from_secs(30)).build();
        Limiter::new(store, Limit::new("api", ["fixed_window 1/d"]).unwrap())
    };
    let plans = Plans::new("fixed_window 10/d");
    // Two processes have numbers of their own, and share the units.
    let (one, other) = (limiter().keyed(plans.maker()), limiter().keyed(plans.maker()));
    assert_eq!(one.check("acme").await.unwrap().remaining(), Some(9));
    assert_eq!(other.check("acme").await.unwrap().remaining(), Some(8));
    plans.change("fixed_window 100/d");
    assert!(one.forget("acme"));
    assert_eq!(one.check("acme").await.unwrap().remaining(), Some(97));
    assert_eq!(other.check("acme").await.unwrap().remaining(), Some(6), "the plan until then");
    let with = limiter();
    let spec = ["fixed_window 50/d"];
    assert_eq!(with.check("acme").with(spec).await.unwrap().remaining(), Some(45));
    for error in
        [one.check("acme").now().unwrap_err(), with.check("acme").with(spec).now().unwrap_err()]
    {
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
    }
    assert_eq!(one.check("acme").blocking().unwrap().remaining(), Some(94));
}
