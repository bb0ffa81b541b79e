//! The bounds that must hold in every state.

use std::fmt;

use crate::lease_model::holder::{Call, Lease, is_over};
use crate::lease_model::model::Model;
use crate::lease_model::server::{Name, Server};
use crate::lease_model::world::World;

/// A broken bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// An ideal bucket that is charged every unit when it is spent exceeds its capacity. So some
    /// interval has more units than the burst and the rate permit.
    Bound,
    /// The server's deficit is less than the ideal one plus all units that may be spent without a
    /// request.
    Deficit,
    /// A slot counts fewer outstanding units than its holders have or have yet to report.
    Outstanding,
    /// The bucket doesn't become full again with time.
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

/// Checks that no more was spent than any bucket permits. This is the guarantee to users.
pub(crate) fn bound(model: &Model, world: &World) -> Option<Broken> {
    (over(model, world) > world.excused).then_some(Broken::Bound)
}

/// Returns by how many ticks the spent units exceed every bucket.
pub(crate) fn over(model: &Model, world: &World) -> i8 {
    (world.ideal.deficit - model.full()).max(0)
}

/// Returns the first broken bound.
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

/// Checks the invariant from which the bound follows.
fn deficit_covers_what_is_spendable(model: &Model, world: &World, server: &Server) -> bool {
    let clock = world.server_clock(model);
    let mut spendable = 0;
    for claim in claims(model, world) {
        // For a clock that stood still, units spent too late are counted when they are spent.
        let is_excused = claim.has_stood && claim.name.expiry <= clock;
        if !is_excused {
            spendable += claim.spendable + claim.returned;
        }
    }
    world.ideal.deficit + model.price * spendable <= server.deficit + world.excused
}

/// Checks that slots cover their holders, if clocks are right to the step. Otherwise leases may
/// outlive their slots: by less than a unit of time where clocks show whole units.
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

/// Checks that the bucket is full after the last expiry and the time to drain.
fn capacity_comes_back(model: &Model, world: &World, mut server: Server) -> bool {
    let drain = (model.full() + model.refill - 1) / model.refill;
    // A key stands still until its newest time.
    let stands = server.newest - world.server_clock(model);
    let later = model.longest_span() + model.width + drain + stands.max(0);
    server.bring(model, world.server_clock(model) + later);
    server.deficit == 0 && server.outstanding() == 0
}

/// A holder's or a call's share of a slot.
struct Claim {
    name: Name,
    /// Units that may be spent without a request.
    spendable: i8,
    /// Spent units that may yet be reported to the server.
    spent: i8,
    /// Destroyed units whose return may yet be reported to the server.
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
