//! A cluster as one of its nodes sees it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The answer of one node to `CLUSTER NODES`.
#[derive(Debug)]
pub(super) struct View(BTreeMap<String, Member>);

#[derive(Debug, PartialEq, Eq)]
struct Member {
    /// `IP:PORT@BUS,HOSTNAME,…`, where the hostname and the rest may be missing.
    address: String,
    flags: Vec<String>,
    /// The id of its primary; `-` for a primary.
    primary: String,
    is_connected: bool,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    pub(super) fn parse(text: &str) -> Self {
        let members = text.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [id, address, flags, primary, _, _, _, link, slots @ ..] = fields.as_slice() else {
                return None;
            };
            let member = Member {
                address: (*address).to_owned(),
                flags: flags.split(',').map(str::to_owned).collect(),
                primary: (*primary).to_owned(),
                is_connected: *link == "connected",
                // Slots that are being moved are in brackets and aren't numbers.
                slots: slots.iter().filter_map(|range| parse_range(range)).collect(),
            };
            Some(((*id).to_owned(), member))
        });
        Self(members.collect())
    }

    pub(super) fn owner(&self, slot: u16) -> Option<String> {
        let serves = |member: &Member| member.slots.iter().any(|range| range.contains(&slot));
        self.0.iter().find(|(_, member)| serves(member)).map(|(id, _)| id.clone())
    }

    pub(super) fn replicas_of(&self, id: &str) -> Vec<String> {
        let replicas = self.0.iter().filter(|(_, member)| member.primary == id);
        replicas.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn is_primary(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|member| member.has_flag("master"))
    }

    /// Returns `true` if the node has this address, if one is given, and this name, which may be
    /// empty.
    pub(super) fn is_at(&self, id: &str, address: Option<(&String, u16)>, hostname: &str) -> bool {
        let Some(member) = self.0.get(id) else { return false };
        let mut words = member.address.split(',');
        let begin = address.map(|(ip, port)| format!("{ip}:{port}@"));
        let shown = words.next().unwrap_or_default();
        begin.is_none_or(|begin| shown.starts_with(&begin))
            && words.next().unwrap_or_default() == hostname
    }

    /// Checks that it shows exactly these nodes, and for each whether it runs.
    pub(super) fn check<'a>(
        &self,
        nodes: impl ExactSizeIterator<Item = (&'a str, bool)>,
    ) -> Result<(), String> {
        let count = nodes.len();
        for (id, is_running) in nodes {
            let member = self.0.get(id).ok_or_else(|| format!("{id} is missing in {self:?}"))?;
            let is_sound = member.is_connected
                && !["fail", "fail?", "handshake", "noaddr"].iter().any(|it| member.has_flag(it));
            if is_running && !is_sound {
                return Err(format!("{id} should be sound in {self:?}"));
            }
            let is_gone = member.has_flag("fail") && member.slots.is_empty();
            if !is_running && !is_gone {
                return Err(format!("{id} should be missed in {self:?}"));
            }
        }
        if count == self.0.len() { Ok(()) } else { Err(format!("strangers in {self:?}")) }
    }

    /// Returns `true` if both views have the same primaries with the same slots and replicas.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let roles = |view: &Self| -> Vec<_> {
            let gone = |member: &Member| member.has_flag("fail");
            let all = view.0.iter().filter(|(_, member)| !gone(member));
            all.map(|(id, member)| {
                (id.clone(), member.primary.clone(), format!("{:?}", member.slots))
            })
            .collect()
        };
        roles(self) == roles(other)
    }
}

impl Member {
    fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
