//! The fixed window: one counter that restarts with each window.

use std::fmt;
use std::time::Duration;

use super::{
    Charge, FixedKind, Kernel, Layout, Leases, NEVER, Now, Overflow, Profile, Quota, Report,
    SpecFormat, Taken, Verdict,
};
use crate::algorithm::{Algorithm, Window};
use crate::calendar::{Boundary, CalendarUnit, CalendarWindow};
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, check_limit};
use crate::rate::write_quota;
use crate::spec::{Amount, Grammar, OptionWord, Problem, Reader};
use crate::time::{Span, Timestamp, check_window};

/// The rule of a fixed window.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct FixedWindow {
    limit: u64,
    anchor: Anchor,
}

/// The start of windows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Anchor {
    /// At the first admitted request after the previous window; the length in µs.
    FirstAdmitted(u64),
    /// At whole multiples of the length (µs) since the epoch.
    Aligned(u64),
    /// At the days, weeks, months or years of a time zone.
    Calendar(CalendarWindow),
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The start of the window, in microseconds since the epoch. For a calendar across zones, the
    /// first local date of the window, in days since 1970-01-01.
    pub start: u64,
    /// The units used in the window.
    pub used: u64,
}

/// A state at the evaluation time.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    pub(super) at: u64,
    newest: u64,
    window: Extent,
    /// The end of the used units, in microseconds since the epoch. It is the end of the window, or of
    /// a later date that the key has begun in another zone.
    until: u64,
    used: u64,
    /// Whether the state belongs to this window.
    open: bool,
}

/// A window: its first instant and the first one after it, in microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    end: u64,
    /// The [start](State::start) in states of the window.
    name: u64,
}

impl Extent {
    const fn new(start: u64, length: u64) -> Self {
        Self { start, end: start + length, name: start }
    }
}

impl FixedWindow {
    /// The longest possible calendar window, the date after a request's, and
    /// [`Self::ZONES_APART`], in µs.
    const CALENDAR_RETENTION: u64 = (366 + 1 + Self::ZONES_APART) * Span::DAY.as_micros();

    /// The days after the last date of a window until it has ended in every zone. One day is for a
    /// window that begins at 23:59, and one for zones behind UTC.
    const ZONES_APART: u64 = 2;

    /// The kind of an entry with a state that has leased units.
    pub const LEASED_KIND: u8 = 0x83;

    pub(super) fn new(limit: u64, window: &Window) -> Result<Self, PolicyError> {
        let limit = check_limit(limit)?;
        let anchor = match window {
            Window::FirstAdmitted(length) => Anchor::FirstAdmitted(check_window(*length)?),
            Window::Aligned(length) => Anchor::Aligned(check_window(*length)?),
            Window::Calendar(calendar) => Anchor::Calendar(calendar.clone()),
        };
        Ok(Self { limit, anchor })
    }

    /// Returns the start of windows.
    #[must_use]
    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Returns the boundaries of a calendar window around `now` (µs since the epoch), for a store
    /// without a zone database.
    ///
    /// Each is an instant, and the [start](State::start) in states of the window that begins then.
    /// `None` for other windows.
    #[must_use]
    pub fn boundaries(&self, now: u64) -> Option<[(u64, u64); 4]> {
        match &self.anchor {
            Anchor::Calendar(calendar) => {
                let boundaries = calendar.boundaries(Timestamp::from_micros_clamped(now));
                Some(boundaries.map(|boundary| (boundary.at.as_micros(), name(calendar, boundary))))
            }
            Anchor::FirstAdmitted(_) | Anchor::Aligned(_) => None,
        }
    }

    /// Returns how long after its first date the states of a calendar across zones are kept, in µs.
    ///
    /// They are kept until the window has ended in every zone. `None` for other windows.
    #[must_use]
    pub fn kept_across_zones(&self) -> Option<u64> {
        self.across_zones().map(|calendar| {
            (calendar.unit().longest_days() + Self::ZONES_APART) * Span::DAY.as_micros()
        })
    }

    const fn across_zones(&self) -> Option<&CalendarWindow> {
        match &self.anchor {
            Anchor::Calendar(calendar) if calendar.is_across_zones() => Some(calendar),
            _ => None,
        }
    }

    /// Returns the window that a request admitted at `at` would open or fall into, without a state.
    fn window_at(&self, at: u64) -> Extent {
        match &self.anchor {
            Anchor::FirstAdmitted(length) => Extent::new(at, *length),
            Anchor::Aligned(length) => Extent::new(at - at % length, *length),
            Anchor::Calendar(calendar) => {
                let [start, end] = calendar.around(Timestamp::from_micros_clamped(at));
                let name = name(calendar, start);
                Extent { start: start.at.as_micros(), end: end.at.as_micros(), name }
            }
        }
    }

    /// Returns when a state across zones can be dropped, in µs since the epoch.
    const fn ends_everywhere(date: u64, kept: u64) -> u64 {
        date.saturating_mul(Span::DAY.as_micros()).saturating_add(kept)
    }
}

impl Kernel for FixedWindow {
    const FIXED: FixedKind = FixedKind { kind: 0x03, numbers: 3 };

    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|a, b| {
        a.anchor == b.anchor
            || a.across_zones().zip(b.across_zones()).is_some_and(|(a, b)| a.shares_states_with(b))
    }];

    const LEASES: Option<Leases<Self>> = Some(Leases {
        kind: Self::LEASED_KIND,
        held: None,
        drains: false,
        pin: |_, balance, units| balance.set(balance.used.max(units)),
        used_beyond: |_, balance, units| balance.used.saturating_sub(units),
        // A lease ends with its window.
        end: |balance| balance.window.end,
    });

    type State = State;
    type Balance = Balance;

    fn profile(&self) -> Profile {
        Profile {
            limit: self.limit,
            retention: match self.anchor {
                Anchor::FirstAdmitted(length) | Anchor::Aligned(length) => length,
                Anchor::Calendar(_) => Self::CALENDAR_RETENTION,
            },
            layout: Layout::Fixed(Self::FIXED),
            flow: None,
            can_reserve: false,
            is_shaper: false,
            can_lease: true,
        }
    }

    fn balance(&self, state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        let now_at = now.micros;
        let Some(mut state) = state else {
            let window = self.window_at(now_at);
            let (at, until) = (now_at, window.end);
            return Ok((Balance { at, newest: at, window, until, used: 0, open: false }, false));
        };
        let restamped = now.is_exceeded_by(state.newest);
        if restamped {
            state.newest = now_at;
            // Units from the future count as made now.
            state.start = state.start.min(self.window_at(now_at).name);
        }
        let at = now_at.max(state.newest);
        let mut window = match self.anchor {
            Anchor::FirstAdmitted(length) if at < state.start + length => {
                Extent::new(state.start, length)
            }
            _ => self.window_at(at),
        };
        let mut until = window.end;
        if let Some(calendar) = self.across_zones() {
            state.start = plausible(state.start, state.newest);
            if state.start > window.name {
                window.name = state.start;
                until = calendar.end_of(state.start).as_micros();
            }
        }
        let open = state.start == window.name;
        let used = if open { state.used } else { 0 };
        Ok((Balance { at, newest: state.newest, window, until, used, open }, restamped))
    }

    fn judge(&self, balance: &Balance, cost: u64, _within: Option<u64>) -> Verdict {
        if cost > self.limit {
            Verdict::Refuse { retry: None }
        } else if balance.used + cost <= self.limit {
            Verdict::Pass { wait: 0 }
        } else {
            Verdict::Refuse { retry: Some(balance.until - balance.at) }
        }
    }

    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        let used = match charge {
            Charge::Admitted { cost, .. } => balance.used + cost,
            Charge::Denied { cost } => {
                balance.used.max((balance.used + cost.min(self.limit)).min(self.limit))
            }
            Charge::Counted { cost } => balance.used.saturating_add(cost).min(MAX_EXACT),
        };
        if used > MAX_EXACT {
            return Err(Overflow);
        }
        balance.set(used);
        Ok(())
    }

    /// Gives units back to the current window.
    fn refund(&self, balance: &mut Balance, units: u64) -> Option<u64> {
        let given = units.min(balance.used);
        balance.used -= given;
        balance.open.then_some(given)
    }

    /// Gives units back that were taken in the current window.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        let gives = (balance.window.start..=balance.at).contains(&taken.at);
        if gives { self.refund(balance, taken.units) } else { None }
    }

    fn report(&self, balance: &Balance) -> Report {
        let fresh = match self.anchor {
            // An open window stays open even if all of its units were refunded.
            Anchor::FirstAdmitted(_) => !balance.open,
            // So that another zone doesn't forget a date that the key has begun.
            Anchor::Calendar(_) if self.across_zones().is_some() => !balance.open,
            Anchor::Aligned(_) | Anchor::Calendar(_) => balance.used == 0,
        };
        Report {
            evaluated_at: balance.at,
            remaining: self.limit.saturating_sub(balance.used),
            reset: if fresh { 0 } else { balance.until - balance.at },
            used: balance.used,
            ..Report::default()
        }
    }

    fn keep_for(&self, balance: &Balance) -> u64 {
        match self.kept_across_zones() {
            Some(kept) => {
                Self::ends_everywhere(balance.window.name, kept).saturating_sub(balance.at)
            }
            None => self.report(balance).reset,
        }
    }

    fn expires_in(&self, state: &State, now: Now) -> u64 {
        if let Some(kept) = self.kept_across_zones() {
            // The same time in every zone, because the key can move to any of them.
            let newest = if now.is_exceeded_by(state.newest) { now.micros } else { state.newest };
            let date = plausible(state.start, newest);
            return Self::ends_everywhere(date, kept).saturating_sub(now.micros);
        }
        if let Anchor::Calendar(_) = self.anchor
            && state.used > 0
            && state.newest.saturating_add(Span::DAY.as_micros() / 2) > now.micros
        {
            // A calendar lookup takes a thousand times longer than anything else here.
            return state.newest.saturating_add(Span::DAY.as_micros()).saturating_sub(now.micros);
        }
        self.balance(Some(*state), now).map_or(NEVER, |(balance, _)| {
            (balance.at - now.micros).saturating_add(self.keep_for(&balance))
        })
    }

    fn used(&self, state: &State, now: Now) -> u64 {
        self.balance(Some(*state), now).map_or(NEVER, |(balance, _)| balance.used)
    }

    fn state(&self, balance: Balance) -> Option<State> {
        let Balance { newest, window, used, open, .. } = balance;
        open.then_some(State { newest, start: window.name, used })
    }

    fn newest(state: &State) -> u64 {
        state.newest
    }

    fn write(state: &State, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.start, state.used]);
    }

    fn read(numbers: &[u64]) -> Option<State> {
        match *numbers {
            [newest, start, used] if start <= newest => Some(State { newest, start, used }),
            _ => None,
        }
    }
}

impl SpecFormat for FixedWindow {
    const GRAMMARS: &'static [Grammar] = &[Grammar {
        word: "fixed_window",
        amount: Amount::Rate,
        options: &[
            OptionWord::flag("aligned"),
            OptionWord::value("calendar", "ZONE", "Asia/Tokyo"),
            OptionWord::value("start", "WEEKDAY", "sunday"),
            OptionWord::value("from", "DAY", "15"),
            OptionWord::value("at", "TIME", "06:00"),
            OptionWord::flag("across_zones"),
            OptionWord::flag("count_denied"),
        ],
        example: "fixed_window 1000/h",
        read: |spec| Ok(Algorithm::FixedWindow { limit: spec.count()?, window: window(spec)? }),
    }];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Algorithm::FixedWindow { limit, window } = algorithm else {
            return Ok(());
        };
        match window {
            Window::FirstAdmitted(window) => write_quota(f, *limit, *window),
            Window::Aligned(window) => {
                write_quota(f, *limit, *window)?;
                f.write_str(" aligned")
            }
            Window::Calendar(window) => write!(f, "{limit}/{window}"),
        }
    }

    fn window_text(algorithm: &Algorithm) -> String {
        let Algorithm::FixedWindow { window, .. } = algorithm else {
            return String::new();
        };
        match window {
            Window::FirstAdmitted(length) => format!("first {}", Span::from(*length)),
            Window::Aligned(length) => format!("aligned {}", Span::from(*length)),
            Window::Calendar(calendar) => calendar.state_text(),
        }
    }

    fn quota(&self, _: &Algorithm) -> Quota {
        let micros = match &self.anchor {
            Anchor::FirstAdmitted(length) | Anchor::Aligned(length) => *length,
            // The maximum length of the unit.
            Anchor::Calendar(calendar) => Span::DAY.as_micros() * calendar.unit().longest_days(),
        };
        Quota { units: self.limit, window: Some(Duration::from_micros(micros)) }
    }
}

impl Balance {
    const fn set(&mut self, used: u64) {
        self.used = used;
        self.newest = self.at;
        self.open = true;
    }
}

/// Returns the [start](State::start) in states of the window that begins at a boundary.
const fn name(calendar: &CalendarWindow, boundary: Boundary) -> u64 {
    if calendar.is_across_zones() { boundary.date } else { boundary.at.as_micros() }
}

/// Returns a state's date, but at most the day after that of its newest time in UTC. No zone is
/// further ahead, so a later date is corrupt.
const fn plausible(date: u64, newest: u64) -> u64 {
    let latest = newest / Span::DAY.as_micros() + 1;
    if date < latest { date } else { latest }
}

fn window(spec: &Reader<'_>) -> Result<Window, Problem> {
    let (aligned, across_zones) = (spec.flag("aligned"), spec.flag("across_zones"));
    let Some(zone) = spec.value("calendar") else {
        for (option, _) in BEGINNINGS {
            if let Some(word) = spec.flag(option) {
                let message = format!(
                    "`{option}` says where windows of a calendar begin: add `calendar ZONE`, such as \
                     `calendar UTC`, or remove it"
                );
                return Err(Problem::at(word, message));
            }
        }
        if let Some(word) = across_zones {
            let message = "`across_zones` keeps the used units when the zone of a calendar changes: \
                 add `calendar ZONE`, such as `calendar UTC`, or remove it";
            return Err(Problem::at(word, message));
        }
        let length = spec.period()?;
        return Ok(match aligned {
            Some(_) => Window::Aligned(length),
            None => Window::FirstAdmitted(length),
        });
    };
    if let Some(aligned) = aligned {
        let message =
            "`aligned` counts from the Unix epoch and `calendar` from local midnight: keep one";
        return Err(Problem::at(aligned, message));
    }
    let period = spec.period_word();
    let unit = match period.text.strip_prefix('1').unwrap_or(period.text) {
        "d" => CalendarUnit::Day,
        "w" => CalendarUnit::Week,
        "month" => CalendarUnit::Month,
        "year" => CalendarUnit::Year,
        _ => {
            let message =
                format!("`{}` is not a calendar period: write d, w, month or year", period.shown());
            return Err(Problem::at(period, message));
        }
    };
    let windows = CalendarWindow::new(unit, &zone.shown());
    let mut windows = windows.map_err(|error| Problem::at(zone, error.to_string()))?;
    for (option, begin) in BEGINNINGS {
        if let Some(value) = spec.value(option) {
            windows = begin(windows, value.text)
                .map_err(|error| Problem::at(value, error.to_string()))?;
        }
    }
    if across_zones.is_some() {
        windows = windows.across_zones();
    }
    Ok(Window::Calendar(windows))
}

/// An option that changes the beginning of a calendar's windows.
type Begin = fn(CalendarWindow, &str) -> Result<CalendarWindow, PolicyError>;

/// The options that set the start of a calendar's windows.
const BEGINNINGS: [(&str, Begin); 3] =
    [("start", CalendarWindow::start), ("from", CalendarWindow::from), ("at", CalendarWindow::at)];

#[cfg(all(test, feature = "calendar"))]
mod zones_tests;
