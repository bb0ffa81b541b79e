//! One state of everything, and every step from it.

use crate::lease_model::holder::{Call, Granted, Holder};
use crate::lease_model::ideal::Ideal;
use crate::lease_model::marks::{Mark, Marks};
use crate::lease_model::model::{CALLS, Defect, HOLDERS, Model};
use crate::lease_model::server::{Ask, Refusal, Report, Server};

/// The state of everything at one instant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct World {
    /// True time in steps.
    pub(crate) now: i8,
    pub(crate) ideal: Ideal,
    /// Excess ticks that are permitted, because the protocol doesn't promise to survive their
    /// cause.
    pub(crate) excused: i8,
    /// Distance by which the server's clock has stepped.
    pub(crate) server_error: i8,
    pub(crate) server: Server,
    pub(crate) holders: [Holder; HOLDERS],
    pub(crate) calls: [[Option<Call>; CALLS]; HOLDERS],
}

/// A possible event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Time passes.
    Tick,
    /// A request without a lease is charged a unit.
    Exact,
    Refund,
    Reset,
    /// The server's clock steps.
    ServerClock,
    /// The key expires, which may happen when its state equals a fresh one.
    Vanish,
    /// A holder spends a unit of a lease.
    Spend {
        holder: usize,
        lease: usize,
    },
    Send {
        holder: usize,
        report: Option<Report>,
        ask: Option<Ask>,
    },
    /// A request arrives at the server, or a reply at the holder.
    Arrive {
        holder: usize,
        call: usize,
    },
    /// A request or a reply is lost.
    Lose {
        holder: usize,
        call: usize,
    },
    /// A holder crashes, and restarts without leases.
    Crash {
        holder: usize,
    },
    /// A holder stands still with its clock.
    Stand {
        holder: usize,
    },
}

impl World {
    pub(crate) fn new(model: &Model) -> Self {
        let error = |holder: usize| model.clocks.get(holder).copied().unwrap_or(0);
        Self {
            now: 0,
            ideal: Ideal::FRESH,
            excused: 0,
            server_error: 0,
            server: Server::FRESH,
            holders: [Holder::new(error(0)), Holder::new(error(1))],
            calls: [[None; CALLS]; HOLDERS],
        }
    }

    /// Returns the time that the server's clock shows.
    pub(crate) fn server_clock(&self, model: &Model) -> i8 {
        (self.now + self.server_error).div_euclid(model.grain)
    }

    /// Returns the server's state brought to now, without a change to the world.
    pub(crate) fn server_now(&self, model: &Model) -> Server {
        let mut server = self.server;
        server.bring(model, self.server_clock(model));
        server
    }

    /// Calls `visit` with every step that may happen. Some may be impossible.
    pub(crate) fn steps(&self, model: &Model, mut visit: impl FnMut(Step)) {
        visit(Step::Exact);
        for holder in 0..model.clocks.len() {
            self.steps_of(model, holder, &mut visit);
        }
        visit(Step::Tick);
        if model.refunds {
            visit(Step::Refund);
            visit(Step::Reset);
        }
        if model.server_step != 0 {
            visit(Step::ServerClock);
            visit(Step::Vanish);
        }
    }

    /// Returns the state after a step and the step's events, if it is possible.
    pub(crate) fn after(&self, model: &Model, step: Step) -> Option<(Self, Marks)> {
        let mut next = *self;
        let marks = match step {
            Step::Tick => next.tick(model)?,
            Step::Exact => {
                next.server = next.server_now(model);
                if !next.server.charge(model) {
                    return None;
                }
                next.ideal.charge(model.price);
                Marks::of(Mark::Admitted)
            }
            Step::Refund => {
                next.server = next.server_now(model);
                next.server.refund(model, 1);
                next.ideal.drain(model.price);
                Marks::of(Mark::Refunded)
            }
            Step::Reset => {
                next.server = next.server_now(model);
                next.server.reset(model);
                next.ideal.reset();
                Marks::of(Mark::Reset)
            }
            Step::ServerClock => next.step_server_clock(model)?,
            Step::Vanish => {
                if next.server == Server::FRESH || !next.server_now(model).is_fresh() {
                    return None;
                }
                next.server = Server::FRESH;
                Marks::of(Mark::Vanished)
            }
            Step::Spend { holder, lease } => next.spend(model, holder, lease)?,
            Step::Send { holder, report, ask } => next.send(model, holder, report, ask)?,
            Step::Arrive { holder, call } => next.arrive(model, holder, call)?,
            Step::Lose { holder, call } => {
                next.calls[holder][call].take()?;
                Marks::of(Mark::Lost)
            }
            Step::Crash { holder } => {
                let leases = &mut next.holders[holder].leases;
                leases.iter().flatten().next()?;
                *leases = [None; 2];
                Marks::of(Mark::Crashed)
            }
            Step::Stand { holder } => {
                let holder = &mut next.holders[holder];
                if model.pause == 0 || holder.has_stood {
                    return None;
                }
                (holder.standing, holder.has_stood) = (model.pause, true);
                Marks::of(Mark::Stood)
            }
        };
        next.simplify(model);
        Some((next, marks))
    }

    fn steps_of(&self, model: &Model, holder: usize, visit: &mut impl FnMut(Step)) {
        let Holder { leases, standing, .. } = self.holders[holder];
        for (call, under_way) in self.calls[holder].iter().enumerate() {
            if under_way.is_some() {
                visit(Step::Arrive { holder, call });
                visit(Step::Lose { holder, call });
            }
        }
        visit(Step::Crash { holder });
        if standing > 0 {
            return;
        }
        visit(Step::Stand { holder });
        for lease in (0..leases.len()).filter(|lease| leases[*lease].is_some()) {
            visit(Step::Spend { holder, lease });
        }
        let units =
            (1..=model.most).flat_map(|units| model.spans.iter().map(move |span| (units, *span)));
        let asks = units.map(|(units, span)| Some(Ask { units, span }));
        for ask in [None].into_iter().chain(asks) {
            if ask.is_some() {
                visit(Step::Send { holder, report: None, ask });
            }
            for report in self.holders[holder].reports() {
                visit(Step::Send { holder, report: Some(report), ask });
            }
        }
    }

    fn tick(&mut self, model: &Model) -> Option<Marks> {
        if self.now == model.horizon {
            return None;
        }
        let before = self.now.div_euclid(model.grain);
        self.now += 1;
        if self.now.div_euclid(model.grain) > before {
            self.ideal.drain(model.refill);
        }
        let mut marks = Marks::NONE;
        for (holder, calls) in self.holders.iter_mut().zip(&self.calls) {
            if holder.standing > 0 {
                holder.standing -= 1;
                holder.error -= 1;
            }
            holder.forget_what_is_over(model, self.now);
            let clock = holder.clock(model, self.now);
            if calls.iter().flatten().any(|call| call.is_over(model, clock)) {
                marks.add(Mark::OverBeforeReply);
            }
        }
        Some(marks)
    }

    fn step_server_clock(&mut self, model: &Model) -> Option<Marks> {
        if self.server_error != 0 {
            return None;
        }
        if model.server_step > 0 {
            self.excused = (model.refill * model.server_step).min(model.full());
        }
        self.server_error = model.server_step;
        Some(Marks::of(Mark::Stepped))
    }

    fn spend(&mut self, model: &Model, holder: usize, lease: usize) -> Option<Marks> {
        let server_clock = self.server_clock(model);
        let have_stood = self.holders.iter().filter(|holder| holder.has_stood);
        let drained = have_stood.map(|_| model.refill * model.pause).sum();
        let Holder { has_stood, leases, .. } = &mut self.holders[holder];
        let lease = leases[lease].as_mut().filter(|lease| lease.units > 0)?;
        lease.units -= 1;
        lease.unreported += 1;
        self.ideal.charge(model.price);
        // The clock that stood still let the lease outlive its slot.
        if *has_stood && lease.name.expiry <= server_clock {
            self.excused = (self.excused + model.price).min(drained);
            return Some(Marks::of(Mark::SpentTooLate));
        }
        Some(Marks::of(Mark::Spent))
    }

    fn send(
        &mut self,
        model: &Model,
        holder: usize,
        report: Option<Report>,
        ask: Option<Ask>,
    ) -> Option<Marks> {
        let free = self.calls[holder][..model.calls].iter().position(Option::is_none)?;
        let sent = self.holders[holder].clock(model, self.now);
        if let Some(report) = report {
            self.holders[holder].send(model, report);
        }
        self.calls[holder][free] = Some(Call::Request { sent, report, ask, is_again: false });
        Some(Marks::NONE)
    }

    fn arrive(&mut self, model: &Model, holder: usize, call: usize) -> Option<Marks> {
        match self.calls[holder][call].take()? {
            Call::Request { sent, report, ask, is_again } => {
                let (reply, marks) = self.serve(model, sent, report, ask, is_again);
                self.calls[holder][call] = reply;
                Some(marks)
            }
            Call::Reply { sent, granted, destroy } => {
                let holder = &mut self.holders[holder];
                if holder.standing > 0 {
                    return None;
                }
                if let Some(report) = destroy {
                    holder.destroy(report);
                }
                let Some(granted) = granted else { return Some(Marks::NONE) };
                let clock = holder.clock(model, self.now);
                let is_in_time = holder.receive(model, granted, sent, clock)?;
                Some(Marks::of(if is_in_time { Mark::Received } else { Mark::OverBeforeReply }))
            }
        }
    }

    /// Serves a request, and returns the reply.
    fn serve(
        &mut self,
        model: &Model,
        sent: i8,
        report: Option<Report>,
        ask: Option<Ask>,
        is_again: bool,
    ) -> (Option<Call>, Marks) {
        let mut marks = Marks::NONE;
        let mut server = self.server;
        let counts_in_the_past = model.has(Defect::ReportInThePast);
        let mut is_changed = false;
        if let Some(report) = report.filter(|_| counts_in_the_past) {
            is_changed |= server.report(model, report);
        }
        if server.bring(model, self.server_clock(model)) {
            is_changed = true;
            marks.add(Mark::Restamped);
        }
        if let Some(report) = report.filter(|_| !counts_in_the_past) {
            let is_counted = server.report(model, report);
            is_changed |= is_counted;
            let counted =
                if report.returned > 0 { Mark::ReturnCounted } else { Mark::SpentCounted };
            marks.add(if is_counted { counted } else { Mark::ReportIgnored });
        }
        let grant = ask.map(|ask| {
            let tag = self.new_tag(model, &server, server.expiry(model, ask));
            server.grant(model, ask, tag)
        });
        match grant {
            None => {}
            Some(Ok(grant)) => {
                is_changed = true;
                marks.add(if grant.is_shared { Mark::SharedGrant } else { Mark::Granted });
            }
            Some(Err(Refusal::Capacity)) => marks.add(Mark::NoCapacity),
            Some(Err(Refusal::Slots)) => marks.add(Mark::NoSlot),
        }
        // A refusal without a report writes nothing, not even the time.
        if is_changed {
            self.server = server;
        }
        if report.is_some() && model.has(Defect::ReportSentAgain) && !is_again {
            return (Some(Call::Request { sent, report, ask: None, is_again: true }), marks);
        }
        let granted = ask.zip(grant).and_then(|(ask, grant)| Some(Granted::new(ask, grant.ok()?)));
        let destroy = report.filter(|_| model.has(Defect::DestroyedAtReply));
        let says_something = granted.is_some() || destroy.is_some();
        (says_something.then_some(Call::Reply { sent, granted, destroy }), marks)
    }

    /// Returns the first tag that isn't known together with this expiry.
    fn new_tag(&self, model: &Model, server: &Server, expiry: i8) -> i8 {
        let leases = self.holders.iter().flat_map(|holder| holder.leases).flatten();
        let calls = self.calls.iter().flatten().flatten().filter_map(Call::name);
        let known = leases.map(|lease| lease.name).chain(calls).chain(server.names());
        let mut tags: Vec<i8> =
            known.filter(|name| name.expiry == expiry).map(|name| name.tag).collect();
        tags.sort_unstable();
        let is_free = |tag: &i8| tags.binary_search(tag).is_err();
        let mut all = 0..i8::MAX;
        if model.has(Defect::NamesRecur) { 0 } else { all.find(is_free).unwrap() }
    }

    /// Merges equivalent states, so that a search has fewer of them to visit.
    fn simplify(&mut self, model: &Model) {
        for (holder, calls) in self.holders.iter().zip(&mut self.calls) {
            let clock = holder.clock(model, self.now);
            for call in calls.iter_mut() {
                *call = call.and_then(|call| call.simplified(model, clock));
            }
            calls[..model.calls].sort_unstable();
        }
        // Holders with equal clocks differ only in their leases and calls.
        let is_out_of_order = (self.holders[1], self.calls[1]) < (self.holders[0], self.calls[0]);
        if model.are_alike() && is_out_of_order {
            self.holders.swap(0, 1);
            self.calls.swap(0, 1);
        }
        // If the clock can't step back any more, it doesn't matter when a state is brought to now.
        let may_step_back = model.server_step < 0 && self.server_error == 0;
        let is_behind = self.server_clock(model) < self.server.newest;
        if !may_step_back && !is_behind && !model.is_lazy() {
            self.server = self.server_now(model);
        }
    }
}
