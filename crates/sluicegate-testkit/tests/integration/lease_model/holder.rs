//! The holder's side of the protocol: its leases and its calls that are under way.

use crate::lease_model::model::{Defect, Model};
use crate::lease_model::server::{Ask, Grant, Name, Report};

/// A process that has leases.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Holder {
    /// By how much its clock is wrong, in steps of true time.
    pub(crate) error: i8,
    /// For how many steps it stands still yet.
    pub(crate) standing: i8,
    /// Whether it has stood still.
    pub(crate) has_stood: bool,
    pub(crate) leases: [Option<Lease>; 2],
}

/// Units of a slot that a holder may spend without asking.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Lease {
    pub(crate) name: Name,
    /// By the holder's clock.
    pub(crate) until: i8,
    pub(crate) units: i8,
    /// Units spent and not yet reported.
    pub(crate) unreported: i8,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Call {
    Request {
        /// By the holder's clock.
        sent: i8,
        report: Option<Report>,
        ask: Option<Ask>,
        /// Whether it has been to the server before, which is a defect.
        is_again: bool,
    },
    Reply {
        /// When its request was sent.
        sent: i8,
        granted: Option<Granted>,
        /// What has to be destroyed now, which is a defect.
        destroy: Option<Report>,
    },
}

/// What a reply says of a grant.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Granted {
    pub(crate) name: Name,
    pub(crate) units: i8,
    pub(crate) left: i8,
}

impl Call {
    /// The same call without what makes no difference any more; nothing, when none of it does.
    pub(crate) fn simplified(self, model: &Model, clock: i8) -> Option<Self> {
        match self {
            Self::Request { report, ask: None, is_again, .. } => {
                Some(Self::Request { sent: 0, report, ask: None, is_again })
            }
            _ => (!self.is_over(model, clock)).then_some(self),
        }
    }

    /// The slot that it is about.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Self::Request { report, .. } => report.map(|report| report.name),
            Self::Reply { granted, .. } => granted.map(|granted| granted.name),
        }
    }

    /// Whether it is a reply whose lease has ended before it came.
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

    /// When the lease ends, by the clock of a holder that shows `now`.
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

/// Whether nothing may be spent any more, when the holder's clock shows this.
pub(crate) fn is_over(model: &Model, until: i8, clock: i8) -> bool {
    if model.has(Defect::OneTooLong) { clock > until } else { clock >= until }
}

impl Holder {
    pub(crate) const fn new(error: i8) -> Self {
        Self { error, standing: 0, has_stood: false, leases: [None; 2] }
    }

    /// What its clock shows at a step of true time.
    pub(crate) fn clock(&self, model: &Model, now: i8) -> i8 {
        (now + self.error).div_euclid(model.grain)
    }

    /// Every report that it could send.
    pub(crate) fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.leases.iter().flatten().flat_map(|lease| {
            let Lease { name, unreported: spent, units, .. } = *lease;
            let reports = (0..=units).map(move |returned| Report { name, spent, returned });
            reports.filter(|report| report.spent + report.returned > 0)
        })
    }

    /// Takes note of a report that is about to be sent: its units are nobody's from here on.
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

    /// Adds what was granted, unless it is over; `None` if it has no room to note it.
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
            // Either end is right: both are before the slot's.
            lease.until = lease.until.max(until);
        } else {
            let free = leases.iter_mut().find(|lease| lease.is_none())?;
            *free = Some(Lease { name, until, units, unreported: 0 });
        }
        self.leases.sort_unstable();
        Some(true)
    }

    /// Destroys units only now that the server has counted them: a defect.
    pub(crate) fn destroy(&mut self, report: Report) {
        for lease in self.leases.iter_mut().flatten() {
            if lease.name == report.name {
                lease.units = (lease.units - report.returned).max(0);
            }
        }
        self.forget_empty();
    }

    /// Forgets leases that are over. What they had to report is reported by calls under way, which
    /// may arrive at any time, or never.
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
