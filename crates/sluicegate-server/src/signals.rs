//! The signals that end a process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. For a service, the first asks for a graceful stop, the second for an immediate one.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// A signal that asks a process to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StopSignal {
    Terminate,
    Interrupt,
}

impl StopSignals {
    /// Begins to catch them.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.interrupt.recv() => StopSignal::Interrupt,
        }
    }
}
