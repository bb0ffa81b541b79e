//! Tests clients that misuse HTTP/2, and garbage on every listener.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use axum::http::Request;

use crate::http2::{PREFACE, SETTINGS};
use crate::streams::{Streams, read};
use crate::support::{Client, File, Service};

const FREE: &str = "127.0.0.1:0";
const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Returns the encoded head of `GET /` from the static table, with the host `x`.
fn get() -> Vec<u8> {
    vec![0x82, 0x84, 0x86, 0x41, 1, b'x']
}

/// Connects, and sends the beginning of a connection of HTTP/2.
fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(SETTINGS).unwrap();
    stream
}

/// Reads until the service has closed the connection.
fn wait_until_closed(mut stream: TcpStream) {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it isn't closed: {error}"),
    }
}

/// Asserts that another client is served, and that the service's memory stays bounded.
fn assert_serves_others(service: &Service) {
    assert_eq!(service.post("/v1/check", CHECK).status, 200);
    let mebibytes = service.memory() >> 20;
    assert!(mebibytes < 200, "{mebibytes} MiB");
}

fn service(args: &[&str]) -> Service {
    let limits = "limits: {demo: {policies: [\"token_bucket 1000000/s burst 1000000\"]}}";
    let file = File::new("limits.yaml", limits);
    Service::start(&[&["--config", file.path()], args].concat())
}

#[test]
fn a_client_that_resets_its_streams_is_disconnected_or_served() {
    let service = service(&["--grpc", FREE]);
    for kind in ["http", "grpc"] {
        let address = service.address_of(kind);
        for _ in 0..10 {
            let mut stream = connect(address);
            let mut reader = stream.try_clone().unwrap();
            let answers = std::thread::spawn(move || {
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            });
            for number in 0..20_000_u32 {
                let id = 2 * number + 1;
                let open = frame(HEADERS, END_STREAM | END_HEADERS, id, &get());
                let reset = frame(RST_STREAM, 0, id, &[0, 0, 0, 8]);
                if stream.write_all(&[open, reset].concat()).is_err() {
                    break;
                }
            }
            assert_serves_others(&service);
            let _ = stream.shutdown(std::net::Shutdown::Both);
            answers.join().unwrap();
        }
    }
}

#[test]
fn a_client_opens_a_bounded_number_of_streams() {
    let service = service(&[]);
    let mut stream = connect(service.address());
    // None has its body.
    for number in 0..1_000_u32 {
        let open = frame(HEADERS, END_HEADERS, 2 * number + 1, &[&[0x83], &get()[1..]].concat());
        if stream.write_all(&open).is_err() {
            break;
        }
    }
    assert_serves_others(&service);
    drop(stream);
}

#[test]
fn endless_header_fields_end_the_connection() {
    let service = service(&["--grpc", FREE]);
    for kind in ["http", "grpc"] {
        let mut stream = connect(service.address_of(kind));
        // A field of 8,000 bytes, again and again.
        let mut field = vec![0x00, 1, b'a', 0x7f, 0xc1, 0x3d];
        field.extend(std::iter::repeat_n(b'v', 8_000));
        stream.write_all(&frame(HEADERS, 0, 1, &get())).unwrap();
        for _ in 0..10_000 {
            if stream.write_all(&frame(CONTINUATION, 0, 1, &field)).is_err() {
                break;
            }
        }
        assert_serves_others(&service);
        wait_until_closed(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_header_fields_that_is_too_long_is_refused() {
    let service = service(&[]);
    let streams = Streams::connect(service.address()).await;
    let long = "v".repeat(60_000);
    let request = Request::get("http://localhost/healthz").header("a", &long).body(()).unwrap();
    let refused = streams.ask(request).await;
    let status = refused.as_ref().map(|answer| answer.status);
    assert!(matches!(status, Ok(431) | Err(_)), "{refused:?}");
    assert_serves_others(&service);
}

/// The message claims to have 4 GiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_message_that_is_too_long_is_refused() {
    let service = service(&["--grpc", FREE]);
    let streams = Streams::connect(service.address_of("grpc")).await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for _ in 0..20 {
        let (response, mut sending) = streams.begin("POST", path, false).await.unwrap();
        sending.send_data(vec![0, 0xff, 0xff, 0xff, 0xff].into(), false).unwrap();
        let refused = read(response).await.unwrap();
        let status = refused.head.headers().get("grpc-status").map(|it| it.as_bytes().to_vec());
        assert!(status.is_some_and(|status| status != b"0"), "{refused:?}");
    }
    assert_serves_others(&service);
}

/// The client takes no byte of any answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_bounded() {
    let service = service(&["--grpc", FREE]);
    let (mut all, mut held, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20 {
        let streams = Streams::connect(service.address()).await;
        for _ in 0..90 {
            // Nothing is read from the body, so the window of the stream stays as it is.
            held.push(streams.begin("GET", "/v1/openapi.json", true).await.unwrap());
        }
        for kind in ["http", "grpc"] {
            let mut raw = connect(service.address_of(kind));
            for number in 0..500_u32 {
                let open = frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &get());
                if raw.write_all(&open).is_err() {
                    break;
                }
            }
            raws.push(raw);
        }
        all.push(streams);
    }
    assert_serves_others(&service);
    drop((held, raws, all));
}

/// Frames without a request, whose answers the client doesn't read.
#[test]
fn floods_of_small_frames_are_bounded() {
    const DATA: u8 = 0;
    const PRIORITY: u8 = 2;
    const SETTINGS_FRAME: u8 = 4;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    const UNKNOWN: u8 = 99;
    let service = service(&["--grpc", FREE]);
    let stream = frame(HEADERS, END_HEADERS, 1, &[&[0x83], &get()[1..]].concat());
    let floods = [
        frame(PING, 0, 0, &[7; 8]),
        frame(SETTINGS_FRAME, 0, 0, &[]),
        frame(SETTINGS_FRAME, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]),
        frame(DATA, 0, 1, &[]),
        frame(DATA, 8, 1, &[0]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
        frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 9]),
        frame(UNKNOWN, 0xff, 1, &[0; 100]),
    ];
    for kind in ["http", "grpc"] {
        for flood in &floods {
            let mut client = connect(service.address_of(kind));
            client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            client.write_all(&stream).unwrap();
            let many = flood.repeat(1_000);
            for _ in 0..100 {
                // The service closes the connection, or stops reading.
                if client.write_all(&many).is_err() {
                    break;
                }
            }
            assert_serves_others(&service);
        }
    }
}

#[test]
fn garbage_on_a_listener_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let unix = format!("unix:{}", path.display());
    let service = service(&["--grpc", FREE, "--metrics", FREE, "--health", FREE, "--admin", &unix]);
    let garbage: [&[u8]; 7] = [
        b"\0",
        &[0xff; 100_000],
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ];
    for kind in ["http", "grpc", "metrics", "health"] {
        for bytes in garbage {
            let mut stream = TcpStream::connect(service.address_of(kind)).unwrap();
            // A service that refuses the first bytes need not read the others.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            wait_until_closed(stream);
        }
    }
    for bytes in garbage {
        let mut stream = UnixStream::connect(&path).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_serves_others(&service);
    for (kind, path) in [("metrics", "/metrics"), ("health", "/healthz")] {
        let mut client = Client::connect(service.address_of(kind)).unwrap();
        assert_eq!(client.get(path).unwrap().status, 200, "{kind}");
    }
    assert!(UnixStream::connect(&path).is_ok());
}
