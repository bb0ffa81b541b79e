//! The audit of overrides, on every store.

use std::time::Duration;

use sluicegate::Registry;
use sluicegate::admin::{NewOverride, OverrideTo};

use super::{CONFIG, fleet, stores, times};

#[tokio::test]
async fn the_audit_has_each_change_and_who_made_it() {
    for store in stores() {
        let (one, other) = fleet(&store, CONFIG);
        let hour = Duration::from_secs(3_600);
        let by = |new: NewOverride, who: &str| new.by(who);
        one.overrides()
            .set("api", Some(b"acme"), &by(times("2"), "maria").lasts(hour).note("launch"))
            .await
            .unwrap();
        other.overrides().set("api", Some(b"acme"), &by(times("3"), "otto")).await.unwrap();
        one.overrides().clear("api", Some(b"acme"), Some("maria")).await.unwrap();
        let audit = other.overrides().audit(None, 10).await.unwrap();
        let shown: Vec<String> = audit
            .iter()
            .map(|entry| {
                let text = |to: &Option<OverrideTo>| {
                    to.as_ref().map_or("-".to_owned(), ToString::to_string)
                };
                let key = entry.key.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                let (from, to) = (text(&entry.from), text(&entry.to));
                let (by, note) =
                    (entry.by.as_deref().unwrap_or("-"), entry.note.as_deref().unwrap_or("-"));
                format!("{by}: {} {key} {from} > {to} {:?} {note}", entry.limit, entry.lasts)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "maria: api acme times 3 > - None -",
                "otto: api acme times 2 > times 3 None -",
                "maria: api acme - > times 2 Some(3600s) launch",
            ]
        );
        assert!(audit.windows(2).all(|pair| pair[0].at >= pair[1].at));
        let second = other.overrides().audit(Some(&audit[0].place), 1).await.unwrap();
        assert_eq!(second, audit[1..2]);
        assert_eq!(other.overrides().audit(Some(&audit[2].place), 9).await.unwrap(), []);
    }
}

/// Two processes set the override of a key at the same time: both changes are listed, and the last one is in force.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_changes_at_the_same_time_the_last_one_listed_is_in_force() {
    for store in stores() {
        let (one, other) = fleet(&store, CONFIG);
        let set = |registry: &Registry, number: u32| {
            let overrides = registry.overrides();
            let new = times(&number.to_string());
            tokio::spawn(async move { overrides.set("api", Some(b"acme"), &new).await.unwrap() })
        };
        let mut before = None;
        for round in 0..50 {
            let numbers = [2 * round + 1, 2 * round + 2];
            let (first, second) = tokio::join!(set(&one, numbers[0]), set(&other, numbers[1]));
            first.and(second).unwrap();
            let audit = one.overrides().audit(None, 2).await.unwrap();
            let to = |at: usize| audit[at].to.as_ref().unwrap().to_string();
            let mut listed = [to(1), to(0)];
            assert_eq!(audit[0].from, audit[1].to, "round {round}");
            assert_eq!(audit[1].from, before, "round {round}");
            before.clone_from(&audit[0].to);
            listed.sort_by_key(|text| (text.len(), text.clone()));
            assert_eq!(listed, numbers.map(|number| format!("times {number}")));
            // The store's override, and the one that each process decides by.
            let stored = one.overrides().get("api", Some(b"acme")).await.unwrap().unwrap();
            assert_eq!(Some(stored.to), before, "round {round}");
            let newest: u32 = to(0).strip_prefix("times ").unwrap().parse().unwrap();
            for registry in [&one, &other] {
                registry.overrides().refresh().await.unwrap();
                let peeked = registry.gate("api").peek("acme").await.unwrap();
                let policy = peeked.limit().unwrap().members()[0].policy().to_string();
                assert_eq!(policy, format!("fixed_window {}/d", 10 * newest), "round {round}");
            }
        }
        let all = other.overrides().audit(None, 1_000).await.unwrap();
        assert_eq!(all.len(), 100);
    }
}
