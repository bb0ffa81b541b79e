//! Holding and settling on real servers, from several processes' points of view.

use std::time::Duration;

use sluicegate::decision::HoldFound;
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::LimitName;
use sluicegate::{Ask, Config, Limiter, RedisStore, Registry, Usage};
use sluicegate_testkit::servers::{Cluster, Server, available, fresh_prefix};

pub(crate) fn store(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).unwrap().prefix(fresh_prefix("holds").parse().unwrap());
    store.deadline(Duration::from_secs(5)).build()
}

#[tokio::test]
async fn another_process_settles_by_the_text_of_the_token() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = store(&server.url());
        let specs = ["fixed_window 60/h as requests", "fixed_window 9000/h as tokens"];
        let limit = sluicegate::Limit::new("llm", specs).unwrap();
        let [holder, other] = [(); 2].map(|()| Limiter::new(store.clone(), limit.clone()));
        let ask = Ask::new("acme").cost_of("requests", 1).cost_of("tokens", 1_000);
        let grant = holder.check(ask).hold(Duration::from_secs(60)).await.unwrap();
        assert_eq!(grant.outcome("tokens").unwrap().remaining(), Some(8_000));
        let text = grant.token().unwrap().to_string();
        let token = text.parse().unwrap();
        assert!(other.renew(&token, Duration::from_secs(3_600)).await.unwrap().is_allowed());
        for expected in [HoldFound::Live, HoldFound::Settled] {
            let settled = other.settle(&token, Usage::of("tokens", 412)).await.unwrap();
            assert_eq!(settled.hold_found(), Some(expected));
            let tokens = settled.outcome("tokens").unwrap();
            assert_eq!((tokens.given_back(), tokens.remaining()), (Some(588), Some(8_588)));
            assert_eq!(settled.outcome("requests").unwrap().remaining(), Some(59));
        }
        assert!(holder.reset("acme").await.unwrap().is_allowed());
        let unknown = other.settle(&token, Usage::nothing()).await.unwrap();
        assert_eq!(unknown.hold_found(), Some(HoldFound::Unknown));

        let blocked = holder.check("acme").hold(Duration::from_secs(60)).now().unwrap_err();
        assert_eq!(blocked.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
        for error in [
            holder.settle(&token, Usage::nothing()).now().unwrap_err(),
            holder.renew(&token, Duration::from_secs(60)).now().unwrap_err(),
        ] {
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
        }
    }
}

const TWO: &str = "limits:
  user: {policies: [fixed_window 900/h as tokens], deadline: 10s, allow: [root]}
  team: {policies: [fixed_window 5000/h as tokens], deadline: 10s}
";

/// On a server with one call, on a cluster with one for each slot.
#[tokio::test]
async fn what_joined_gates_hold_is_settled_by_the_registry() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        settles_by_the_registry(store(&server.url())).await;
        let cluster = Cluster::builder(&binary).replicas(0).start().unwrap();
        let hosts = cluster.urls().join(",").replace("redis://", "");
        settles_by_the_registry(store(&format!("redis+cluster://{hosts}"))).await;
    }
}

async fn settles_by_the_registry(store: RedisStore) {
    let registry = Registry::builder(store).config(&Config::parse(TWO, "limits.yaml").unwrap());
    let registry = registry.build();
    let both = registry.gate("user").and(registry.gate("team")).unwrap();
    let left = async |limit: &str, key: &str| {
        registry.gate(limit).peek(key).await.unwrap().remaining().unwrap()
    };
    // Keys of many slots.
    for number in 0..8 {
        let (user, team) = (format!("user {number}"), format!("team {number}"));
        let ask = || Ask::new(&user).cost(800).and(Ask::new(&team).cost(800));
        let token =
            both.check(ask()).hold(Duration::from_secs(60)).await.unwrap().into_token().unwrap();
        let denied = both.check(ask()).hold(Duration::from_secs(60)).await.unwrap();
        assert!(denied.is_denied() && denied.token().is_none());
        let text = token.to_string().parse().unwrap();
        let usage = Usage::of("tokens", 100).and_in("team", "tokens", 200);
        let settled = registry.settle(&text, usage).await.unwrap();
        assert_eq!(settled.hold_found(), Some(HoldFound::Live));
        assert_eq!(left("user", &user).await, 800);
        assert_eq!(left("team", &team).await, 4_800);
        let again = both.settle(&token, Usage::nothing()).await.unwrap();
        assert_eq!(again.hold_found(), Some(HoldFound::Settled));
        assert_eq!(left("user", &user).await, 800);
    }
    let ask = Ask::new("root").cost(800).and(Ask::new("team 0").cost(800));
    let token = both.check(ask).hold(Duration::from_secs(60)).await.unwrap().into_token().unwrap();
    assert!(token.limits().map(LimitName::as_str).eq(["team"]), "the one that was asked");
    assert!(both.renew(&token, Duration::from_secs(3_600)).await.unwrap().is_allowed());
    assert_eq!(both.settle(&token, Usage::nothing()).await.unwrap().remaining(), Some(4_800));
}
