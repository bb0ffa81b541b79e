//! The bound on the age of a connection.

use std::time::Duration;

/// The maximum age of connections, after which clients open others. So a load balancer distributes them again.
///
/// Both times may have no bound.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionAge {
    max: Option<Duration>,
    grace: Option<Duration>,
}

impl ConnectionAge {
    /// Sets the age at which a client has to open another connection, and the time after that for requests in
    /// progress. Zero stands for no bound.
    #[cfg(feature = "envoy")]
    pub(crate) fn new(max: Duration, grace: Duration) -> Self {
        let bound = |time: Duration| (!time.is_zero()).then_some(time);
        Self { max: bound(max), grace: bound(grace) }
    }

    /// Waits until a connection that begins now has its maximum age. It differs by up to a tenth among connections, so
    /// that those that began together don't end together.
    pub(crate) async fn reached(self) {
        let Some(max) = self.max else { return std::future::pending().await };
        // From 9/10 to 11/10.
        tokio::time::sleep(max.saturating_mul(fastrand::u32(900..=1_100)) / 1_000).await;
    }

    /// Waits for the time that requests in progress have then.
    pub(crate) async fn grace_ended(self) {
        match self.grace {
            Some(grace) => tokio::time::sleep(grace).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(all(test, feature = "envoy"))]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ages_differ_by_a_tenth_and_zero_is_no_bound() {
        let age = ConnectionAge::new(Duration::from_secs(1_000), Duration::from_secs(10));
        for _ in 0..100 {
            let began = Instant::now();
            age.reached().await;
            let seconds = began.elapsed().as_secs();
            assert!((900..=1_100).contains(&seconds), "{seconds}");
        }
        let began = Instant::now();
        age.grace_ended().await;
        assert_eq!(began.elapsed().as_secs(), 10);
        let never = ConnectionAge::new(Duration::ZERO, Duration::ZERO);
        let year = Duration::from_secs(365 * 86_400);
        assert!(tokio::time::timeout(year, never.reached()).await.is_err());
        assert!(tokio::time::timeout(year, never.grace_ended()).await.is_err());
    }
}
