//! What one request holds of a subject, and its stored format.
//!
//! | bytes | a record |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | its id |
//! | 1 | 1 if it was settled, 2 if it is given back at its end, else 0 |
//! | 1 | policies that follow |
//! | 4 | each: its identity; of a settled record 7 bytes more: what was given back, or 2^53 for nothing that was to be |
//! | 35 | of a live one: units, their time of judgement, a bucket's unit and refill, and the tag of the slot they are in, or 2^53 for none |
//! | 2, … | and the numbers of the state as the request left it, after their length, |
//! | 2, … | and as the request found it; both empty where they are of no use |

use std::slice;

use crate::kernel::NUMBER_BYTES;
use crate::limit::Identity;
use crate::number::MAX_EXACT;
use crate::reader::{Reader, push};

/// What one request holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldRecord {
    /// When the record ends, in µs since the epoch.
    pub until: u64,
    /// What the policies were charged, or what was given back.
    pub content: RecordContent,
}

/// What a record says of the policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordContent {
    /// What each of those was charged that were charged anything.
    Live(Charged),
    /// What each of them gave back when the record was settled; `None` for those that were not to.
    Settled(Vec<(Identity, Option<u64>)>),
}

/// What one policy was charged, or each of several.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Charged {
    /// On the heap nothing, since it is most often one.
    One(HeldUnits),
    /// Several, or none.
    Several(Box<[HeldUnits]>),
}

/// What one policy was charged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldUnits {
    /// The policy.
    pub identity: Identity,
    /// Whether they are given back if the record ends without being settled.
    pub returns: bool,
    /// How many units.
    pub units: u64,
    /// When, in µs since the epoch.
    pub at: u64,
    /// What else is known of them; of permits there is nothing.
    pub more: Option<Box<MoreOfUnits>>,
}

/// What is known of units that flow back, or that a state can be brought back from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MoreOfUnits {
    /// What a unit came to then, in ticks, and how many ticks flow back in a µs; of a bucket alone.
    pub flow: Option<(u64, u64)>,
    /// The tag of the [slot](crate::kernel::Bound) that the units are in; of a bucket alone, and `None`
    /// if they found no place in any.
    pub slot: Option<u64>,
    /// What the charge made of the state. `None` where its numbers may be many, or are of no use: then a state
    /// never counts as unchanged.
    pub states: Option<ChargedState>,
}

/// The numbers of a state before and after a charge, as they are stored; empty for none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChargedState {
    /// As the charge left it.
    pub left: Box<[u8]>,
    /// As it found it.
    pub found: Box<[u8]>,
}

/// Sorts of records beside those that stay charged.
const SETTLED: u8 = 1;
const RETURNS: u8 = 2;

/// What a record has of one policy at most.
pub(super) const ENTRY_BYTES: usize =
    size_of::<HeldUnits>() + size_of::<MoreOfUnits>() + 2 * MOST_NUMBERS * NUMBER_BYTES;
/// The most numbers of a state that is recorded.
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
    /// Whether it is given back when it has ended.
    pub(super) fn is_to_return(&self) -> bool {
        matches!(&self.content, RecordContent::Live(charged) if charged.returns())
    }

    /// Whether it was not settled.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.content, RecordContent::Live(_))
    }

    /// The units that are held of each policy.
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

    /// What a policy was charged, of a record that was not settled.
    pub(crate) fn units_of(&self, identity: Identity) -> Option<&HeldUnits> {
        match &self.content {
            RecordContent::Live(charged) => {
                charged.entries().iter().find(|it| it.identity == identity)
            }
            RecordContent::Settled(_) => None,
        }
    }

    /// The same, to change it.
    pub(crate) fn units_mut(&mut self, identity: Identity) -> Option<&mut HeldUnits> {
        match &mut self.content {
            RecordContent::Live(charged) => {
                charged.entries_mut().iter_mut().find(|it| it.identity == identity)
            }
            RecordContent::Settled(_) => None,
        }
    }

    /// What a policy gave back, of a record that was settled.
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
    /// What a unit came to, and how many ticks flow back in a µs; of a bucket alone.
    pub(crate) fn flow(&self) -> Option<(u64, u64)> {
        self.more.as_ref()?.flow
    }

    /// The tag of the slot that they are in.
    pub(crate) fn slot(&self) -> Option<u64> {
        self.more.as_ref()?.slot
    }

    /// The numbers of the state as the charge left it, and as it found it.
    pub(crate) fn states(&self) -> Option<&ChargedState> {
        self.more.as_ref()?.states.as_ref()
    }
}

impl MoreOfUnits {
    /// In a box, unless there is nothing.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// What a settled record has of a policy that was not to give anything back, and a live one of units
/// that are in no slot.
const NOTHING: u64 = MAX_EXACT + 1;

/// A limit has 64 policies at most.
fn count(entries: usize) -> u8 {
    u8::try_from(entries).unwrap_or(u8::MAX)
}
