//! What one search looks at: the numbers of the protocol, what may happen, and what is wrong on purpose.

/// The numbers of one search. They are so small that a search sees every order of what may happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Units that the bucket holds.
    pub(crate) capacity: i8,
    /// Ticks that one unit costs.
    pub(crate) price: i8,
    /// Ticks that drain in one unit of time.
    pub(crate) refill: i8,
    /// Units of time between two points of the grid of expiries.
    pub(crate) width: i8,
    /// How many points ahead an expiry may be.
    pub(crate) spans: &'static [i8],
    /// How many slots a state has: at most [`SLOTS`].
    pub(crate) slots: usize,
    /// The most units that are asked for at once.
    pub(crate) most: i8,
    /// By how much the clock of each holder is wrong, in steps: as many as there are holders.
    pub(crate) clocks: &'static [i8],
    /// How many calls of one holder may be under way at once: at most [`CALLS`].
    pub(crate) calls: usize,
    /// Whether units may be refunded, and the key be reset.
    pub(crate) refunds: bool,
    /// Steps of true time in one unit of time: clocks show whole units alone.
    pub(crate) grain: i8,
    /// The search ends at this step of true time.
    pub(crate) horizon: i8,
    /// For how many steps each holder may stand still, once, with its clock.
    pub(crate) pause: i8,
    /// By how much the server's clock may step, once.
    pub(crate) server_step: i8,
    /// A state that is stamped further ahead than this is restamped.
    pub(crate) max_clock_back: i8,
    /// What is wrong on purpose.
    pub(crate) defect: Option<Defect>,
}

/// The most slots of a state.
pub(crate) const SLOTS: usize = 2;
/// The most holders.
pub(crate) const HOLDERS: usize = 2;
/// The most calls of one holder that are under way at once.
pub(crate) const CALLS: usize = 2;

impl Model {
    /// Two holders, whose clocks are wrong, race for two units. A unit takes two units of time to
    /// drain, so what drains too early admits too much before the search ends.
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

    /// The server's clock steps back by more than it may: the state is restamped.
    pub(crate) const RESTAMP: Self = Self {
        clocks: &[0, 0],
        most: 1,
        server_step: -3,
        max_clock_back: 1,
        horizon: 4,
        ..Self::RACE
    };

    /// Clocks show every other step of true time, one at even steps and one at odd ones.
    pub(crate) const COARSE: Self =
        Self { clocks: &[1], calls: 2, grain: 2, horizon: 10, ..Self::RACE };

    pub(crate) const fn with(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }

    /// Whether this is what is wrong.
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Whether the holders have equal clocks: then nothing tells one from the other.
    pub(crate) fn are_alike(&self) -> bool {
        matches!(self.clocks, [one, other] if one == other)
    }

    /// Whether it makes a difference when a state is brought to now.
    pub(crate) fn is_lazy(&self) -> bool {
        self.has(Defect::DrainInOnePiece) || self.has(Defect::ReportInThePast)
    }

    /// What fills the bucket, in ticks.
    pub(crate) const fn full(&self) -> i8 {
        self.capacity * self.price
    }

    /// The longest time from a grant to its expiry.
    pub(crate) fn longest_span(&self) -> i8 {
        self.spans.iter().max().map_or(0, |span| span * self.width)
    }
}

/// A mistake that an implementation could make. Each is a variant of the protocol that the search
/// must refute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Defect {
    /// What a slot has left when it expires is credited.
    CreditAtExpiry,
    /// Units drain while they are outstanding.
    DrainBelowOutstanding,
    /// Time passed is drained as if what has expired in it had been outstanding for none of it.
    DrainInOnePiece,
    /// Units given back are credited after their slot has expired.
    ReturnAfterExpiry,
    /// A slot is named by its place, which later slots have too.
    SlotNamedByPlace,
    /// The time that is left counts from the reply and not from the request.
    ClockFromReply,
    /// The holder compares its own clock with the server's expiry.
    ClockOfServer,
    /// The holder spends until its clock has passed the end, and not until it has reached it.
    OneTooLong,
    /// A request whose reply didn't come is sent again with its report.
    ReportSentAgain,
    /// Units that are given back are destroyed when the reply comes.
    DestroyedAtReply,
    /// A report counts from the time of the last write and not from now.
    ReportInThePast,
    /// A slot is named by its expiry alone, which comes again when the clock steps back.
    NamesRecur,
    /// A restamp pulls expiries to the point of the grid before their time and not after it.
    RestampRoundsDown,
    /// A slot that has expired stays outstanding.
    NeverExpires,
}
