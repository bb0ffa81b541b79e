//! The service in Redis' protocol, compared with reads of a Redis server and with other limiters, in processor time of a
//! command.

mod load;
mod services;

use anyhow::{Result, ensure};

use crate::machine::{pin_thread, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, take_turns};
use load::{Load, answer};
use services::{Other, REDIS_CELL, Side};

const PAIRS: usize = 11;
const UNIT: &str = "µs of processor time for a command";
/// The pipeline whose commands are compared with other limiters.
const USUAL: usize = 16;

/// Measures the goals of Redis' protocol.
pub fn measure(session: &mut Session) {
    if !session.wants("resp-") {
        return;
    }
    pin_thread(1);
    for (name, command, pipeline) in [
        ("resp-check-1", services::CHECK, 1),
        ("resp-check-16", services::CHECK, 16),
        ("resp-check-64", services::CHECK, 64),
        ("resp-throttle-1", REDIS_CELL, 1),
        ("resp-throttle-16", REDIS_CELL, 16),
        ("resp-throttle-64", REDIS_CELL, 64),
    ] {
        session.goal(name, |effort| beside(effort, services::redis()?, command, pipeline));
    }
    session.goal("resp-throttlecrab", |effort| {
        let other = services::throttlecrab()?;
        beside(effort, other, services::THROTTLECRAB, USUAL)
    });
    session.goal("resp-redis-cell", |effort| {
        beside(effort, services::redis_cell()?, REDIS_CELL, USUAL)
    });
    unpin_thread();
}

/// Compares a command of ours with that of another server. The pairs have both times for one command.
fn beside(
    effort: Effort,
    other: Other,
    command: &'static [&'static str],
    pipeline: usize,
) -> Result<Measured> {
    let Other { side: other, name } = other;
    let ours = services::ours(command)?;
    for side in [&other, &ours] {
        check(side)?;
        side.fill()?;
    }
    let (load, mut pairs) = (Load::of(pipeline), Pairs::default());
    take_turns(
        effort.count(PAIRS),
        || other.run(load),
        || ours.run(load),
        |other, ours| {
            pairs.add(other, ours);
            Ok(())
        },
    )?;
    Ok(pairs.ratio_to(&name, UNIT))
}

/// Returns an error if a limiter doesn't enforce its limit, or denies a usual command.
fn check(side: &Side) -> Result<()> {
    let Some(answers) = &side.answers else { return Ok(()) };
    for (units, expected) in [("1", answers.allowed), ("4000000", answers.denied)] {
        let command = format!("{} {units}", side.command.join(" "));
        let said = answer(side.served.address, &command)?;
        ensure!(said.starts_with(expected), "`{command}` is answered by {said:?}");
    }
    Ok(())
}
