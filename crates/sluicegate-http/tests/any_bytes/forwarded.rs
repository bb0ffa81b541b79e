//! Any bytes in the field with the client's address.
//!
//! | bytes | input |
//! | --- | --- |
//! | 1 | which field |
//! | 1 | the number of hops; 0 skips trusted addresses instead |
//! | … | the lines of the field, separated by line breaks |

use std::net::IpAddr;
use std::num::NonZeroU8;

use http::{HeaderName, HeaderValue, Request};
use sluicegate_http::{AddressHeader, Cidr, ClientAddress, Peer};

const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));
const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// Panics if the address of a client is wrong.
pub(crate) fn holds(input: &[u8]) {
    let Some((&[field, hops], lines)) = input.split_first_chunk() else { return };
    let header = match field % 4 {
        0 => AddressHeader::Forwarded,
        1 => AddressHeader::XForwardedFor,
        2 => AddressHeader::X_REAL_IP,
        _ => AddressHeader::CLOUDFRONT_VIEWER_ADDRESS,
    };
    let lines: Vec<Vec<u8>> = lines.split(|&byte| byte == b'\n').map(field_value).collect();
    let is_chain = field % 4 < 2;
    let hops = NonZeroU8::new(hops % 5).filter(|_| is_chain);
    let policy = policy(&header, hops);

    let by_stranger = request(STRANGER, header.name(), &lines);
    assert_eq!(policy.find(&by_stranger), Some(STRANGER), "{lines:?}");
    let by_proxy = request(PROXY, header.name(), &lines);
    assert!(policy.find(&by_proxy).is_some());
    let network = policy.network(&by_proxy).expect("there is a peer");
    assert_eq!(network.to_string().parse(), Ok(network));

    if is_chain {
        // The stranger sends the lines to the first of two or more proxies.
        let proxies = hops.map_or(2, |hops| hops.get().max(1));
        let elements = (1..proxies).map(|_| "10.0.0.2").collect::<Vec<_>>();
        let elements = std::iter::once("198.51.100.7").chain(elements).map(|address| {
            if header == AddressHeader::Forwarded {
                format!("for={address}")
            } else {
                address.into()
            }
        });
        let elements: Vec<String> = elements.collect();
        let mut as_lines = lines.clone();
        as_lines.extend(elements.iter().map(|element| element.clone().into_bytes()));
        let mut on_one_line = lines;
        let last = on_one_line.last_mut().expect("splitting makes one at least");
        last.extend_from_slice(format!(", {}", elements.join(", ")).as_bytes());
        for lines in [as_lines, on_one_line] {
            let request = request(PROXY, header.name(), &lines);
            assert_eq!(policy.find(&request), Some(STRANGER), "{lines:?}");
        }
    }
}

fn policy(header: &AddressHeader, hops: Option<NonZeroU8>) -> ClientAddress {
    let trusted: [Cidr; 1] = ["10.0.0.0/8".parse().expect("a range")];
    match hops {
        None => ClientAddress::behind(trusted, header.clone()),
        Some(hops) => ClientAddress::behind_hops(trusted, header.clone(), hops).expect("a chain"),
    }
}

/// Returns the bytes of a line that a server accepts.
fn field_value(line: &[u8]) -> Vec<u8> {
    line.iter().copied().filter(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f).collect()
}

fn request(peer: IpAddr, name: &HeaderName, lines: &[Vec<u8>]) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(Peer((peer, 4711).into()));
    for line in lines {
        let value = HeaderValue::from_bytes(line).expect("no byte that a value can't have");
        request.headers_mut().append(name, value);
    }
    request
}
