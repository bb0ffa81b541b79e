//! Overrides at run time, on every store.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod audit;

use std::sync::Arc;
use std::time::Duration;

use sluicegate::admin::{NewOverride, OverrideTo, Overrides, OverridesError};
use sluicegate::error::RequestErrorKind;
use sluicegate::store::SharedStore;
use sluicegate::testing::ManualClock;
use sluicegate::{Config, MemoryStore, RedisStore, Registry};
use sluicegate_core::for_stores::SettingChange;
use sluicegate_core::{Store as _, Timestamp};
use sluicegate_testkit::servers;

const CONFIG: &str = "\
limits:
  api:
    policies: [fixed_window 10/d]
    allow: [friend]
    block: [foe, team-*]
    overrides: [{key: vip, times: 2}]
  address:
    policies: [fixed_window 10/d, token_bucket 5/d burst 5 as steady]
    key: ip
";

/// Returns a registry of these limits for each process of a fleet that shares a store.
fn fleet(store: &SharedStore, config: &str) -> (Registry, Registry) {
    let config = Config::parse(config, "limits.yaml").unwrap();
    let open = || Registry::builder(store.clone()).config(&config).build();
    (open(), open())
}

/// Returns a store of each kind.
fn stores() -> Vec<SharedStore> {
    let mut stores = vec![SharedStore::new(MemoryStore::new())];
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("over").parse().unwrap();
        let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix);
        stores.push(SharedStore::new(store.deadline(Duration::from_secs(5)).build()));
    }
    stores
}

fn times(times: &str) -> NewOverride {
    NewOverride::new(OverrideTo::Times(times.parse().unwrap()))
}

fn policies(specs: &[&str]) -> NewOverride {
    let policies = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    NewOverride::new(OverrideTo::Policies(policies))
}

/// Returns the units that a check of a key leaves; `None` if it isn't counted or denied.
async fn left(registry: &Registry, limit: &str, key: &str) -> Option<u64> {
    registry.gate(limit).check(key).await.unwrap().remaining()
}

async fn passes(registry: &Registry, limit: &str, key: &str) -> bool {
    registry.gate(limit).check(key).await.unwrap().is_allowed()
}

async fn message(
    overrides: &Overrides,
    limit: &str,
    key: Option<&[u8]>,
    new: &NewOverride,
) -> String {
    overrides.set(limit, key, new).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_key_has_other_numbers_and_keeps_what_it_used() {
    for store in stores() {
        let (one, other) = fleet(&store, CONFIG);
        assert_eq!(left(&one, "api", "acme").await, Some(9));
        one.overrides().set("api", Some(b"acme"), &times("10")).await.unwrap();
        assert_eq!(left(&one, "api", "acme").await, Some(98));
        assert_eq!(left(&one, "api", "else").await, Some(9));
        // Another process follows.
        assert_eq!(left(&other, "api", "acme").await, Some(7));
        other.overrides().refresh().await.unwrap();
        assert_eq!(left(&other, "api", "acme").await, Some(96));
        // It replaces the former one.
        other
            .overrides()
            .set("api", Some(b"acme"), &policies(&["fixed_window 6/d"]))
            .await
            .unwrap();
        assert_eq!(left(&other, "api", "acme").await, Some(1));
        assert!(other.overrides().clear("api", Some(b"acme"), None).await.unwrap());
        assert!(!other.overrides().clear("api", Some(b"acme"), None).await.unwrap(), "it is gone");
        assert_eq!(left(&other, "api", "acme").await, Some(4));
    }
}

#[tokio::test]
async fn an_override_wins_over_lists_and_overrides_of_the_file() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        for (key, numbers, expected) in
            [("foe", "1", 9), ("friend", "3", 29), ("team-a", "2", 19), ("vip", "5", 49)]
        {
            overrides.set("api", Some(key.as_bytes()), &times(numbers)).await.unwrap();
            assert_eq!(left(&one, "api", key).await, Some(expected), "{key}");
        }
        assert!(!passes(&one, "api", "team-b").await);
        overrides.set("api", Some(b"vip"), &NewOverride::new(OverrideTo::Block)).await.unwrap();
        assert!(!passes(&one, "api", "vip").await);
        overrides.set("api", Some(b"foe"), &NewOverride::new(OverrideTo::Allow)).await.unwrap();
        for _ in 0..20 {
            assert!(passes(&one, "api", "foe").await);
        }
    }
}

#[tokio::test]
async fn the_whole_limit_has_other_numbers_except_for_keys_with_an_own_override() {
    for store in stores() {
        let (one, other) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        overrides.set("api", Some(b"acme"), &times("4")).await.unwrap();
        overrides.set("api", None, &policies(&["fixed_window 3/d"])).await.unwrap();
        assert_eq!(left(&one, "api", "else").await, Some(2));
        assert_eq!(left(&one, "api", "vip").await, Some(2), "numbers of the file are replaced");
        assert_eq!(left(&one, "api", "acme").await, Some(39), "a multiple of the file's numbers");
        assert!(!passes(&one, "api", "foe").await, "lists stay");
        assert_eq!(
            one.limit("api").unwrap().limit.members()[0].policy().to_string(),
            "fixed_window 3/d"
        );
        assert_eq!(
            one.configured("api").unwrap().limit.members()[0].policy().to_string(),
            "fixed_window 10/d"
        );
        // A new configuration keeps the override.
        let changed =
            CONFIG.replace("fixed_window 10/d]\n    allow", "fixed_window 20/d]\n    allow");
        one.replace(&Config::parse(&changed, "limits.yaml").unwrap()).unwrap();
        assert_eq!(left(&one, "api", "else").await, Some(1));
        assert_eq!(left(&one, "api", "acme").await, Some(78));
        // All keys pass, or none.
        overrides.set("api", None, &NewOverride::new(OverrideTo::Block)).await.unwrap();
        assert!(!passes(&one, "api", "else").await && passes(&one, "api", "friend").await);
        overrides.set("api", None, &NewOverride::new(OverrideTo::Allow)).await.unwrap();
        assert!(passes(&one, "api", "else").await && !passes(&one, "api", "foe").await);
        other.overrides().refresh().await.unwrap();
        assert!(passes(&other, "api", "another").await);
        assert!(overrides.clear("api", None, Some("maria")).await.unwrap());
        assert_eq!(left(&one, "api", "else").await, Some(17));
    }
}

#[tokio::test]
async fn a_key_is_named_in_any_spelling() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        overrides.set("address", Some(b"2001:DB8::1"), &times("2")).await.unwrap();
        assert_eq!(left(&one, "address", "2001:db8::2").await, Some(9), "of one network");
        let entry = overrides.get("address", Some(b"2001:0db8::7")).await.unwrap().unwrap();
        assert_eq!(entry.key.as_deref(), Some(&b"2001:db8::/64"[..]));
        assert!(overrides.clear("address", Some(b"2001:db8:0::"), None).await.unwrap());
        let unfit = overrides.set("address", Some(b"acme"), &times("2")).await.unwrap_err();
        assert!(
            matches!(&unfit, OverridesError::Invalid(it) if it.kind() == RequestErrorKind::UnfitKey)
        );
    }
}

#[tokio::test]
async fn what_doesnt_fit_is_refused() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        assert_eq!(
            message(&overrides, "apis", Some(b"k"), &times("2")).await,
            "there is no limit called `apis`: did you mean `api`?"
        );
        let other = policies(&["gcra 5/d as fixed_window"]);
        assert_eq!(
            message(&overrides, "api", None, &other).await,
            "policy `fixed_window` is a gcra, but the limit's is a fixed_window: an override can change only numbers"
        );
        let part = policies(&["fixed_window 9/d"]);
        let refused = message(&overrides, "address", None, &part).await;
        assert_eq!(
            refused,
            "the limit has 2 policies, not 1: write fixed_window, steady, in this order"
        );
        let fraction = message(&overrides, "api", Some(b"k"), &times("0.01")).await;
        assert!(fraction.contains("limit 10 times 0.01 is not a whole number"), "{fraction}");
        let note = message(&overrides, "api", None, &times("2").note("n".repeat(1_001))).await;
        assert_eq!(note, "the note has 1001 bytes: use at most 1000");
        let long = message(&overrides, "api", Some(&[b'k'; 5_000]), &times("2")).await;
        assert!(long.contains("name of 5004 bytes"), "{long}");
        let short = times("2").lasts(Duration::from_micros(1));
        assert!(message(&overrides, "api", None, &short).await.contains("can't last"));
        assert!(overrides.audit(None, 10).await.unwrap().is_empty());
        assert_eq!(overrides.list("api", None, 10).await.unwrap(), []);
    }
}

#[tokio::test]
async fn overrides_end_by_the_clock_of_the_store() {
    let start = Timestamp::from_micros(1_790_000_000_000_000).unwrap();
    let clock = Arc::new(ManualClock::new(start));
    let store = SharedStore::new(MemoryStore::builder().clock(clock.clone()).build());
    let (one, other) = fleet(&store, CONFIG);
    let hour = Duration::from_secs(3_600);
    one.overrides().set("api", Some(b"acme"), &times("2").lasts(hour)).await.unwrap();
    clock.advance(Duration::from_secs(3_599));
    other.overrides().refresh().await.unwrap();
    assert_eq!(left(&other, "api", "acme").await, Some(19));
    let entry = other.overrides().get("api", Some(b"acme")).await.unwrap().unwrap();
    assert!(entry.ends_in.unwrap() <= Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    assert_eq!(other.overrides().get("api", Some(b"acme")).await.unwrap(), None);
    assert_eq!(left(&other, "api", "acme").await, Some(8));
    assert!(!other.overrides().clear("api", Some(b"acme"), None).await.unwrap(), "it ended");
}

#[tokio::test]
async fn on_a_server_overrides_end_and_leave_nothing() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("over");
        let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.parse().unwrap());
        let store = SharedStore::new(store.deadline(Duration::from_secs(5)).build());
        let (one, _) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        assert_eq!(overrides.outlast_the_process(), Some(true));
        let key = format!("{prefix}:{{settings}}");
        let life = || server.cli(&["PTTL", &key]).unwrap().parse::<i64>().unwrap();
        let hour = Duration::from_secs(3_600);
        overrides.set("api", Some(b"a"), &times("2").lasts(hour)).await.unwrap();
        // A clock of the machine may be set back a little meanwhile.
        let first = life();
        assert!((3_590_000..=3_601_000).contains(&first), "{first}");
        overrides.set("api", Some(b"b"), &times("2")).await.unwrap();
        assert_eq!(life(), -1, "one has no end");
        overrides.clear("api", Some(b"b"), None).await.unwrap();
        assert!(life() > 0);
        overrides
            .set("api", Some(b"a"), &times("2").lasts(Duration::from_millis(1)))
            .await
            .unwrap();
        while overrides.get("api", Some(b"a")).await.unwrap().is_some() {}
        while server.cli(&["EXISTS", &key]).unwrap() != "0" {}
        // Ended ones don't count among those that there may be.
        assert_eq!(left(&one, "api", "a").await, Some(9));
    }
}

#[tokio::test]
async fn a_process_that_starts_later_has_them_and_one_that_lost_the_log_reads_all() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("over");
        let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.parse().unwrap());
        let store = SharedStore::new(store.deadline(Duration::from_secs(5)).build());
        let (one, other) = fleet(&store, CONFIG);
        one.overrides().set("api", Some(b"gone"), &times("2")).await.unwrap();
        other.overrides().refresh().await.unwrap();
        for number in 0..1_500 {
            let name = format!("api\0key-{number:04}");
            let change = SettingChange {
                name: name.as_bytes(),
                value: Some(b"{\"times\":\"2\"}"),
                lasts: None,
                remark: b"",
            };
            store.settings().unwrap().change(change).await.unwrap();
        }
        one.overrides().clear("api", Some(b"gone"), None).await.unwrap();
        // More changes than one command reads.
        other.overrides().refresh().await.unwrap();
        assert_eq!(
            (other.overrides().count("api"), left(&other, "api", "key-1499").await),
            (1_500, Some(19))
        );
        let page = other.overrides().list("api", Some(b"key-1497"), 2).await.unwrap();
        let keys: Vec<_> = page.iter().map(|entry| entry.key.clone().unwrap()).collect();
        assert_eq!(keys, [b"key-1498".to_vec(), b"key-1499".to_vec()]);

        server.cli(&["HDEL", &format!("{prefix}:{{settings}}"), "api\0key-0000"]).ok();
        server.cli(&["DEL", &format!("{prefix}:{{settings}}:log")]).unwrap();
        one.overrides().set("api", Some(b"new"), &times("2")).await.unwrap();
        other.overrides().refresh().await.unwrap();
        assert_eq!(other.overrides().count("api"), one.overrides().count("api"));
        assert_eq!(left(&other, "api", "new").await, Some(19));
        let (late, _) = fleet(&store, CONFIG);
        late.overrides().refresh().await.unwrap();
        assert_eq!(left(&late, "api", "key-0999").await, Some(19));
    }
}

#[tokio::test]
async fn an_override_that_doesnt_fit_any_more_says_why() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let overrides = one.overrides();
        overrides.set("api", Some(b"acme"), &policies(&["fixed_window 99/d"])).await.unwrap();
        let problem = || async {
            overrides.get("api", Some(b"acme")).await.unwrap().unwrap().problem.unwrap_or_default()
        };
        assert_eq!(problem().await, "");
        let changed = CONFIG.replace("fixed_window 10/d]\n    allow", "gcra 10/d]\n    allow");
        one.replace(&Config::parse(&changed, "limits.yaml").unwrap()).unwrap();
        assert!(
            problem().await.contains("an override can change only numbers"),
            "{}",
            problem().await
        );
        assert!(passes(&one, "api", "acme").await);
        let without =
            Config::parse("limits: {other: {policies: [gcra 1/s]}}", "limits.yaml").unwrap();
        one.replace(&without).unwrap();
        assert!(problem().await.starts_with("the configuration has no such limit"));
        // A limit that comes back has its override again.
        one.replace(&Config::parse(CONFIG, "limits.yaml").unwrap()).unwrap();
        assert_eq!((problem().await.as_str(), left(&one, "api", "acme").await), ("", Some(98)));
        assert!(overrides.clear("api", Some(b"acme"), None).await.unwrap());
    }
}

#[tokio::test]
async fn code_with_numbers_of_its_own_follows_too() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let given = sluicegate::Limit::new("inline", ["fixed_window 5/d"]).unwrap();
        let gate = one.inline(given);
        assert_eq!(gate.check("acme").await.unwrap().remaining(), Some(4));
        one.overrides().set("inline", Some(b"acme"), &times("2")).await.unwrap();
        assert_eq!(gate.check("acme").await.unwrap().remaining(), Some(8));
        // Numbers that a caller gives stay, but lists of operators count.
        let given = sluicegate::Limit::new("api", ["fixed_window 70/d"]).unwrap();
        let tier = one.gate_with_numbers(given);
        one.overrides()
            .set("api", Some(b"bad"), &NewOverride::new(OverrideTo::Block))
            .await
            .unwrap();
        one.overrides().set("api", Some(b"acme"), &times("2")).await.unwrap();
        assert_eq!(tier.check("acme").await.unwrap().remaining(), Some(69));
        assert!(tier.check("bad").await.unwrap().is_denied());
        // Several limits that are decided together have each their own.
        let both = one.together(["inline", "api"]).unwrap();
        let ask = sluicegate::Ask::new("acme").and("bad");
        assert!(both.check(ask).await.unwrap().is_denied());
    }
}

#[tokio::test]
async fn a_store_that_fails_keeps_what_is_known() {
    let server = servers::Server::start().unwrap();
    let store =
        RedisStore::builder(&server.url()).unwrap().deadline(Duration::from_millis(200)).build();
    let (one, _) = fleet(&SharedStore::new(store), CONFIG);
    let overrides = one.overrides();
    overrides.set("api", Some(b"acme"), &NewOverride::new(OverrideTo::Block)).await.unwrap();
    drop(server);
    let failed = overrides.set("api", Some(b"acme"), &times("2")).await.unwrap_err();
    assert!(matches!(failed, OverridesError::Store(_)), "{failed}");
    assert!(matches!(overrides.refresh().await, Err(OverridesError::Store(_))));
    assert!(!passes(&one, "api", "acme").await);
}

#[tokio::test]
async fn call_sites_keep_their_own_numbers() {
    for store in stores() {
        let (one, _) = fleet(&store, CONFIG);
        let of = |spec| sluicegate::Limit::new("shared", [spec]).unwrap();
        let few = one.inline(of("fixed_window 5/d"));
        let many = one.inline(of("fixed_window 50/d"));
        one.overrides().set("shared", Some(b"acme"), &times("2")).await.unwrap();
        assert_eq!(many.check("else").await.unwrap().remaining(), Some(49));
        assert_eq!(few.check("else").await.unwrap().remaining(), Some(3));
        assert_eq!(many.check("acme").await.unwrap().remaining(), Some(99));
        assert_eq!(few.check("acme").await.unwrap().remaining(), Some(8));
    }
}

#[tokio::test]
async fn a_key_that_the_limit_counts_in_another_form_now_has_no_override() {
    for store in stores() {
        let (one, _) = fleet(&store, &CONFIG.replace("key: ip", "key: user"));
        let overrides = one.overrides();
        let block = NewOverride::new(OverrideTo::Block);
        overrides.set("address", Some(b"2001:db8::1"), &block).await.unwrap();
        assert!(!passes(&one, "address", "2001:db8::1").await);
        one.replace(&Config::parse(CONFIG, "limits.yaml").unwrap()).unwrap();
        assert!(passes(&one, "address", "2001:db8::1").await, "the network has other clients too");
        let entry = overrides.get("address", Some(b"2001:db8::1")).await.unwrap().unwrap();
        assert!(entry.problem.unwrap().contains("counts this key as `2001:db8::/64` now"));
        assert!(overrides.clear("address", Some(b"2001:db8::1"), None).await.unwrap());
    }
}

/// Returns how a registry treats each key: its numbers, whether it passes, and why its override isn't in force.
async fn treatments(registry: &Registry, keys: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for key in keys {
        let peeked = registry.gate("api").peek(*key).await.unwrap();
        let numbers = peeked.limit().map(|limit| limit.members()[0].policy().to_string());
        let of_key = registry.overrides().known_of("api", Some(key.as_bytes()));
        let problem = of_key.and_then(|entry| entry.problem);
        let (passes, left) = (peeked.is_allowed(), peeked.remaining());
        all.push(format!("{key}: {numbers:?} {passes} {left:?} {problem:?}"));
    }
    all
}

/// A process that has followed each change decides as one does that starts later and reads all of them.
#[tokio::test]
async fn changes_one_by_one_have_the_effect_of_all_at_once() {
    const KEYS: [&str; 7] = ["acme", "friend", "foe", "team-a", "vip", "other", "else"];
    let mut random = fastrand::Rng::with_seed(7);
    for store in stores() {
        let (one, follows) = fleet(&store, CONFIG);
        for round in 0..120 {
            let key = random.choice(KEYS).map(str::as_bytes).filter(|_| random.u8(..10) > 0);
            let new = match random.u8(..6) {
                0 => NewOverride::new(OverrideTo::Allow),
                1 => NewOverride::new(OverrideTo::Block),
                // Most sets of numbers are used by one override only.
                2 | 3 => policies(&[&format!("fixed_window {}/d", random.u32(20..90))]),
                _ => times(&random.u8(1..5).to_string()),
            };
            if random.u8(..4) == 0 {
                one.overrides().clear("api", key, None).await.unwrap();
            } else {
                one.overrides().set("api", key, &new).await.unwrap();
            }
            if round % 3 == 0 {
                follows.overrides().refresh().await.unwrap();
            }
            if round % 10 == 9 {
                let (later, _) = fleet(&store, CONFIG);
                for registry in [&follows, &later] {
                    registry.overrides().refresh().await.unwrap();
                }
                let expected = treatments(&later, &KEYS).await;
                assert_eq!(treatments(&one, &KEYS).await, expected, "after {round}");
                assert_eq!(treatments(&follows, &KEYS).await, expected, "after {round}");
            }
        }
    }
}

/// A change among as many overrides as a store keeps doesn't copy the others. Otherwise these would take hours.
#[tokio::test]
async fn as_many_overrides_as_a_store_keeps_are_changed_one_by_one() {
    let store = SharedStore::new(MemoryStore::new());
    let (one, _) = fleet(&store, CONFIG);
    for number in 0..SettingChange::MOST {
        let name = format!("api\0key-{number}");
        let change = SettingChange {
            name: name.as_bytes(),
            value: Some(b"{\"times\":\"2\"}"),
            lasts: None,
            remark: b"",
        };
        store.settings().unwrap().change(change).await.unwrap();
    }
    let overrides = one.overrides();
    overrides.refresh().await.unwrap();
    for number in 0..1_000 {
        let key = format!("key-{number}");
        overrides.set("api", Some(key.as_bytes()), &times("3")).await.unwrap();
        assert_eq!(left(&one, "api", &key).await, Some(29));
    }
    assert_eq!(left(&one, "api", "key-1000").await, Some(19));
    let refused = message(&overrides, "api", Some(b"one-more"), &times("3")).await;
    assert!(refused.contains("has 100000 settings, which is the maximum"), "{refused}");
    assert!(overrides.clear("api", Some(b"key-0"), None).await.unwrap());
    overrides.set("api", Some(b"one-more"), &times("3")).await.unwrap();
    assert_eq!(overrides.count("api"), SettingChange::MOST);
}
