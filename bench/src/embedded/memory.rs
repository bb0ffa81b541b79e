//! The memory of the embedded store: bytes per key, and allocations per decision.

use std::env;
use std::fs;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sluicegate_core::{Request, Timestamp};

use super::ROOMY;
use super::keys::keys;
use super::rival::governor;
use super::speed::{START, open, store_for};
use crate::counting::{allocations, live_bytes};
use crate::measure::{Effort, Measured, Session};

/// Numbers of keys. A table grows by a fifth, so somewhere between a size and one a fifth larger it
/// is at its emptiest.
const SIZES: [usize; 9] =
    [600_000, 700_000, 750_000, 850_000, 900_000, 1_000_000, 1_200_000, 1_500_000, 2_000_000];

pub fn measure(session: &mut Session) {
    session.goal("embedded-bytes-per-key", |_| bytes_per_key());
    session.goal("embedded-allocations", allocations_per_decision);
}

/// Measures bytes per key: the larger of live heap and resident memory. Each store runs in a process
/// of its own, so that no memory is used twice.
fn bytes_per_key() -> Result<Measured> {
    let (mut worst, mut figures, mut part) = (0.0_f64, Vec::new(), String::new());
    for keys in SIZES {
        let (heap, resident) = in_a_process("sluicegate", keys)?;
        let (rival_heap, rival_resident) = in_a_process("governor", keys)?;
        let (ours, rival) = (heap.max(resident), rival_heap.max(rival_resident));
        if ours > worst {
            worst = ours;
            part = format!(
                "At the worst size, {heap:.1} bytes are allocated on the heap, and {resident:.1} \
                 are resident"
            );
        }
        figures.push(format!("{:.2} million: {ours:.1}, governor {rival:.0}", keys as f64 / 1e6));
    }
    Ok(Measured::new(worst, figures.join(". ")).part(part))
}

fn in_a_process(store: &str, keys: usize) -> Result<(f64, f64)> {
    let program = env::current_exe().context("can't find this program")?;
    let store_and_keys = format!("{store}:{keys}");
    let output = Command::new(program).args(["--child", &store_and_keys]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse);
    match (output.status.success(), numbers.next(), numbers.next()) {
        (true, Some(Ok(heap)), Some(Ok(resident))) => Ok((heap, resident)),
        _ => bail!(
            "the process that fills {store} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Fills a store and prints the bytes per key by which heap and resident memory grew.
pub fn child(store_and_keys: &str) -> Result<()> {
    let (store, count) = store_and_keys.split_once(':').context("a store and a number of keys")?;
    let count: usize = count.parse()?;
    let keys = keys(count);
    let before = (live_bytes(), resident_bytes()?);
    let (passed, after) = match store {
        "sluicegate" => {
            // The largest size has to fit, as with a default cap.
            let store = store_for(2_000_000)?;
            let opened = open(&store, &[ROOMY])?;
            let passed = keys
                .iter()
                .filter(|key| {
                    let now = Timestamp::from_micros_clamped(START);
                    let answer = opened.decide_at(Request::check(key.as_bytes()), now);
                    answer.is_ok_and(|decision| decision.is_allowed())
                })
                .count();
            ensure!(store.stats().keys == count, "the store holds {} keys", store.stats().keys);
            let after = (live_bytes(), resident_bytes()?);
            black_box(opened);
            (passed, after)
        }
        "governor" => {
            let governor = governor()?;
            let passed = keys.iter().filter(|key| governor.check_key(*key).is_ok()).count();
            let after = (live_bytes(), resident_bytes()?);
            black_box(governor);
            (passed, after)
        }
        other => bail!("there is no store `{other}`"),
    };
    ensure!(passed == count, "{passed} of {count} fresh keys were admitted");
    let per_key = |after: u64, before: u64| after.saturating_sub(before) as f64 / count as f64;
    println!("{} {}", per_key(after.0, before.0), per_key(after.1, before.1));
    Ok(())
}

fn resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm").context("can't read /proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("no resident pages")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn allocations_per_decision(effort: Effort) -> Result<Measured> {
    let store = store_for(1_000)?;
    let keys = keys(1_000);
    let three = [ROOMY, "fixed_window 1000000000/d", "sliding_counter 1000000/d"];
    let cases: [(&str, &[&str], bool); 4] = [
        ("admitted", &[ROOMY], true),
        ("denied", &["token_bucket 1/d as strict"], false),
        ("three policies, admitted", &three, true),
        ("three policies, denied", &[three[0], "gcra 1/d as tight", three[2]], false),
    ];
    let rounds = effort.count(40);
    let (mut asked, mut allocated) = (0, 0);
    for (name, policies, admits) in cases {
        let opened = open(&store, policies)?;
        let now = Timestamp::from_micros_clamped(START);
        let ask = |key: &String| {
            let answer = opened.decide_at(Request::check(key.as_bytes()), now);
            black_box(&answer).as_ref().is_ok_and(|decision| decision.is_allowed())
        };
        ensure!(keys.iter().all(ask), "{name}: fresh keys should be admitted");
        let before = allocations();
        let passed = (0..rounds).flat_map(|_| &keys).filter(|key| ask(key)).count();
        allocated += allocations() - before;
        asked += rounds * keys.len();
        let expected = if admits { rounds * keys.len() } else { 0 };
        ensure!(passed == expected, "{name}: {passed} were admitted, not {expected}");
    }
    let value = allocated as f64 / asked as f64;
    Ok(Measured::new(value, format!("{allocated} in {asked} decisions")))
}
