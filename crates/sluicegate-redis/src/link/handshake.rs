//! The handshake with a server, which finds out whether it can decide, and if not, what it is.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::endpoint::{Endpoint, Part};
use super::problem::Problem;
use super::stream::Stream;
use crate::redis_url::Host;
use crate::resp::{Command, NoReply, Reader, Value};

/// Maximum time of each probe of a port that breaks connections.
const PROBE: Duration = Duration::from_millis(100);

/// The shortest possible start of a TLS connection: a record with a client's hello for TLS 1.2. It has 32
/// bytes that should be random, no session, one cipher and no compression. A TLS port answers it with a
/// record, whether it accepts it or not.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03\
    ................................\x00\x00\x02\xc0\x2f\x01\x00";
/// The first bytes of records that answer it: an alert, or the handshake.
const RECORDS: [u8; 2] = [0x15, 0x16];

/// A connection to a server that can decide, during and after the handshake.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(super) stream: Stream,
    pub(super) reader: Reader,
    /// Bytes that were read, and are not a whole reply yet.
    pub(super) input: BytesMut,
    /// The host of the connection; `None` for a socket.
    pub(crate) host: Option<Host>,
}

impl Talk {
    /// Sends a command and awaits its reply. No other command may be outstanding.
    pub(crate) async fn ask(&mut self, command: &Command) -> Result<Value, Broken> {
        self.send(std::slice::from_ref(command)).await?;
        self.receive().await
    }

    /// Sends commands as one and awaits their replies. No other command may be outstanding.
    pub(super) async fn ask_all(&mut self, commands: &[Command]) -> Result<Vec<Value>, Broken> {
        self.send(commands).await?;
        let mut values = Vec::with_capacity(commands.len());
        for _ in commands {
            values.push(self.receive().await?);
        }
        Ok(values)
    }

    async fn send(&mut self, commands: &[Command]) -> Result<(), Broken> {
        let mut output = BytesMut::new();
        for command in commands {
            command.write(&mut output);
        }
        self.stream.write_all(&output).await.map_err(Broken::Io)?;
        self.stream.flush().await.map_err(Broken::Io)
    }

    /// Awaits the next reply.
    pub(crate) async fn receive(&mut self) -> Result<Value, Broken> {
        loop {
            if let Some(value) =
                self.reader.read(&mut self.input).map_err(|NoReply| Broken::NoReply)?
            {
                return Ok(value);
            }
            if self.stream.read_buf(&mut self.input).await.map_err(Broken::Io)? == 0 {
                return Err(Broken::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// The end of a connection.
#[derive(Debug)]
pub(crate) enum Broken {
    Io(io::Error),
    /// The bytes are not in the Redis protocol.
    NoReply,
    /// The reply belonged to another call.
    Disordered,
}

/// Connects, signs in and selects the database, if the server can decide.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<Talk, Problem> {
    let mut talk = meet(endpoint).await?;
    match introduce(&mut talk, endpoint).await {
        Ok(()) => Ok(talk),
        Err(Failed::Refused(problem)) => Err(problem),
        Err(Failed::Broken(broken)) => Err(unusable(&talk, endpoint, broken).await),
    }
}

/// Connects and signs in, regardless of the server's kind.
pub(super) async fn meet(endpoint: &Endpoint) -> Result<Talk, Problem> {
    let credentials = endpoint.credentials.read().await;
    let credentials = credentials.map_err(|why| Problem::without_credentials(&why))?;
    let stream = Stream::connect(endpoint).await?;
    let (reader, input) = (Reader::default(), BytesMut::new());
    let mut talk = Talk { stream, reader, input, host: endpoint.host().cloned() };
    let Some(credentials) = credentials else { return Ok(talk) };
    let mut auth = Command::of(&[b"AUTH"]);
    if let Some(user) = credentials.user() {
        auth.word(user);
    }
    auth.word(credentials.password());
    match talk.ask(&auth).await {
        Ok(Value::Error(words)) => Err(Problem::of_credentials(&words, &credentials, endpoint)),
        Ok(_) => Ok(talk),
        Err(broken) => Err(unusable(&talk, endpoint, broken).await),
    }
}

/// Returns the problem of a server that accepted the connection, but not the handshake.
pub(super) async fn unusable(talk: &Talk, endpoint: &Endpoint, broken: Broken) -> Problem {
    let known = match (&talk.stream, &broken) {
        #[cfg(feature = "tls")]
        (Stream::Tls(encrypted), Broken::Io(error)) => encrypted.problem(error, endpoint),
        #[cfg(feature = "tls")]
        (Stream::Tls(_), Broken::NoReply | Broken::Disordered) => None,
        _ => probe(endpoint).await,
    };
    match (known, broken) {
        (Some(problem), _) => problem,
        (None, Broken::NoReply | Broken::Disordered) => Problem::no_protocol(),
        (None, Broken::Io(error)) => Problem::broken(error),
    }
}

/// Returns the problem of a server that was silent for this long. A server without TLS doesn't answer the
/// first bytes of a TLS client.
pub(super) async fn silent(endpoint: &Endpoint, patience: Duration) -> Problem {
    #[cfg(feature = "tls")]
    if endpoint.tls.is_some() && super::tls::is_plain(&endpoint.place).await {
        return Problem::plain_port(endpoint);
    }
    let _ = endpoint;
    Problem::late_answer(patience)
}

enum Failed {
    Broken(Broken),
    Refused(Problem),
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

async fn introduce(talk: &mut Talk, endpoint: &Endpoint) -> Result<(), Failed> {
    let refused = |words: &[u8]| Failed::Refused(Problem::of_connection(words, endpoint));
    let is_node = matches!(endpoint.part, Part::Node);
    let hello = match talk.ask(&Command::of(&[b"HELLO"])).await? {
        // A server that hides its kind may still be able to decide.
        Value::Error(words) if words.starts_with(b"NOPERM") => Value::Nil,
        Value::Error(words) => return Err(refused(&words)),
        hello @ Value::Array(_) => hello,
        _ => return Err(Failed::Broken(Broken::NoReply)),
    };
    match (said(&hello, "mode"), said(&hello, "role")) {
        (Some("sentinel"), _) => return Err(Failed::Refused(Problem::sentinel(endpoint))),
        (Some("standalone"), _) if is_node => {
            return Err(Failed::Refused(Problem::no_cluster(endpoint)));
        }
        (Some("cluster"), _) if !is_node && !has_all_keys(talk).await? => {
            return Err(Failed::Refused(Problem::cluster_node(endpoint)));
        }
        (_, Some("replica" | "slave")) => {
            let primary = primary_of(talk).await?;
            return Err(Failed::Refused(Problem::replica(primary.as_deref(), endpoint)));
        }
        _ => {}
    }
    if endpoint.database != 0 {
        let mut select = Command::of(&[b"SELECT"]);
        if let Value::Error(words) = talk.ask(select.number(endpoint.database.into())).await? {
            return Err(refused(&words));
        }
    }
    // Check now whether the user is permitted to wait, because calls that can't be acknowledged would be
    // charged permanently.
    if endpoint.waits
        && let Value::Error(words) = talk.ask(&Command::of(&[b"WAIT", b"0", b"0"])).await?
    {
        return Err(Failed::Refused(Problem::without_wait(&words, endpoint)));
    }
    Ok(())
}

/// Returns the value of a name in a list of names and values.
fn said<'v>(list: &'v Value, name: &str) -> Option<&'v str> {
    let Value::Array(items) = list else { return None };
    let mut pairs = items.chunks_exact(2);
    text(&pairs.find(|pair| text(&pair[0]) == Some(name))?[1])
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bytes(text) | Value::Status(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// Returns whether one node of the cluster has all the keys, so that it can decide as long as that is so. If
/// the user isn't permitted to ask, the first key on another node will show it.
async fn has_all_keys(talk: &mut Talk) -> Result<bool, Broken> {
    let info = talk.ask(&Command::of(&[b"CLUSTER", b"INFO"])).await?;
    let all = ["cluster_slots_assigned:16384", "cluster_size:1"];
    Ok(text(&info).is_none_or(|info| all.iter().all(|all| info.lines().any(|line| line == *all))))
}

/// Returns the address of the server that a replica copies, if the user is permitted to ask.
async fn primary_of(talk: &mut Talk) -> Result<Option<String>, Broken> {
    let role = talk.ask(&Command::of(&[b"ROLE"])).await?;
    let Value::Array(role) = &role else { return Ok(None) };
    let [_, host, Value::Int(port), ..] = role.as_slice() else { return Ok(None) };
    let port = u16::try_from(*port).ok();
    let host = text(host).zip(port).map(|(name, port)| Host { name: name.to_owned(), port });
    Ok(host.map(|host| host.to_string()))
}

/// Finds out what breaks connections before it answers: a TLS port answers with a TLS record, and a full
/// server sends an unrequested line.
async fn probe(endpoint: &Endpoint) -> Option<Problem> {
    let answer = first_bytes(endpoint, CLIENT_HELLO).await?;
    if answer.first().is_some_and(|first| RECORDS.contains(first)) {
        return Some(Problem::tls_port(endpoint));
    }
    let answer = first_bytes(endpoint, &[]).await?;
    Some(Problem::of_greeting(&String::from_utf8_lossy(answer.strip_prefix(b"-")?)))
}

/// Returns the first bytes of the answer on a new connection; `None` if it ends first, or after a timeout.
async fn first_bytes(endpoint: &Endpoint, words: &[u8]) -> Option<Vec<u8>> {
    let asking = async {
        let mut stream = Stream::bare(&endpoint.place).await?;
        stream.write_all(words).await?;
        let mut answer = vec![0; 512];
        let length = stream.read(&mut answer).await?;
        answer.truncate(length);
        Ok::<_, io::Error>(answer)
    };
    Some(tokio::time::timeout(PROBE, asking).await.ok().and_then(Result::ok).unwrap_or_default())
}
