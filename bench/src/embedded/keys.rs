//! Keys, and the order in which they are used.

/// Makes keys of "tenant:42:user:" and nine digits. Each is a string of its own, as a caller would
/// have it.
pub fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("tenant:42:user:{number:09}")).collect()
}

/// Writes these keys into a reused buffer, as a server does with the keys in requests. So the key is
/// in the processor's cache when it is checked.
pub struct Writer {
    /// "000" to "999".
    digits: Vec<String>,
}

impl Writer {
    pub fn new() -> Self {
        Self { digits: (0..1_000).map(|number| format!("{number:03}")).collect() }
    }

    #[inline]
    pub fn write(&self, number: u32, key: &mut String) {
        let number = number as usize;
        key.clear();
        key.push_str("tenant:42:user:");
        for group in [number / 1_000_000, number / 1_000 % 1_000, number % 1_000] {
            key.push_str(&self.digits[group]);
        }
    }
}

/// Indices drawn uniformly before the measurement.
pub struct Draw(Vec<u32>);

/// The number of indices: so many that a processor is unlikely to learn their order.
const LENGTH: usize = 1 << 20;

impl Draw {
    pub fn uniform(keys: usize) -> Self {
        let mut state = 0x2545_f491_4f6c_dd1d;
        Self((0..LENGTH).map(|_| (next(&mut state) % keys as u64) as u32).collect())
    }

    /// Returns `count` indices, which differ for each segment and thread.
    pub fn part(&self, segment: usize, count: usize) -> &[u32] {
        let parts = LENGTH / count;
        let start = segment % parts * count;
        &self.0[start..start + count]
    }
}

/// Returns a pseudo-random number (xorshift64*).
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
