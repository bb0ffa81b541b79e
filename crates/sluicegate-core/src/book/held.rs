//! The record of one request's hold on a subject, and its stored format.
//!
//! | bytes | a record |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | its id |
//! | 1 | 1 if it was settled, 2 if it is given back at its end, else 0 |
//! | 1 | policies that follow |
//! | 4 | each: its identity. A settled record has 7 bytes more: the units given back, or 2^53 if there were none to give back |
//! | 35 | for a live record: units, their evaluation time, a bucket's unit and refill, and the tag of their slot, or 2^53 for none |
//! | 2, … | and the numbers of the state as the request left it, after their length, |
//! | 2, … | and as the request found it; both are empty if they aren't needed |

use std::slice;

use crate::kernel::NUMBER_BYTES;
use crate::limit::Identity;
use crate::number::MAX_EXACT;
use crate::reader::{Reader, push};

/// The record of one request's hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldRecord {
    /// When the record ends, in µs since the epoch.
    pub until: u64,
    /// The units that the policies were charged, or that they gave back.
    pub content: RecordContent,
}

/// The units of the policies in a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordContent {
    /// The charge of each policy that was charged.
    Live(Charged),
    /// The units that each policy gave back when the record was settled; `None` for a policy with
    /// none to give back.
    Settled(Vec<(Identity, Option<u64>)>),
}

/// The charge of one policy, or of several.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Charged {
    /// One charge, the most common case, without heap memory.
    One(HeldUnits),
    /// Several charges, or none.
    Several(Box<[HeldUnits]>),
}

/// The charge of one policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldUnits {
    /// The policy.
    pub identity: Identity,
    /// Whether the units are given back if the record ends without being settled.
    pub returns: bool,
    /// The number of units.
    pub units: u64,
    /// The time of the charge, in µs since the epoch.
    pub at: u64,
    /// Further data, which permits don't have.
    pub more: Option<Box<MoreOfUnits>>,
}

/// Data about units that flow back, or about a state that can be restored.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MoreOfUnits {
    /// The ticks of a unit at that time, and the ticks that flow back per µs; for a bucket alone.
    pub flow: Option<(u64, u64)>,
    /// The tag of the [slot](crate::kernel::Bound) of the units, for a bucket alone. `None` if no
    /// slot was free.
    pub slot: Option<u64>,
    /// The state before and after the charge. `None` if it may have many numbers or isn't needed;
    /// such a state never counts as unchanged.
    pub states: Option<ChargedState>,
}

/// The stored numbers of a state before and after a charge; empty for no state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChargedState {
    /// The state after the charge.
    pub left: Box<[u8]>,
    /// The state before the charge.
    pub found: Box<[u8]>,
}

/// Kinds of records other than those that stay charged.
const SETTLED: u8 = 1;
const RETURNS: u8 = 2;

/// The maximum size of a policy's data in a record.
pub(super) const ENTRY_BYTES: usize =
    size_of::<HeldUnits>() + size_of::<MoreOfUnits>() + 2 * MOST_NUMBERS * NUMBER_BYTES;
/// The maximum number of numbers in a recorded state.
const MOST_NUMBERS: usize = 8;

impl RecordContent {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Live(charged) => {
                let sort = if charged.returns() { RETURNS } else { 0 };
                let entries = charged.entries();
                bytes.extend_from_slice(&[sort, count(entries.len())]);
                for entry in entries {
                    bytes.extend_from_slice(&entry.identity.to_bytes());
                    let (unit, refill) = entry.flow().unwrap_or_default();
                    let slot = entry.slot().unwrap_or(NOTHING);
                    for number in [entry.units, entry.at, unit, refill, slot] {
                        push(bytes, number);
                    }
                    let (left, found) =
                        entry.states().map_or((&[][..], &[][..]), |it| (&it.left, &it.found));
                    for state in [left, found] {
                        let length = u16::try_from(state.len()).unwrap_or(u16::MAX);
                        bytes.extend_from_slice(&length.to_be_bytes());
                        bytes.extend_from_slice(state);
                    }
                }
            }
            Self::Settled(entries) => {
                bytes.extend_from_slice(&[SETTLED, count(entries.len())]);
                for (identity, given) in entries {
                    bytes.extend_from_slice(&identity.to_bytes());
                    push(bytes, given.unwrap_or(NOTHING));
                }
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [sort, entries] = *reader.array()?;
        let identity = |reader: &mut Reader<'_>| reader.array().copied().map(Identity::from_bytes);
        if sort == SETTLED {
            let entry = |_| {
                let (identity, given) = (identity(reader)?, reader.whole()?);
                Some((identity, Some(given).filter(|given| *given <= MAX_EXACT)))
            };
            return (0..entries).map(entry).collect::<Option<_>>().map(Self::Settled);
        }
        let entry = |_| {
            let identity = identity(reader)?;
            let [units, at, unit, refill] =
                [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
            let flow = Some((unit, refill)).filter(|flow| *flow != (0, 0));
            let slot = Some(reader.whole()?).filter(|slot| *slot <= MAX_EXACT);
            let (left, found) = (reader.text()?, reader.text()?);
            let states =
                (!left.is_empty()).then(|| ChargedState { left: left.into(), found: found.into() });
            let more = MoreOfUnits { flow, slot, states }.boxed();
            Some(HeldUnits { identity, returns: sort == RETURNS, units, at, more })
        };
        (0..entries).map(entry).collect::<Option<_>>().map(Self::Live)
    }
}

impl Charged {
    fn entries(&self) -> &[HeldUnits] {
        match self {
            Self::One(entry) => slice::from_ref(entry),
            Self::Several(entries) => entries,
        }
    }

    fn entries_mut(&mut self) -> &mut [HeldUnits] {
        match self {
            Self::One(entry) => slice::from_mut(entry),
            Self::Several(entries) => entries,
        }
    }

    fn returns(&self) -> bool {
        self.entries().iter().any(|entry| entry.returns)
    }
}

impl FromIterator<HeldUnits> for Charged {
    fn from_iter<I: IntoIterator<Item = HeldUnits>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        match (entries.next(), entries.next()) {
            (Some(only), None) => Self::One(only),
            (first, second) => {
                Self::Several(first.into_iter().chain(second).chain(entries).collect())
            }
        }
    }
}

impl HoldRecord {
    /// Returns `true` if the record is given back after its end.
    pub(super) fn is_to_return(&self) -> bool {
        matches!(&self.content, RecordContent::Live(charged) if charged.returns())
    }

    /// Returns `true` if the record hasn't been settled.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.content, RecordContent::Live(_))
    }

    /// Returns the held units of each policy.
    pub(super) fn units(&self) -> impl Iterator<Item = (Identity, u64)> + Clone {
        let entries = match &self.content {
            RecordContent::Live(charged) => charged.entries(),
            RecordContent::Settled(_) => &[],
        };
        entries.iter().map(|entry| (entry.identity, entry.units))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.content {
            RecordContent::Live(charged) => {
                let entries = charged.entries();
                let numbers = entries.iter().flat_map(|entry| &entry.more).map(|more| {
                    let states = more.states.as_ref();
                    size_of::<MoreOfUnits>()
                        + states.map_or(0, |states| states.left.len() + states.found.len())
                });
                let several = match charged {
                    Charged::One(_) => 0,
                    Charged::Several(entries) => entries.len(),
                };
                several * size_of::<HeldUnits>() + numbers.sum::<usize>()
            }
            RecordContent::Settled(entries) => entries.len() * size_of::<(Identity, Option<u64>)>(),
        }
    }

    /// Returns the charge of a policy, for a record that hasn't been settled.
    pub(crate) fn units_of(&self, identity: Identity) -> Option<&HeldUnits> {
        match &self.content {
            RecordContent::Live(charged) => {
                charged.entries().iter().find(|it| it.identity == identity)
            }
            RecordContent::Settled(_) => None,
        }
    }

    /// Returns the charge of a policy for modification.
    pub(crate) fn units_mut(&mut self, identity: Identity) -> Option<&mut HeldUnits> {
        match &mut self.content {
            RecordContent::Live(charged) => {
                charged.entries_mut().iter_mut().find(|it| it.identity == identity)
            }
            RecordContent::Settled(_) => None,
        }
    }

    /// Returns the units that a policy gave back, for a settled record.
    pub(crate) fn given_of(&self, identity: Identity) -> Option<u64> {
        match &self.content {
            RecordContent::Live(_) => None,
            RecordContent::Settled(entries) => {
                entries.iter().find(|(it, _)| *it == identity).and_then(|(_, given)| *given)
            }
        }
    }
}

impl HeldUnits {
    /// Returns the ticks of a unit, and the ticks that flow back per µs; for a bucket alone.
    pub(crate) fn flow(&self) -> Option<(u64, u64)> {
        self.more.as_ref()?.flow
    }

    /// Returns the tag of the units' slot.
    pub(crate) fn slot(&self) -> Option<u64> {
        self.more.as_ref()?.slot
    }

    /// Returns the numbers of the state before and after the charge.
    pub(crate) fn states(&self) -> Option<&ChargedState> {
        self.more.as_ref()?.states.as_ref()
    }
}

impl MoreOfUnits {
    /// Boxes the data, unless it is empty.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// The number stored in a settled record for a policy without units to give back. In a live record
/// it is the tag of units without a slot.
const NOTHING: u64 = MAX_EXACT + 1;

/// Returns the number of entries; a limit has at most 64 policies.
fn count(entries: usize) -> u8 {
    u8::try_from(entries).unwrap_or(u8::MAX)
}
