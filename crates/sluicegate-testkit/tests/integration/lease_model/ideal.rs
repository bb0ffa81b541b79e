//! The bucket that leases are compared with.

/// An ideal bucket, which is charged every unit at the instant of spending. While it is within its
/// capacity, no interval has more units than the burst and the rate permit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Ideal {
    /// The deficit in ticks.
    pub(crate) deficit: i8,
}

impl Ideal {
    pub(crate) const FRESH: Self = Self { deficit: 0 };

    pub(crate) const fn charge(&mut self, ticks: i8) {
        self.deficit += ticks;
    }

    /// Gives back units that were never spent, or units that flow in.
    pub(crate) fn drain(&mut self, ticks: i8) {
        self.deficit = (self.deficit - ticks).max(0);
    }

    pub(crate) const fn reset(&mut self) {
        self.deficit = 0;
    }
}

/// Tests every trace of eight instants with up to two units each.
#[test]
fn the_ideal_bucket_overflows_exactly_where_some_interval_has_too_much() {
    const INSTANTS: u32 = 8;
    let (capacity, price, refill) = (2_i8, 3_i8, 2_i8);
    let mut overflowing = 0;
    for number in 0..3_u32.pow(INSTANTS) {
        let units: Vec<i8> = (0..INSTANTS)
            .map(|instant| i8::try_from(number / 3_u32.pow(instant) % 3).unwrap())
            .collect();
        let mut ideal = Ideal::FRESH;
        let mut overflows = false;
        for units in &units {
            ideal.drain(refill);
            ideal.charge(units * price);
            overflows |= ideal.deficit > capacity * price;
        }
        let has_too_much = (0..units.len()).any(|from| {
            (from..units.len()).any(|to| {
                let spent: i8 = units[from..=to].iter().sum();
                let length = i8::try_from(to - from).unwrap();
                spent * price > capacity * price + refill * length
            })
        });
        assert_eq!(overflows, has_too_much, "{units:?}");
        overflowing += u32::from(overflows);
    }
    assert!(0 < overflowing && overflowing < 3_u32.pow(INSTANTS));
}
