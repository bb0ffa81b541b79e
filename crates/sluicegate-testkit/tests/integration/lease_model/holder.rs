//! The holder's side of the protocol: its leases and its calls in flight.

use crate::lease_model::model::{Defect, Model};
use crate::lease_model::server::{Ask, Grant, Name, Report};

/// A process that has leases.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Holder {
    /// Error of its clock, in steps of true time.
    pub(crate) error: i8,
    /// Number of steps for which it still stands still.
    pub(crate) standing: i8,
    /// Whether it has stood still.
    pub(crate) has_stood: bool,
    pub(crate) leases: [Option<Lease>; 2],
}

/// Units of a slot that a holder may spend without a request.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Lease {
    pub(crate) name: Name,
    /// The end, by the holder's clock.
    pub(crate) until: i8,
    pub(crate) units: i8,
    /// Units spent and not yet reported.
    pub(crate) unreported: i8,
}

/// A call in flight.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Call {
    Request {
        /// The time by the holder's clock.
        sent: i8,
        report: Option<Report>,
        ask: Option<Ask>,
        /// Whether it has reached the server before, which is a defect.
        is_again: bool,
    },
    Reply {
        /// The time at which its request was sent.
        sent: i8,
        granted: Option<Granted>,
        /// The units to destroy now, which is a defect.
        destroy: Option<Report>,
    },
}

/// The grant in a reply.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Granted {
    pub(crate) name: Name,
    pub(crate) units: i8,
    pub(crate) left: i8,
}

impl Call {
    /// Returns the call without data that has no effect any more, or `None` if all of it has none.
    pub(crate) fn simplified(self, model: &Model, clock: i8) -> Option<Self> {
        match self {
            Self::Request { report, ask: None, is_again, .. } => {
                Some(Self::Request { sent: 0, report, ask: None, is_again })
            }
            _ => (!self.is_over(model, clock)).then_some(self),
        }
    }

    /// Returns the slot of the call.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Self::Request { report, .. } => report.map(|report| report.name),
            Self::Reply { granted, .. } => granted.map(|granted| granted.name),
        }
    }

    /// Returns `true` for a reply whose lease has ended before it arrived.
    pub(crate) fn is_over(&self, model: &Model, clock: i8) -> bool {
        match self {
            Self::Reply { sent, granted: Some(granted), destroy: None } => {
                is_over(model, granted.until(model, *sent, clock), clock)
            }
            _ => false,
        }
    }
}

impl Granted {
    pub(crate) fn new(ask: Ask, grant: Grant) -> Self {
        Self { name: grant.name, units: ask.units, left: grant.left }
    }

    /// Returns the end of the lease, by the clock of a holder that shows `now`.
    pub(crate) fn until(&self, model: &Model, sent: i8, now: i8) -> i8 {
        match model.defect {
            Some(Defect::ClockFromReply) => now + self.left,
            Some(Defect::ClockOfServer) => self.name.expiry,
            _ => sent + self.left,
        }
    }
}

impl Lease {
    pub(crate) fn is_over(&self, model: &Model, clock: i8) -> bool {
        is_over(model, self.until, clock)
    }
}

/// Returns `true` if no unit may be spent when the holder's clock shows `clock`.
pub(crate) fn is_over(model: &Model, until: i8, clock: i8) -> bool {
    if model.has(Defect::OneTooLong) { clock > until } else { clock >= until }
}

impl Holder {
    pub(crate) const fn new(error: i8) -> Self {
        Self { error, standing: 0, has_stood: false, leases: [None; 2] }
    }

    /// Returns the time that its clock shows at a step of true time.
    pub(crate) fn clock(&self, model: &Model, now: i8) -> i8 {
        (now + self.error).div_euclid(model.grain)
    }

    /// Returns every report that it could send.
    pub(crate) fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.leases.iter().flatten().flat_map(|lease| {
            let Lease { name, unreported: spent, units, .. } = *lease;
            let reports = (0..=units).map(move |returned| Report { name, spent, returned });
            reports.filter(|report| report.spent + report.returned > 0)
        })
    }

    /// Records a report that is about to be sent. From then on its units have no owner.
    pub(crate) fn send(&mut self, model: &Model, report: Report) {
        for lease in self.leases.iter_mut().flatten() {
            if lease.name == report.name {
                lease.unreported -= report.spent;
                if !model.has(Defect::DestroyedAtReply) {
                    lease.units -= report.returned;
                }
            }
        }
        self.forget_empty();
    }

    /// Adds a grant, unless it has ended. Returns `None` if there is no free slot for it.
    pub(crate) fn receive(
        &mut self,
        model: &Model,
        granted: Granted,
        sent: i8,
        clock: i8,
    ) -> Option<bool> {
        let until = granted.until(model, sent, clock);
        if is_over(model, until, clock) {
            return Some(false);
        }
        let Granted { name, units, .. } = granted;
        let leases = &mut self.leases;
        if let Some(lease) = leases.iter_mut().flatten().find(|lease| lease.name == name) {
            lease.units += units;
            // Either end is correct: both are before the slot's.
            lease.until = lease.until.max(until);
        } else {
            let free = leases.iter_mut().find(|lease| lease.is_none())?;
            *free = Some(Lease { name, until, units, unreported: 0 });
        }
        self.leases.sort_unstable();
        Some(true)
    }

    /// Destroys units only after the server has counted them, which is a defect.
    pub(crate) fn destroy(&mut self, report: Report) {
        for lease in self.leases.iter_mut().flatten() {
            if lease.name == report.name {
                lease.units = (lease.units - report.returned).max(0);
            }
        }
        self.forget_empty();
    }

    /// Removes leases that have ended. Calls in flight contain their reports, which may arrive at
    /// any time, or never.
    pub(crate) fn forget_what_is_over(&mut self, model: &Model, now: i8) {
        let clock = self.clock(model, now);
        for lease in &mut self.leases {
            *lease = lease.filter(|lease| !lease.is_over(model, clock));
        }
        self.leases.sort_unstable();
    }

    fn forget_empty(&mut self) {
        for lease in &mut self.leases {
            *lease = lease.filter(|lease| lease.units + lease.unreported > 0);
        }
        self.leases.sort_unstable();
    }
}
