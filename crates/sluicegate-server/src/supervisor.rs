//! The program that supervises this process, usually systemd.
//!
//! It gets a message at each change of the service's state, through the socket that `NOTIFY_SOCKET` names
//! (`Type=notify`). Without that variable nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Reports that all listeners accept connections, or that a reload is complete.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that a reload begins. [`ready`] reports its end.
pub(crate) fn reloading() {
    let status = NotifyState::Status("Reading the configuration again");
    // The time distinguishes this reload from those before the signal.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now, status]),
        Err(error) => tracing::warn!("can't report a reload, because there is no clock: {error}"),
    }
}

/// Reports that the service begins to stop.
pub(crate) fn stopping(status: &str) {
    send(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Reports twice in each watchdog interval that the runtime works, if the supervisor watches that.
///
/// Each report comes from a new task, so it is sent only while the threads that answer requests run new tasks.
pub(crate) async fn feed_watchdog() {
    let Some(within) = sd_notify::watchdog_enabled().filter(|within| !within.is_zero()) else {
        return;
    };
    let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if tokio::spawn(async { send(&[NotifyState::Watchdog]) }).await.is_err() {
            return;
        }
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("can't reach the supervisor at NOTIFY_SOCKET: {error}");
    }
}
