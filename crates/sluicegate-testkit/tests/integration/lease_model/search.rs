//! A breadth-first search, so that the first broken state is reached in the minimum number of
//! steps.

use std::fmt;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::lease_model::bounds::{Broken, over};
use crate::lease_model::holder::Call;
use crate::lease_model::marks::Marks;
use crate::lease_model::model::Model;
use crate::lease_model::world::{Step, World};

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    /// Number of different visited states.
    pub(crate) states: usize,
    /// All events that occurred.
    pub(crate) marks: Marks,
    /// Maximum excess of any interval, in ticks.
    pub(crate) most_over: i8,
    pub(crate) counterexample: Option<Counterexample>,
}

/// The shortest path to a state in which a bound is broken.
#[derive(Debug)]
pub(crate) struct Counterexample {
    pub(crate) broken: Broken,
    pub(crate) model: Model,
    pub(crate) steps: Vec<Step>,
}

/// Visits every reachable state, up to the first in which a bound is broken.
pub(crate) fn search(model: &Model, broken: impl Fn(&Model, &World) -> Option<Broken>) -> Found {
    // States in the order of their discovery, each with its predecessor and step.
    let mut visited: IndexMap<World, (usize, Step), FxBuildHasher> = IndexMap::default();
    visited.insert(World::new(model), (0, Step::Tick));
    let mut found = Found { states: 0, marks: Marks::NONE, most_over: 0, counterexample: None };
    let mut index = 0;
    while let Some((world, _)) = visited.get_index(index) {
        let world = *world;
        found.most_over = found.most_over.max(over(model, &world));
        if let Some(broken) = broken(model, &world) {
            let steps = path(&visited, index);
            found.counterexample = Some(Counterexample { broken, model: *model, steps });
            break;
        }
        world.steps(model, |step| {
            if let Some((next, marks)) = world.after(model, step) {
                found.marks = found.marks.and(marks);
                visited.entry(next).or_insert((index, step));
            }
        });
        index += 1;
    }
    found.states = visited.len();
    found
}

fn path(visited: &IndexMap<World, (usize, Step), FxBuildHasher>, mut index: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while index > 0 {
        let (before, step) = visited[index];
        steps.push(step);
        index = before;
    }
    steps.reverse();
    steps
}

impl fmt::Display for Counterexample {
    /// Writes a line per step: the time, the actor, the event, and the server and the ideal bucket
    /// afterwards.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = &self.model;
        let Model { capacity, price, refill, .. } = model;
        writeln!(f, "{capacity} units, {price} ticks each; {refill} drain in a unit of time")?;
        if model.are_alike() {
            writeln!(f, "(A and B may change their names from line to line: they are alike)")?;
        }
        let mut world = World::new(model);
        for step in &self.steps {
            let at = world.now;
            let Some((next, marks)) = world.after(model, *step) else { return Err(fmt::Error) };
            let what = describe(&world, *step);
            world = next;
            let server = world.server_now(model);
            let slots: Vec<String> = server
                .live_slots()
                .map(|slot| format!("{} until {}", slot.units, slot.expiry))
                .collect();
            let (deficit, ideal) = (server.deficit, world.ideal.deficit);
            let marks = if marks == Marks::NONE { String::new() } else { format!(": {marks}") };
            let line = format!("{what}{marks}");
            writeln!(
                f,
                "{at:3}  {line:<88}  deficit {deficit:2}  ideal {ideal:2}  [{}]",
                slots.join(", ")
            )?;
        }
        write!(f, "     {}", self.broken)
    }
}

fn describe(world: &World, step: Step) -> String {
    let name = |holder: usize| ["A", "B"][holder];
    match step {
        Step::Tick => format!("time passes, to {}", world.now + 1),
        Step::Exact => "somebody asks for 1 unit".to_owned(),
        Step::Refund => "1 unit is refunded".to_owned(),
        Step::Reset => "the key is reset".to_owned(),
        Step::ServerClock => "the server's clock".to_owned(),
        Step::Vanish => "the key".to_owned(),
        Step::Spend { holder, .. } => format!("{} spends 1 unit of its lease", name(holder)),
        Step::Send { holder, report, ask } => {
            let report = report.map(|report| {
                let (spent, returned, expiry) = (report.spent, report.returned, report.name.expiry);
                format!("says of slot {expiry}: {spent} spent, {returned} returned")
            });
            let ask =
                ask.map(|ask| format!("asks for {} units for {} points", ask.units, ask.span));
            let said: Vec<String> = report.into_iter().chain(ask).collect();
            format!("{} {}", name(holder), said.join(" and "))
        }
        Step::Arrive { holder, call } => match world.calls[holder][call] {
            Some(Call::Reply { .. }) => format!("{} gets a reply", name(holder)),
            _ => format!("the server gets a request of {}", name(holder)),
        },
        Step::Lose { holder, .. } => format!("a message from or to {}", name(holder)),
        Step::Crash { holder } | Step::Stand { holder } => name(holder).to_owned(),
    }
}
