//! The minimal keyed, exact, thread-safe bucket. It has the hash and the state of the embedded store,
//! in one flat table that never grows, evicts, sweeps or explains itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip128::SipHasher13;

/// Half a cache line: the fingerprint, the newest time and the deficit.
#[derive(Default)]
#[repr(align(32))]
struct Slot {
    /// Zero in an empty slot.
    high: AtomicU64,
    low: AtomicU64,
    /// The topmost bit is the slot's lock.
    newest: AtomicU64,
    deficit: AtomicU64,
}

/// Open addressing, half full.
pub struct Flat {
    hasher: SipHasher13,
    slots: Box<[Slot]>,
    mask: u64,
    inserting: Mutex<()>,
    unit: u64,
    capacity: u64,
}

const LOCKED: u64 = 1 << 63;
/// The number of looks at a taken slot before the thread yields, and of pauses between two looks.
/// Both are those of the embedded store's lock.
const ROUNDS: u32 = 16;
const PAUSES: u32 = 32;

impl Flat {
    /// Returns a table for `keys` keys. One unit takes `unit` µs to refill.
    pub fn new(keys: usize, unit: u64, burst: u64) -> Self {
        let slots: Box<[Slot]> =
            (0..(2 * keys).next_power_of_two()).map(|_| Slot::default()).collect();
        let mask = slots.len() as u64 - 1;
        let hasher = SipHasher13::new_with_keys(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        Self { hasher, slots, mask, inserting: Mutex::new(()), unit, capacity: unit * burst }
    }

    /// Takes a unit of a key at `now`, and returns whether there was one.
    #[inline]
    pub fn check(&self, key: &[u8], now: u64) -> bool {
        let hash = self.hasher.hash(key);
        let (high, low) = (hash.h1.max(1), hash.h2);
        let mut index = high & self.mask;
        let slot = loop {
            let slot = &self.slots[index as usize];
            let there = slot.high.load(Ordering::Acquire);
            if there == high && slot.low.load(Ordering::Relaxed) == low {
                break slot;
            }
            if there == 0 {
                break self.insert(high, low, now);
            }
            index = (index + 1) & self.mask;
        };
        let newest = slot.lock();
        let at = now.max(newest);
        let deficit = slot.deficit.load(Ordering::Relaxed).saturating_sub(at - newest) + self.unit;
        let allowed = deficit <= self.capacity;
        if allowed {
            slot.deficit.store(deficit, Ordering::Relaxed);
        }
        slot.newest.store(if allowed { at } else { newest }, Ordering::Release);
        allowed
    }

    #[cold]
    #[inline(never)]
    fn insert(&self, high: u64, low: u64, now: u64) -> &Slot {
        let _one_at_a_time = self.inserting.lock();
        let mut index = high & self.mask;
        loop {
            let slot = &self.slots[index as usize];
            let there = slot.high.load(Ordering::Relaxed);
            if there == 0 {
                slot.low.store(low, Ordering::Relaxed);
                slot.newest.store(now, Ordering::Relaxed);
                slot.high.store(high, Ordering::Release);
                return slot;
            }
            if there == high && slot.low.load(Ordering::Relaxed) == low {
                return slot;
            }
            index = (index + 1) & self.mask;
        }
    }
}

impl Slot {
    /// Locks the slot and returns its newest time. This takes one locked instruction; a plain store
    /// unlocks it.
    #[inline]
    fn lock(&self) -> u64 {
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            if newest & LOCKED != 0 {
                newest = self.wait();
                continue;
            }
            let taken = self.newest.compare_exchange_weak(
                newest,
                newest | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(newest) => return newest,
                Err(there) => newest = there,
            }
        }
    }

    /// Returns the newest time once the slot is unlocked, with as few looks as the embedded store's
    /// lock.
    #[cold]
    fn wait(&self) -> u64 {
        loop {
            for _ in 0..ROUNDS {
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
                let newest = self.newest.load(Ordering::Relaxed);
                if newest & LOCKED == 0 {
                    return newest;
                }
            }
            std::thread::yield_now();
        }
    }
}
