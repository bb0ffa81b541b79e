//! The first contact with a server: whether it is one that can decide, and if not, what it is.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::endpoint::{Endpoint, authority};
use super::problem::Problem;

/// How long each question may take to what breaks connections.
const PROBE: Duration = Duration::from_millis(100);

/// The beginning of a TLS connection, as short as it can be: a record with a client's hello, for
/// TLS 1.2, with 32 bytes that should be random, no session, one cipher and no compression. Whether
/// or not a TLS port likes it, it answers with a record.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03\
    ................................\x00\x00\x02\xc0\x2f\x01\x00";
/// What the records begin with that answer it: an alert, or the handshake.
const RECORDS: [u8; 2] = [0x15, 0x16];

/// Connects, and turns to the database if the server is one that can decide.
pub(super) async fn connect(
    endpoint: &Endpoint,
    config: &redis::AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Problem> {
    let failed = |error: RedisError| Problem::of_connection(&error, endpoint);
    let connecting = endpoint.client.get_multiplexed_async_connection_with_config(config);
    let mut connection = match connecting.await {
        Ok(connection) => connection,
        Err(error) if error.kind() == ErrorKind::Parse => {
            return Err(probe(endpoint).await.unwrap_or_else(|| failed(error)));
        }
        // It took the connection, but not for Redis' first words.
        Err(error) if error.is_connection_dropped() && !error.is_connection_refusal() => {
            return Err(probe(endpoint).await.unwrap_or_else(|| Problem::broken(error)));
        }
        Err(error) => return Err(failed(error)),
    };
    // A server that doesn't say what it is may decide nevertheless.
    let hello = match ask(&mut connection, &redis::cmd("HELLO")).await {
        Err(error) if error.is_io_error() => return Err(failed(error)),
        hello => hello.unwrap_or_default(),
    };
    match (said(&hello, "mode"), said(&hello, "role")) {
        (Some("sentinel"), _) => return Err(Problem::sentinel(endpoint)),
        (Some("cluster"), _) if !has_all_keys(&mut connection).await => {
            return Err(Problem::cluster_node(endpoint));
        }
        (_, Some("replica" | "slave")) => {
            return Err(Problem::replica(primary_of(&mut connection).await.as_deref()));
        }
        _ => {}
    }
    if endpoint.database != 0 {
        let select = redis::cmd("SELECT").arg(endpoint.database).to_owned();
        ask(&mut connection, &select).await.map_err(failed)?;
    }
    Ok(connection)
}

async fn ask(connection: &mut MultiplexedConnection, command: &redis::Cmd) -> RedisResult<Value> {
    connection.send_packed_command(command).await.and_then(Value::extract_error)
}

/// What a map has under a name.
fn said<'v>(map: &'v Value, name: &str) -> Option<&'v str> {
    let Value::Map(pairs) = map else { return None };
    let pair = pairs.iter().find(|(known, _)| text(known) == Some(name));
    pair.and_then(|(_, value)| text(value))
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// Whether one node of the cluster has all the keys, and so can decide for as long as that is so.
/// Where the user may not ask, the first key that is elsewhere will tell.
async fn has_all_keys(connection: &mut MultiplexedConnection) -> bool {
    let info = ask(connection, redis::cmd("CLUSTER").arg("INFO")).await.unwrap_or_default();
    let all = ["cluster_slots_assigned:16384", "cluster_size:1"];
    text(&info).is_none_or(|info| all.iter().all(|all| info.lines().any(|line| line == *all)))
}

/// The URL of the server that a replica copies, if the user may ask for it.
async fn primary_of(connection: &mut MultiplexedConnection) -> Option<String> {
    let Value::Array(role) = ask(connection, &redis::cmd("ROLE")).await.ok()? else {
        return None;
    };
    let [_, host, Value::Int(port), ..] = role.as_slice() else { return None };
    Some(format!("redis://{}", authority(text(host)?, u16::try_from(*port).ok()?)))
}

/// What it is that takes connections and breaks them before it answers, if it shows that in another
/// way: a TLS port by a TLS record, a full server by words that it doesn't wait to be asked for.
async fn probe(endpoint: &Endpoint) -> Option<Problem> {
    let answer = first_bytes(endpoint, CLIENT_HELLO).await?;
    if answer.first().is_some_and(|first| RECORDS.contains(first)) {
        return Some(Problem::tls_port(endpoint));
    }
    let answer = first_bytes(endpoint, &[]).await?;
    Some(Problem::of_greeting(&String::from_utf8_lossy(answer.strip_prefix(b"-")?)))
}

/// What is answered first on a new connection; nothing, if that ends first, or after a while.
async fn first_bytes(endpoint: &Endpoint, words: &[u8]) -> Option<Vec<u8>> {
    let address = endpoint.host_and_port()?;
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(words).await?;
        let mut answer = vec![0; 512];
        let length = stream.read(&mut answer).await?;
        answer.truncate(length);
        Ok::<_, std::io::Error>(answer)
    };
    Some(tokio::time::timeout(PROBE, asking).await.ok().and_then(Result::ok).unwrap_or_default())
}
