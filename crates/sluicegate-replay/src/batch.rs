//! Parses lines on several threads, batch by batch, in the order of the log.

use std::io::{self, Read};
use std::mem;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ScopedJoinHandle};

use crate::lines::{Line, Lines};
use crate::malformed::Malformed;
use crate::recognized::Recognized;
use crate::record::Stated;

/// Consecutive lines of a log, and after parsing also their requests.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    text: Vec<u8>,
    /// Number of lines.
    pub(crate) lines: u64,
    pub(crate) headers: u64,
    keys: Vec<u8>,
    /// End of each request's key in `keys`, and the facts in its line.
    requests: Vec<(usize, Stated)>,
    /// Malformed lines: number in the batch from 1, position in the text, reason.
    malformed: Vec<(u64, Range<usize>, Malformed)>,
}

/// The number of threads. At any time one thread reads and one hands over its batch. On 2 cores,
/// fewer threads leave a core idle; on many cores, more threads would only wait.
const THREADS: usize = 4;

/// The input that the threads share.
struct Input<'i, R, T> {
    lines: &'i mut Lines<R>,
    /// Receives `take` from the thread with the previous batch.
    turn: Receiver<T>,
}

/// Parses the rest of a log, and calls `take` with each batch in order.
pub(crate) fn parse_rest<R: Read + Send, T: FnMut(&Batch) -> io::Result<()> + Send>(
    recognized: &Recognized,
    lines: &mut Lines<R>,
    take: T,
) -> io::Result<()> {
    // `take` moves from thread to thread in the order of the batches.
    let (first, turn) = channel();
    let _ = first.send(take);
    let input = Mutex::new(Input { lines, turn });
    let work = || {
        let mut recognized = recognized.clone();
        let mut batch = Batch::default();
        loop {
            let Ok(mut input) = input.lock() else { return Ok(()) };
            batch.fill(input.lines)?;
            if batch.text.is_empty() {
                return Ok(());
            }
            let (next, next_turn) = channel();
            let turn = mem::replace(&mut input.turn, next_turn);
            drop(input);
            batch.parse(&mut recognized);
            // The sender is gone if the previous batch's thread failed.
            let Ok(mut take) = turn.recv() else { return Ok(()) };
            take(&batch)?;
            let _ = next.send(take);
        }
    };
    thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(work));
        let mut ends = threads.into_iter().map(ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

impl Batch {
    /// Replaces the lines with the next ones; leaves none at the end of the log.
    fn fill(&mut self, lines: &mut Lines<impl Read>) -> io::Result<()> {
        self.text.clear();
        lines.append_to(&mut self.text)
    }

    fn parse(&mut self, recognized: &mut Recognized) {
        let Self { text, lines, headers, keys, requests, malformed } = self;
        (*lines, *headers) = (0, 0);
        keys.clear();
        requests.clear();
        malformed.clear();
        for line in Line::all(text) {
            *lines += 1;
            match recognized.read(line) {
                Ok(Some((key, stated))) => {
                    keys.extend_from_slice(key);
                    requests.push((keys.len(), stated));
                }
                Ok(None) => *headers += 1,
                Err(why) => {
                    let start = line.bytes.as_ptr().addr() - text.as_ptr().addr();
                    malformed.push((*lines, start..start + line.bytes.len(), why));
                }
            }
        }
    }

    /// Returns the requests with their keys.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&[u8], Stated)> {
        let mut start = 0;
        self.requests.iter().map(move |&(end, stated)| {
            let key = &self.keys[start..end];
            start = end;
            (key, stated)
        })
    }

    /// Returns the malformed lines with their numbers in the batch, from 1.
    pub(crate) fn malformed(&self) -> impl Iterator<Item = (u64, &[u8], Malformed)> {
        self.malformed.iter().map(|(number, place, why)| (*number, &self.text[place.clone()], *why))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::format::Parser;
    use crate::format::wrapper::Wrapper;
    use crate::key::KeyExpression;
    use crate::log_format::LogFormat;
    use crate::record::Fields;

    const FIRST: &[u8] = br#"{"time":1,"key":"k0"}"#;

    /// Returns a log of `count` requests, some of which are malformed.
    fn log(count: u64) -> Vec<u8> {
        let line = |number: u64| match number % 7 {
            3 => format!("{{\"time\":{number},\"key\":\"a\",\"time\":2}}\n"),
            5 => "\n".to_owned(),
            _ => format!("{{\"time\":{number},\"key\":\"k{number}\"}}\n"),
        };
        (0..count).map(line).collect::<String>().into_bytes()
    }

    fn recognized() -> Recognized {
        let parser = Parser::new(LogFormat::Json, None, Fields::ALL);
        let mut recognized = Recognized::new(parser, Wrapper::None, KeyExpression::brought_along());
        recognized.read(Line::all(FIRST).next().unwrap()).unwrap();
        recognized
    }

    /// A reader that returns at most 300 bytes per read and fails at the end, unless the error is
    /// `Other`.
    struct Failing<'a>(&'a [u8], ErrorKind);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(300);
            match (&mut self.0).take(most as u64).read(buffer)? {
                0 if self.1 != ErrorKind::Other => Err(self.1.into()),
                count => Ok(count),
            }
        }
    }

    fn parse(
        log: &[u8],
        error: ErrorKind,
        take: impl FnMut(&Batch) -> io::Result<()> + Send,
    ) -> io::Result<()> {
        parse_rest(&recognized(), &mut Lines::new(Failing(log, error)), take)
    }

    #[test]
    fn batches_are_taken_in_the_order_of_the_log() {
        let log = log(5_000);
        let (mut requests, mut malformed, mut lines, mut batches) = (Vec::new(), Vec::new(), 0, 0);
        let take = |batch: &Batch| {
            requests.extend(batch.requests().map(|(key, stated)| (key.to_vec(), stated.start)));
            malformed.extend(
                batch.malformed().map(|(number, line, why)| (lines + number, line.to_vec(), why)),
            );
            lines += batch.lines;
            batches += 1;
            Ok(())
        };
        parse(&log, ErrorKind::Other, take).unwrap();
        let (mut expected, mut expected_malformed) = (Vec::new(), Vec::new());
        let mut recognized = recognized();
        for (index, line) in Line::all(&log).enumerate() {
            match recognized.read(line) {
                Ok(Some((key, stated))) => expected.push((key.to_vec(), stated.start)),
                Ok(None) => unreachable!("JSON has no headers"),
                Err(why) => expected_malformed.push((index as u64 + 1, line.bytes.to_vec(), why)),
            }
        }
        assert_eq!((requests, malformed, lines), (expected, expected_malformed, 5_000));
        assert!(batches > 100, "{batches}");
    }

    #[test]
    fn an_error_ends_every_thread() {
        let log = log(5_000);
        let error = parse(&log, ErrorKind::BrokenPipe, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let mut taken = 0;
        let take = |_: &Batch| {
            taken += 1;
            if taken < 20 { Ok(()) } else { Err(ErrorKind::StorageFull.into()) }
        };
        let error = parse(&log, ErrorKind::Other, take).unwrap_err();
        assert_eq!((error.kind(), taken), (ErrorKind::StorageFull, 20));
        let panics = || parse(&log, ErrorKind::Other, |_| panic!("as planned"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    }
}
