//! One connection through a proxy.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::replies::Replies;
use super::{Cut, Direction, Fault, Faults, Shared, lock};

/// Forwards bytes in both directions until both have ended, or the connection is cut.
pub(super) async fn relay(shared: &Shared, mut client: TcpStream) {
    // Subscribe before the first await, so that a cut in the meantime also applies to this
    // connection.
    let mut faults = shared.faults.subscribe();
    let cuts = faults.borrow_and_update().cuts;
    let target = *lock(&shared.target);
    let Ok(mut server) = TcpStream::connect(target).await else {
        drop(client.set_zero_linger());
        return;
    };
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let cut = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut requests = Way::new(shared, Direction::Requests, from_client, to_server);
        let mut replies = Way::new(shared, Direction::Replies, from_server, to_client);
        let both = async { tokio::try_join!(requests.run(), replies.run()).err() };
        tokio::select! {
            cut = both => cut,
            cut = cut_from_outside(&mut faults, cuts) => Some(cut),
        }
    };
    match cut {
        None => {}
        Some(Cut::Reset) => drop((client.set_zero_linger(), server.set_zero_linger())),
        Some(Cut::Finish) => {
            drop((client.shutdown().await, server.shutdown().await));
            // Closing with unread bytes would be a reset. So read until the peers close.
            tokio::join!(drain(&mut client), drain(&mut server));
        }
    }
}

async fn cut_from_outside(faults: &mut watch::Receiver<Faults>, cuts: u64) -> Cut {
    match faults.wait_for(|faults| faults.cuts > cuts).await {
        Ok(faults) => faults.cut.unwrap_or(Cut::Reset),
        Err(_) => Cut::Reset,
    }
}

async fn drain(stream: &mut TcpStream) {
    let mut piece = [0; 4096];
    while let Ok(1..) = stream.read(&mut piece).await {}
}

/// One direction of a connection.
struct Way<'a> {
    shared: &'a Shared,
    direction: Direction,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    /// The bytes that have arrived and aren't forwarded yet, with their arrival times.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// The time at which the last bytes were forwarded.
    last: Instant,
    replies: Option<Replies>,
}

impl<'a> Way<'a> {
    fn new(
        shared: &'a Shared,
        direction: Direction,
        from: ReadHalf<'a>,
        to: WriteHalf<'a>,
    ) -> Self {
        let replies = (direction == Direction::Replies).then(Replies::default);
        let queue = VecDeque::new();
        Self { shared, direction, from, to, queue, last: Instant::now(), replies }
    }

    /// Returns `Ok` when the sender has ended and all is forwarded. On `Err`, the caller cuts the
    /// connection.
    async fn run(&mut self) -> Result<(), Cut> {
        let at = self.direction as usize;
        let mut faults = self.shared.faults.subscribe();
        let mut piece = vec![0; 16 << 10];
        let mut has_ended = false;
        let mut fault = Fault::None;
        let mut passed_under_it = 0;
        loop {
            let now = faults.borrow_and_update().each[at];
            if now != fault {
                (fault, passed_under_it) = (now, 0);
            }
            if has_ended && self.queue.is_empty() {
                return self.to.shutdown().await.map_err(|_| Cut::Reset);
            }
            let next = self.queue.front().map(|(arrived, _)| *arrived);
            tokio::select! {
                read = self.from.read(&mut piece), if !has_ended => match read {
                    Ok(0) => has_ended = true,
                    Ok(count) => self.take(&piece[..count]),
                    Err(_) => return Err(Cut::Reset),
                },
                () = due(next, self.last, fault) => {
                    let most = match fault {
                        Fault::Dribble(_) => 1,
                        Fault::CutAfter(most, cut) if passed_under_it == most => {
                            self.shared.faults.send_modify(|faults| {
                                faults.each[at] = Fault::None;
                            });
                            return Err(cut);
                        }
                        Fault::CutAfter(most, _) => most - passed_under_it,
                        _ => u64::MAX,
                    };
                    passed_under_it += self.pass(most).await.map_err(|_| Cut::Reset)?;
                }
                changed = faults.changed() => changed.map_err(|_| Cut::Reset)?,
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.shared.received[self.direction as usize]
            .fetch_add(piece.len() as u64, Ordering::SeqCst);
        let bytes = match &mut self.replies {
            Some(replies) => replies.take(piece, &self.shared.reply_fault),
            None => piece.to_vec(),
        };
        if !bytes.is_empty() {
            self.queue.push_back((Instant::now(), bytes));
        }
    }

    /// Forwards the first piece, up to `most` bytes of it.
    async fn pass(&mut self, most: u64) -> io::Result<u64> {
        let Some((arrived, mut bytes)) = self.queue.pop_front() else { return Ok(0) };
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
        let rest = bytes.split_off(count);
        if !rest.is_empty() {
            self.queue.push_front((arrived, rest));
        }
        // Count first, so that a client that has read the bytes finds them counted.
        self.shared.passed[self.direction as usize].fetch_add(count as u64, Ordering::SeqCst);
        self.to.write_all(&bytes).await?;
        self.last = Instant::now();
        Ok(count as u64)
    }
}

/// Waits until the piece that arrived then may be forwarded. Without a piece, waits permanently.
async fn due(arrived: Option<Instant>, last: Instant, fault: Fault) {
    match (arrived, fault) {
        (None, _) | (_, Fault::Hold) => pending().await,
        (Some(arrived), Fault::Delay(delay)) => sleep_until(arrived + delay).await,
        (Some(arrived), Fault::Dribble(pause)) => sleep_until(last.max(arrived) + pause).await,
        (Some(_), Fault::None | Fault::CutAfter(..)) => {}
    }
}
