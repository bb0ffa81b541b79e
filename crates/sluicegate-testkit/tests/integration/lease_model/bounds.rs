//! What must hold in every state.

use std::fmt;

use crate::lease_model::holder::{Call, Lease, is_over};
use crate::lease_model::model::Model;
use crate::lease_model::server::{Name, Server};
use crate::lease_model::world::World;

/// What doesn't hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// An ideal bucket that is charged every unit when it is spent holds more than its capacity:
    /// some interval has more than the burst and what flows in.
    Bound,
    /// The server's deficit is less than the ideal one and all that may be spent without asking.
    Deficit,
    /// A slot counts fewer units as outstanding than holders have of it, or have yet to report.
    Outstanding,
    /// With time the bucket isn't as good as new.
    Recovery,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bound => "some interval has more than burst + rate × length",
            Self::Deficit => "the deficit is less than ideal + price × spendable",
            Self::Outstanding => "a slot counts less than its holders have",
            Self::Recovery => "the full capacity doesn't come back",
        })
    }
}

/// Whether more was spent than any bucket allows. This is what users are promised.
pub(crate) fn bound(model: &Model, world: &World) -> Option<Broken> {
    (over(model, world) > world.excused).then_some(Broken::Bound)
}

/// How many ticks more were spent than any bucket allows.
pub(crate) fn over(model: &Model, world: &World) -> i8 {
    (world.ideal.deficit - model.full()).max(0)
}

/// The first of all that doesn't hold.
pub(crate) fn all(model: &Model, world: &World) -> Option<Broken> {
    let server = world.server_now(model);
    let checks = [
        (Broken::Bound, bound(model, world).is_none()),
        (Broken::Deficit, deficit_covers_what_is_spendable(model, world, &server)),
        (Broken::Outstanding, slots_cover_their_holders(model, world, &server)),
        (Broken::Recovery, capacity_comes_back(model, world, server)),
    ];
    checks.into_iter().find_map(|(broken, holds)| (!holds).then_some(broken))
}

/// The invariant from which the bound follows.
fn deficit_covers_what_is_spendable(model: &Model, world: &World, server: &Server) -> bool {
    let clock = world.server_clock(model);
    let mut spendable = 0;
    for claim in claims(model, world) {
        // A clock that stood still: what is spent too late is counted when it is spent.
        let is_excused = claim.has_stood && claim.name.expiry <= clock;
        if !is_excused {
            spendable += claim.spendable + claim.returned;
        }
    }
    world.ideal.deficit + model.price * spendable <= server.deficit + world.excused
}

/// Only where clocks are right to the step: otherwise leases may outlive their slots, by less than
/// a unit of time where clocks show whole units.
fn slots_cover_their_holders(model: &Model, world: &World, server: &Server) -> bool {
    if model.grain > 1 || model.pause > 0 || model.server_step > 0 {
        return true;
    }
    let claims: Vec<Claim> = claims(model, world).collect();
    let spendable: i8 = claims.iter().map(|claim| claim.spendable).sum();
    let slots = claims.iter().filter_map(|claim| Some((claim.name, server.slot(claim.name)?)));
    let all_are_covered = slots.into_iter().all(|(name, slot)| {
        let same = claims.iter().filter(|claim| claim.name == name);
        same.map(|claim| claim.spendable + claim.spent + claim.returned).sum::<i8>() <= slot.units
    });
    all_are_covered && spendable <= server.outstanding()
}

/// After the last expiry, and what it takes to drain then.
fn capacity_comes_back(model: &Model, world: &World, mut server: Server) -> bool {
    let drain = (model.full() + model.refill - 1) / model.refill;
    // A key stands still until its newest time.
    let stands = server.newest - world.server_clock(model);
    let later = model.longest_span() + model.width + drain + stands.max(0);
    server.bring(model, world.server_clock(model) + later);
    server.deficit == 0 && server.outstanding() == 0
}

/// What a holder or a call has of a slot.
struct Claim {
    name: Name,
    /// Units that may be spent without asking.
    spendable: i8,
    /// Units whose spending the server may yet hear of.
    spent: i8,
    /// Units destroyed whose return the server may yet hear of.
    returned: i8,
    has_stood: bool,
}

fn claims<'a>(model: &'a Model, world: &'a World) -> impl Iterator<Item = Claim> + 'a {
    (0..model.clocks.len()).flat_map(move |holder| {
        let at = &world.holders[holder];
        let (has_stood, clock) = (at.has_stood, at.clock(model, world.now));
        let leases = at.leases.iter().flatten().map(move |lease: &Lease| Claim {
            name: lease.name,
            spendable: lease.units,
            spent: lease.unreported,
            returned: 0,
            has_stood,
        });
        let server = world.server_now(model);
        let calls = world.calls[holder].iter().flatten().filter_map(move |call| match call {
            Call::Request { report, .. } => report.map(|report| {
                let is_live = server.slot(report.name).is_some();
                Claim {
                    name: report.name,
                    spendable: 0,
                    spent: report.spent,
                    returned: if is_live { report.returned } else { 0 },
                    has_stood,
                }
            }),
            Call::Reply { sent, granted, .. } => granted.and_then(|granted| {
                let until = granted.until(model, *sent, clock);
                (!is_over(model, until, clock)).then_some(Claim {
                    name: granted.name,
                    spendable: granted.units,
                    spent: 0,
                    returned: 0,
                    has_stood,
                })
            }),
        });
        leases.chain(calls)
    })
}
