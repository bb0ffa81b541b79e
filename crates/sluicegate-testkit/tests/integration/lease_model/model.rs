//! The parameters of a search: the protocol's numbers, the possible events, and the deliberate
//! defect.

/// The numbers of one search. They are small enough that a search covers every order of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Capacity of the bucket in units.
    pub(crate) capacity: i8,
    /// Price of a unit in ticks.
    pub(crate) price: i8,
    /// Ticks that drain per unit of time.
    pub(crate) refill: i8,
    /// Units of time between two points of the expiry grid.
    pub(crate) width: i8,
    /// Possible distances of an expiry, in points ahead.
    pub(crate) spans: &'static [i8],
    /// Number of slots of a state, at most [`SLOTS`].
    pub(crate) slots: usize,
    /// Maximum number of units per request.
    pub(crate) most: i8,
    /// Errors of the holders' clocks, in steps. There is one holder per entry.
    pub(crate) clocks: &'static [i8],
    /// Maximum number of concurrent calls per holder, at most [`CALLS`].
    pub(crate) calls: usize,
    /// Whether units may be refunded and the key may be reset.
    pub(crate) refunds: bool,
    /// Steps of true time per unit of time. Clocks show only whole units.
    pub(crate) grain: i8,
    /// The step of true time at which the search ends.
    pub(crate) horizon: i8,
    /// Number of steps for which each holder and its clock may stand still, once.
    pub(crate) pause: i8,
    /// Distance by which the server's clock may step, once.
    pub(crate) server_step: i8,
    /// Maximum distance of a state's stamp ahead of the clock; beyond it the state is restamped.
    pub(crate) max_clock_back: i8,
    /// The deliberate defect.
    pub(crate) defect: Option<Defect>,
}

/// Maximum number of slots of a state.
pub(crate) const SLOTS: usize = 2;
/// Maximum number of holders.
pub(crate) const HOLDERS: usize = 2;
/// Maximum number of concurrent calls of one holder.
pub(crate) const CALLS: usize = 2;

impl Model {
    /// Two holders with wrong clocks race for two units. A unit takes two units of time to drain,
    /// so units that drain too early admit too much before the search ends.
    pub(crate) const RACE: Self = Self {
        capacity: 2,
        price: 2,
        refill: 1,
        width: 2,
        spans: &[1, 2],
        slots: 2,
        most: 2,
        clocks: &[3, -4],
        calls: 1,
        refunds: false,
        grain: 1,
        horizon: 6,
        pause: 0,
        server_step: 0,
        max_clock_back: i8::MAX,
        defect: None,
    };

    /// The server's clock steps back by more than the maximum, so the state is restamped.
    pub(crate) const RESTAMP: Self = Self {
        clocks: &[0, 0],
        most: 1,
        server_step: -3,
        max_clock_back: 1,
        horizon: 4,
        ..Self::RACE
    };

    /// Clocks show every other step of true time: one changes at even steps, the other at odd ones.
    pub(crate) const COARSE: Self =
        Self { clocks: &[1], calls: 2, grain: 2, horizon: 10, ..Self::RACE };

    pub(crate) const fn with(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    /// Returns `true` if this is the deliberate defect.
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Returns `true` if the holders have equal clocks, so that they can't be told apart.
    pub(crate) fn are_alike(&self) -> bool {
        matches!(self.clocks, [one, other] if one == other)
    }

    /// Returns `true` if it matters when a state is brought to now.
    pub(crate) fn is_lazy(&self) -> bool {
        self.has(Defect::DrainInOnePiece) || self.has(Defect::ReportInThePast)
    }

    /// Returns the ticks of a full deficit.
    pub(crate) const fn full(&self) -> i8 {
        self.capacity * self.price
    }

    /// Returns the longest time from a grant to its expiry.
    pub(crate) fn longest_span(&self) -> i8 {
        self.spans.iter().max().map_or(0, |span| span * self.width)
    }
}

/// A mistake that an implementation could make. Each is a variant of the protocol that the search
/// must refute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Defect {
    /// The remaining units of a slot are credited at its expiry.
    CreditAtExpiry,
    /// Units drain while they are outstanding.
    DrainBelowOutstanding,
    /// The passed time drains as if the slots that expired in it had never been outstanding.
    DrainInOnePiece,
    /// Returned units are credited after their slot has expired.
    ReturnAfterExpiry,
    /// A slot is named by its index, which later slots share.
    SlotNamedByPlace,
    /// The remaining time counts from the reply, not from the request.
    ClockFromReply,
    /// The holder compares its own clock with the server's expiry.
    ClockOfServer,
    /// The holder spends until its clock has passed the end, instead of until it reaches the end.
    OneTooLong,
    /// A request without a reply is sent again with its report.
    ReportSentAgain,
    /// Returned units are destroyed when the reply arrives.
    DestroyedAtReply,
    /// A report is counted at the time of the last write instead of now.
    ReportInThePast,
    /// A slot is named only by its expiry, which is repeated when the clock steps back.
    NamesRecur,
    /// A restamp moves expiries to the grid point before their time, instead of after it.
    RestampRoundsDown,
    /// An expired slot stays outstanding.
    NeverExpires,
}
