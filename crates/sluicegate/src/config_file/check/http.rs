//! The settings for HTTP requests and responses.

use std::num::NonZeroU8;

use sluicegate_http::{
    AddressHeader, Cidr, CidrError, ClientAddress, ClientAddressError, FieldFormat,
    FieldFormatError, ForwardedFields, ForwardedFieldsError,
};

use super::{Checked, Checker, excerpt, field};
use crate::config_file::http::HttpConfig;
use crate::config_file::tree::{Node, Value};

/// The source of the client's address.
enum AddressFrom {
    Peer,
    Header(AddressHeader),
    Hops(NonZeroU8),
}

impl Checker<'_> {
    pub(super) fn http(&mut self, node: &Node) -> Option<HttpConfig> {
        const FIELDS: [&str; 6] = [
            "client_address",
            "trusted_proxies",
            "ipv4_prefix",
            "ipv6_prefix",
            "fields",
            "forwarded_request",
        ];
        let fields = self.fields(node, "http", &FIELDS)?;
        let from = match field(&fields, "client_address") {
            Some(node) => self.address_from(node),
            None => Some(AddressFrom::Peer),
        };
        let proxies = field(&fields, "trusted_proxies");
        let trusted = match proxies {
            Some(node) => self.ranges(node),
            None => Some(Vec::new()),
        };
        let address = from.zip(trusted).and_then(|(from, trusted)| {
            let at = field(&fields, "client_address").or(proxies).unwrap_or(node);
            self.client_address(from, trusted, proxies, at)
        });
        let address = match field(&fields, "ipv4_prefix") {
            Some(node) => {
                let bits = self.bits(node, "http.ipv4_prefix", 32);
                address.zip(bits).and_then(|(address, bits)| address.ipv4_prefix(bits).ok())
            }
            None => address,
        };
        let address = match field(&fields, "ipv6_prefix") {
            Some(node) => {
                let bits = self.bits(node, "http.ipv6_prefix", 128);
                if let Some(65..) = bits {
                    let message = "http.ipv6_prefix: above 64, one client has many keys, because it can use any address of its network";
                    self.warnings.report(node.position, message);
                }
                address.zip(bits).and_then(|(address, bits)| address.ipv6_prefix(bits).ok())
            }
            None => address,
        };
        let format = field(&fields, "fields").map(|node| self.field_format(node));
        let forwarded =
            field(&fields, "forwarded_request").map(|node| self.forwarded_request(node));
        Some(HttpConfig {
            client_address: address?,
            fields: format.unwrap_or_default_if_absent()?,
            forwarded_request: forwarded.unwrap_or_default_if_absent()?,
        })
    }

    fn client_address(
        &mut self,
        from: AddressFrom,
        trusted: Vec<Cidr>,
        proxies: Option<&Node>,
        at: &Node,
    ) -> Option<ClientAddress> {
        let everybody = trusted.iter().any(|range| range.len() == 0);
        match from {
            AddressFrom::Peer => {
                if let Some(proxies) = proxies {
                    let message = "http.trusted_proxies: has an effect only on `/v1/auth/…` of the service while `client_address` is peer, and there `ip` is the proxy's address";
                    self.warnings.report(proxies.position, message);
                }
                Some(match proxies {
                    Some(_) => ClientAddress::peer_trusting(trusted),
                    None => ClientAddress::peer(),
                })
            }
            _ if trusted.is_empty() => {
                let message = "is read only from trusted proxies, and there are none: add `trusted_proxies` such as [10.0.0.0/8]";
                self.report(at.position, "http.client_address", message);
                None
            }
            AddressFrom::Header(header) => {
                if everybody && let Some(proxies) = proxies {
                    let message = "http.trusted_proxies: trusts all clients, so any client can choose its address";
                    self.warnings.report(proxies.position, message);
                }
                Some(ClientAddress::behind(trusted, header))
            }
            AddressFrom::Hops(hops) => {
                ClientAddress::behind_hops(trusted, AddressHeader::XForwardedFor, hops)
                    .map_err(|error: ClientAddressError| {
                        self.report(at.position, "http.client_address", &error.to_string());
                    })
                    .ok()
            }
        }
    }

    fn address_from(&mut self, node: &Node) -> Option<AddressFrom> {
        const WANTED: &str = "one of peer, forwarded, x-forwarded-for, header:NAME, hops:N";
        const PATH: &str = "http.client_address";
        let text = self.text(node, PATH, WANTED)?;
        let found = match text.split_once(':') {
            None => match text {
                "peer" => Some(AddressFrom::Peer),
                "forwarded" => Some(AddressFrom::Header(AddressHeader::Forwarded)),
                "x-forwarded-for" => Some(AddressFrom::Header(AddressHeader::XForwardedFor)),
                _ => None,
            },
            Some(("header", name)) => match name.trim().parse::<AddressHeader>() {
                Ok(header) => Some(AddressFrom::Header(header)),
                Err(error) => {
                    self.report(node.position, PATH, &error.to_string());
                    return None;
                }
            },
            Some(("hops", hops)) => {
                let digits = hops.trim();
                let number =
                    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse());
                number.and_then(Result::ok).map(AddressFrom::Hops)
            }
            Some(_) => None,
        };
        if found.is_none() {
            self.report(node.position, PATH, &format!("`{}` must be {WANTED}", excerpt(text)));
        }
        found
    }

    fn ranges(&mut self, node: &Node) -> Option<Vec<Cidr>> {
        const PATH: &str = "http.trusted_proxies";
        let Value::List(nodes) = &node.value else {
            self.expected(node, PATH, "a list of ranges of addresses such as [10.0.0.0/8]");
            return None;
        };
        let ranges = nodes.iter().enumerate().map(|(index, node)| {
            let path = format!("{PATH}[{index}]");
            let text = self.text(node, &path, "a range of addresses such as 10.0.0.0/8")?;
            text.parse()
                .map_err(|error: CidrError| self.report(node.position, &path, &error.to_string()))
                .ok()
        });
        ranges.collect::<Vec<_>>().into_iter().collect()
    }

    fn bits(&mut self, node: &Node, path: &str, most: u8) -> Option<u8> {
        let number = self.number(node).filter(|bits| *bits <= most);
        if number.is_none() {
            self.expected(node, path, &format!("a whole number from 0 to {most}"));
        }
        number
    }

    fn forwarded_request(&mut self, node: &Node) -> Option<ForwardedFields> {
        let text = self.text(node, "http.forwarded_request", "x-forwarded or x-original")?;
        text.parse()
            .map_err(|error: ForwardedFieldsError| {
                self.report(node.position, "http.forwarded_request", &error.to_string());
            })
            .ok()
    }

    fn field_format(&mut self, node: &Node) -> Option<FieldFormat> {
        let text =
            self.text(node, "http.fields", "a format of response fields such as draft-11")?;
        text.parse()
            .map_err(|error: FieldFormatError| {
                self.report(node.position, "http.fields", &error.to_string());
            })
            .ok()
    }
}
