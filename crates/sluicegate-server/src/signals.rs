//! The signals that stop a process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. For a service, the first signal requests a graceful stop, the second an
/// immediate one.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// A signal that requests a stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StopSignal {
    Terminate,
    Interrupt,
}

impl StopSignals {
    /// Installs the handlers.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.interrupt.recv() => StopSignal::Interrupt,
        }
    }
}
