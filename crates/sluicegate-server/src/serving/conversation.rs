//! Protocols other than HTTP.

use std::pin::Pin;
use std::sync::Arc;

use super::client::Client;
use super::client_certificate::ClientCertificate;
use super::connections::Seat;
use super::stream::UntilEnding;

/// A protocol that answers on the stream of a connection itself.
pub(crate) trait Conversation: Send + Sync {
    /// Answers the client until it or the stream ends, or an answer is the last one.
    fn converse(&self, connected: Connected) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A client that has connected.
#[cfg_attr(not(feature = "resp"), expect(dead_code, reason = "no other protocol is built in"))]
pub(crate) struct Connected {
    /// The stream. It ends when the service stops, once all that has arrived is read.
    pub(crate) stream: UntilEnding,
    pub(crate) client: Client,
    pub(crate) certificate: Option<ClientCertificate>,
    pub(crate) seat: Arc<Seat>,
}
