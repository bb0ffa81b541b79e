//! The requests of a recording, in memory or in temporary files.
//!
//! A part contains all requests of some keys, so it can be decided separately. A recording of more
//! than [`MOST`] requests is written to files, one per part, and read back part by part.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use sluicegate_core::{Cost, Costs, Span, Timestamp};

use crate::record::Then;

/// The requests of a recording.
pub(crate) struct Requests {
    /// Maximum number of requests in memory while a log is read.
    most: usize,
    memory: Part,
    files: Vec<BufWriter<File>>,
    count: u64,
}

/// The requests of some keys: by key, then by time, then in the order of the log.
#[derive(Clone, Default)]
pub(crate) struct Part {
    requests: Vec<Request>,
    /// Details by request number; empty until a line states a cost or a duration.
    details: Vec<Detail>,
}

/// The cost and the duration of a request, if its line states them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detail {
    /// Cost, 0 if the line states none, and what a service decided in the bits above the largest cost.
    cost: u64,
    /// Duration in µs; 0 if the line states none.
    duration: u64,
}

/// A request of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Start of the request, or the time in its line if the line has no duration.
    pub(crate) at: Timestamp,
    pub(crate) costs: Costs<'static>,
    /// Duration of the request; zero if its line states none.
    pub(crate) lasts: Span,
    /// Whether the request takes what there is, up to its cost.
    pub(crate) is_take: bool,
    /// Whether a service denied the request.
    pub(crate) was_denied: bool,
}

/// A request in 16 bytes: key, time, and number of the request in its part, in this order. So
/// comparing two numbers compares the order of the requests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Request(u128);

/// The requests of one key.
#[derive(Clone, Copy)]
pub(crate) struct OfKey<'r> {
    pub(crate) key: u32,
    requests: &'r [Request],
    details: &'r [Detail],
}

/// Maximum number of requests in memory while a log is read: 128 MiB, with costs or durations.
const MOST: usize = 4 << 20;

/// Number of files for a recording that doesn't fit in memory.
const FILES: u32 = 64;

/// Bytes of a request in a file: key, time, cost and duration.
const WRITTEN: usize = 4 + 3 * 8;

impl Default for Requests {
    fn default() -> Self {
        Self { most: MOST, memory: Part::default(), files: Vec::new(), count: 0 }
    }
}

impl Requests {
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Adds a request that starts `micros` after the epoch.
    pub(crate) fn add(&mut self, key: u32, micros: u64, detail: Detail) -> io::Result<()> {
        if self.memory.requests.len() >= self.most {
            self.write()?;
        }
        self.memory.add(key, micros, detail)?;
        self.count += 1;
        Ok(())
    }

    /// Sorts the requests, after the last one was added.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if self.files.is_empty() {
            self.memory.requests.sort_unstable();
            return Ok(());
        }
        self.write()?;
        self.files.iter_mut().try_for_each(BufWriter::flush)
    }

    /// Returns the parts one by one, so only one is in memory at a time.
    pub(crate) fn parts(&self) -> impl Iterator<Item = io::Result<Cow<'_, Part>>> {
        let memory = self.files.is_empty().then_some(Ok(Cow::Borrowed(&self.memory)));
        let read = self.files.iter().map(|file| Part::read(file.get_ref()).map(Cow::Owned));
        memory.into_iter().chain(read)
    }

    /// Writes the requests in memory to the files of their keys.
    fn write(&mut self) -> io::Result<()> {
        if self.files.is_empty() {
            let file = |_| tempfile::tempfile().map(BufWriter::new);
            self.files = (0..FILES).map(file).collect::<io::Result<_>>()?;
        }
        for request in &self.memory.requests {
            let Detail { cost, duration } = self.memory.detail(*request);
            let file = &mut self.files[(request.key() % FILES) as usize];
            file.write_all(&request.key().to_le_bytes())?;
            for number in [request.micros(), cost, duration] {
                file.write_all(&number.to_le_bytes())?;
            }
        }
        self.memory.requests.clear();
        self.memory.details.clear();
        Ok(())
    }
}

impl Part {
    fn add(&mut self, key: u32, micros: u64, detail: Detail) -> io::Result<()> {
        let Ok(number) = u32::try_from(self.requests.len()) else {
            return Err(too_many());
        };
        if detail.cost > 0 || detail.duration > 0 {
            self.details.resize(self.requests.len(), Detail::default());
            self.details.push(detail);
        }
        self.requests.push(Request::new(key, micros, number));
        Ok(())
    }

    fn read(mut file: &File) -> io::Result<Self> {
        file.rewind()?;
        let mut input = BufReader::with_capacity(1 << 16, file);
        let mut part = Self::default();
        let mut written = [0; WRITTEN];
        loop {
            match input.read_exact(&mut written) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            let (key, numbers) = written.split_at(4);
            let key = key.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            let number = |index: usize| {
                let bytes = &numbers[index * 8..(index + 1) * 8];
                bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
            };
            part.add(key, number(0), Detail { cost: number(1), duration: number(2) })?;
        }
        part.requests.sort_unstable();
        Ok(part)
    }

    fn detail(&self, request: Request) -> Detail {
        self.details.get(request.number() as usize).copied().unwrap_or_default()
    }

    /// Returns the requests, key by key.
    pub(crate) fn by_key(&self) -> impl Iterator<Item = OfKey<'_>> {
        self.requests.chunk_by(|a, b| a.key() == b.key()).map(|requests| OfKey {
            key: requests[0].key(),
            requests,
            details: &self.details,
        })
    }

    /// Returns the start of each request, in µs since the epoch, in no particular order.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().map(|request| request.micros())
    }
}

impl Detail {
    /// The bit of a request that was denied.
    const DENIED: u64 = 1 << 63;
    /// The bit of a take.
    const TAKE: u64 = 1 << 62;

    pub(crate) fn new(cost: Option<Cost>, duration: u64, then: Then) -> Self {
        let denied = if then.was_denied { Self::DENIED } else { 0 };
        let take = if then.is_take { Self::TAKE } else { 0 };
        Self { cost: cost.map_or(0, Cost::get) | denied | take, duration }
    }
}

impl OfKey<'_> {
    /// Returns the number of requests, at least 1.
    pub(crate) const fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Returns each request, in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arrival> {
        self.requests.iter().map(|request| {
            let detail = self.details.get(request.number() as usize).copied().unwrap_or_default();
            Arrival {
                at: Timestamp::from_micros_clamped(request.micros()),
                costs: Cost::new(detail.cost & !(Detail::DENIED | Detail::TAKE))
                    .map_or(Costs::Own, Costs::Same),
                lasts: Span::from_micros(detail.duration).unwrap_or(Span::MAX),
                is_take: detail.cost & Detail::TAKE != 0,
                was_denied: detail.cost & Detail::DENIED != 0,
            }
        })
    }
}

impl Request {
    const fn new(key: u32, micros: u64, number: u32) -> Self {
        Self((key as u128) << 96 | (micros as u128) << 32 | number as u128)
    }

    const fn key(self) -> u32 {
        (self.0 >> 96) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the field apart")]
    const fn micros(self) -> u64 {
        (self.0 >> 32) as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the field apart")]
    const fn number(self) -> u32 {
        self.0 as u32
    }
}

pub(crate) fn too_many() -> io::Error {
    let message = "it has more than 4,294,967,295 keys, or requests of keys that are stored together: split it";
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(requests: &Requests) -> Vec<(u32, u64, u64, u64)> {
        let mut all = Vec::new();
        for part in requests.parts() {
            for of_key in part.unwrap().by_key() {
                for Arrival { at, costs, lasts, .. } in of_key.iter() {
                    let cost = if let Costs::Same(cost) = costs { cost.get() } else { 0 };
                    all.push((of_key.key, at.as_micros(), cost, lasts.as_micros()));
                }
            }
        }
        // The parts come in no particular order of keys.
        all.sort_by_key(|request| request.0);
        all
    }

    proptest! {
        #[test]
        fn a_recording_beyond_the_memory_is_read_back_in_order(
            added in prop::collection::vec((0_u32..100, 0_u64..9, 0_u64..3, 0_u64..3), 0..300),
        ) {
            let mut requests = Requests { most: 64, ..Requests::default() };
            for &(key, micros, cost, duration) in &added {
                requests.add(key, micros, Detail { cost, duration }).unwrap();
            }
            requests.finish().unwrap();
            prop_assert_eq!(requests.files.is_empty(), added.len() <= 64);
            let mut expected = added.clone();
            expected.sort_by_key(|request| (request.0, request.1));
            prop_assert_eq!(requests.count(), added.len() as u64);
            // Read twice: a part can be read again.
            prop_assert_eq!(all(&requests), expected.clone());
            prop_assert_eq!(all(&requests), expected);
        }
    }
}
