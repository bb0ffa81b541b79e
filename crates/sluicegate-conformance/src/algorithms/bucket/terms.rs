//! The numbers of a bucket.

use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use sluicegate_core::{Algorithm, Start};

use crate::algorithms::account::unknown;
use crate::algorithms::flow::{Flow, whole};
use crate::times::micros;

/// The numbers of a bucket, in units and microseconds.
pub(super) struct Terms {
    pub(super) flow: Flow,
    pub(super) capacity: BigRational,
    pub(super) fresh: BigRational,
    pub(super) manner: Manner,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Manner {
    Meter,
    Queue,
    Smooth,
}

impl Terms {
    pub(super) fn of(algorithm: &Algorithm) -> Self {
        let (rate, manner) = match algorithm {
            Algorithm::TokenBucket { rate, .. }
            | Algorithm::Gcra { rate, .. }
            | Algorithm::LeakyBucket { rate, .. } => (*rate, Manner::Meter),
            Algorithm::Shaper { rate, .. } => (*rate, Manner::Queue),
            Algorithm::Smooth { rate, .. } => (*rate, Manner::Smooth),
            _ => unknown(algorithm),
        };
        let flow = Flow::new(rate);
        let capacity = match algorithm {
            Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst, .. } => whole(*burst),
            Algorithm::LeakyBucket { capacity, .. } => whole(*capacity),
            Algorithm::Shaper { rate, .. } if rate.count() == 0 => BigRational::zero(),
            Algorithm::Shaper { queue, .. } => whole(*queue) + whole(1),
            Algorithm::Smooth { burst, .. } => whole(micros(*burst)) * &flow.per_us,
            _ => unknown(algorithm),
        };
        let fresh = match algorithm {
            Algorithm::Smooth { start: Start::Empty, .. } => capacity.clone(),
            _ => BigRational::zero(),
        };
        Self { flow, capacity, fresh, manner }
    }

    /// Returns the largest cost that a fresh key admits.
    pub(super) fn limit(&self) -> Option<u64> {
        match self.manner {
            Manner::Meter | Manner::Queue => self.capacity.floor().to_u64(),
            Manner::Smooth => self.flow.per_us.is_zero().then_some(0),
        }
    }
}
