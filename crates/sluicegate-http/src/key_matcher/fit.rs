//! Checks which keys an entry can match.

use super::{KeyMatcher, Pattern};
use crate::cidr::Cidr;
use crate::client_address::ClientAddress;
use crate::key_component::KeyComponent;
use crate::key_expression::KeyExpression;

impl KeyMatcher {
    /// Explains why the entry matches no key of `expression`, and what to write instead. Returns
    /// `None` if it may match one. `address` finds the client's address.
    ///
    /// ```
    /// use sluicegate_http::{ClientAddress, KeyExpression, KeyMatcher};
    ///
    /// let expression: KeyExpression = "header:x-tenant+user".parse()?;
    /// let why_never = |entry: &str| {
    ///     let entry: KeyMatcher = entry.parse().unwrap();
    ///     entry.why_never(&expression, &ClientAddress::peer())
    /// };
    /// assert_eq!(why_never("acme|*"), None);
    /// assert_eq!(
    ///     why_never("acme").unwrap(),
    ///     "`acme` matches no key made by `header:x-tenant+user`, which has 2 components: write `acme|*`"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn why_never(&self, expression: &KeyExpression, address: &ClientAddress) -> Option<String> {
        let misfit =
            |components| self.misfit(components).or_else(|| self.masked(components, address));
        let misfits: Option<Vec<Misfit>> = expression.alternatives().map(misfit).collect();
        let misfits = misfits?;
        // The nearest misfit is probably what the author meant.
        let nearest = misfits.iter().find(|misfit| matches!(misfit, Misfit::Masked(..)));
        Some(self.told(nearest.or(misfits.first())?, expression))
    }

    /// Explains why no request has the address, method or path that the entry names, and what to
    /// write instead. Returns `None` if one may have it. A key that is given as text, as over the
    /// HTTP API, can still match.
    ///
    /// ```
    /// use sluicegate_http::{KeyExpression, KeyMatcher};
    ///
    /// let ip = KeyExpression::default();
    /// assert_eq!("10.0.0.0/16".parse::<KeyMatcher>()?.why_unlike(&ip), None);
    /// assert_eq!(
    ///     "10.0.*".parse::<KeyMatcher>()?.why_unlike(&ip).unwrap(),
    ///     "`10.0.*` matches no key made by `ip`, because `10.0.*` isn't an address: write one, or a range such as 10.0.0.0/8"
    /// );
    /// # Ok::<(), sluicegate_http::KeyMatcherError>(())
    /// ```
    #[must_use]
    pub fn why_unlike(&self, expression: &KeyExpression) -> Option<String> {
        let unlike = |components: &[KeyComponent]| match components {
            [component] => self.as_text().and_then(|text| text.why_unlike(component)),
            _ => {
                let mut pairs = self.components.iter().zip(components);
                pairs.find_map(|(pattern, component)| pattern.why_unlike(component))
            }
        };
        let whys: Option<Vec<String>> = expression.alternatives().map(unlike).collect();
        let why = whys?.into_iter().next()?;
        Some(format!("`{self}` matches no key made by `{expression}`, because {why}"))
    }

    /// Returns whether the entry concerns the keys of the alternative at `index` of `expression`.
    /// Indexes beyond the last mean alternatives of keys that are made by code.
    ///
    /// Text names the components of the first alternative that it fits. It has no meaning in a later
    /// alternative with other components: a client could put itself on a list by sending a field. The
    /// exception is a component that is the same text in all keys, which no client can choose.
    pub(super) fn concerns(&self, index: usize, expression: &KeyExpression) -> bool {
        let has_text = self.components.iter().any(Pattern::has_text);
        if !has_text {
            return true;
        }
        let fits = |components: &&[KeyComponent]| self.misfit(components).is_none();
        let alternatives = || expression.alternatives().enumerate().filter(|(_, it)| fits(it));
        // An entry with several components is meant for keys that have several.
        let is_joined = self.components.len() > 1;
        let meant = alternatives().find(|(_, it)| (it.len() > 1) == is_joined);
        let Some((first, meant)) = meant.or_else(|| alternatives().next()) else {
            return index == 0;
        };
        let Some((_, own)) = alternatives().find(|(own, _)| *own == index) else {
            return false;
        };
        let same = |(at, pattern): (usize, &Pattern)| {
            !pattern.has_text()
                || own.get(at) == meant.get(at)
                || matches!(own.get(at), Some(KeyComponent::Literal(_)))
        };
        let is_like = (own.len() > 1) == (meant.len() > 1);
        index == first || is_like && self.components.iter().enumerate().all(same)
    }

    /// Returns the entry for keys of one component, in which `|` is a character like others; `None`
    /// if it has no such text.
    pub(super) fn as_text(&self) -> Option<Pattern> {
        let mut text = Vec::new();
        let mut is_open = false;
        for (index, component) in self.components.iter().enumerate() {
            if is_open {
                return None;
            }
            if index > 0 {
                text.push(b'|');
            }
            match component {
                Pattern::Exact(bytes) => text.extend_from_slice(bytes),
                Pattern::Prefix(bytes) => {
                    text.extend_from_slice(bytes);
                    is_open = true;
                }
                Pattern::Range(_) if self.components.len() == 1 => return None,
                Pattern::Range(range) => text.extend_from_slice(range.to_string().as_bytes()),
            }
        }
        let text = text.into();
        Some(if is_open { Pattern::Prefix(text) } else { Pattern::Exact(text) })
    }

    fn is_open(&self) -> bool {
        matches!(self.components.last(), Some(Pattern::Prefix(_)))
    }

    /// Returns why keys of these components never match, with any values.
    fn misfit(&self, components: &[KeyComponent]) -> Option<Misfit> {
        let has_address = components.contains(&KeyComponent::Ip);
        match (&*self.components, components) {
            ([Pattern::Range(range)], _) => {
                return (!has_address).then_some(Misfit::NoAddress(*range));
            }
            (_, [component]) => {
                if let Some(text) = self.as_text() {
                    let is_other = matches!(component, KeyComponent::Literal(own)
                        if !text.matches_text(own.as_bytes()));
                    return is_other.then(|| Misfit::Literal(0, component.clone()));
                }
            }
            _ => {}
        }
        let (own, theirs) = (self.components.len(), components.len());
        if own > theirs || (own < theirs && !self.is_open()) {
            return Some(Misfit::Count(theirs));
        }
        let pairs = self.components.iter().zip(components);
        pairs.enumerate().find_map(|(at, (pattern, component))| match (pattern, component) {
            (Pattern::Range(range), component) if *component != KeyComponent::Ip => {
                Some(Misfit::NotTheAddress(*range, at, component.clone()))
            }
            (pattern, KeyComponent::Literal(text)) if !pattern.matches_text(text.as_bytes()) => {
                Some(Misfit::Literal(at, component.clone()))
            }
            (Pattern::Exact(text), _) if text.is_empty() => {
                (!matches!(component, KeyComponent::Literal(_))).then_some(Misfit::Empty(at))
            }
            _ => None,
        })
    }

    /// Returns a range that is narrower than the networks that clients are limited as.
    fn masked(&self, components: &[KeyComponent], address: &ClientAddress) -> Option<Misfit> {
        if let [_] = components
            && self.components.len() > 1
        {
            return None;
        }
        self.components.iter().find_map(|component| {
            let Pattern::Range(range) = component else { return None };
            let network = address.network_of(range.address());
            // An IPv4 address inside of an IPv6 address is limited as the former.
            let is_unwrapped = range.address().is_ipv6() != network.address().is_ipv6();
            (range.len() > network.len() && !is_unwrapped)
                .then_some(Misfit::Masked(*range, network))
        })
    }

    fn told(&self, misfit: &Misfit, expression: &KeyExpression) -> String {
        let ordinal = |at: &usize| at + 1;
        match misfit {
            Misfit::NoAddress(range) => {
                format!("`{range}` matches no key made by `{expression}`, which has no `ip`")
            }
            Misfit::NotTheAddress(range, at, component) => format!(
                "`{self}` matches no key made by `{expression}`: component {} is `{component}`, and the range `{range}` matches only `ip`",
                ordinal(at)
            ),
            Misfit::Masked(range, network) => format!(
                "`{range}` matches no key, because only the first {} bits of an address count: write {}",
                network.len(),
                self.with(*range, *network)
            ),
            Misfit::Literal(at, component) => format!(
                "`{self}` matches no key made by `{expression}`: component {} is always {component}",
                ordinal(at)
            ),
            Misfit::Empty(at) => format!(
                "`{self}` matches no key made by `{expression}`: component {} is never empty; write `*` for any",
                ordinal(at)
            ),
            Misfit::Count(count) => {
                let components = if *count == 1 { "component" } else { "components" };
                let hint = if self.components.len() < *count {
                    format!("write `{self}|*`")
                } else {
                    "write as many, and `\\|` for a `|` inside of one".to_owned()
                };
                let which = if expression.alternatives().len() == 1 {
                    format!("which has {count} {components}")
                } else {
                    format!("whose first alternative has {count} {components}")
                };
                format!("`{self}` matches no key made by `{expression}`, {which}: {hint}")
            }
        }
    }

    /// Returns the entry with `network` in the place of `range`.
    fn with(&self, range: Cidr, network: Cidr) -> Self {
        let components = self.components.iter().map(|component| match component {
            Pattern::Range(own) if *own == range => Pattern::Range(network),
            other => other.clone(),
        });
        Self { components: components.collect() }
    }
}

/// The reason why an entry matches no key.
#[derive(Debug)]
enum Misfit {
    /// A range alone, and the key has no address.
    NoAddress(Cidr),
    /// A range in the place of another component.
    NotTheAddress(Cidr, usize, KeyComponent),
    /// A range inside of the network that a client is limited as.
    Masked(Cidr, Cidr),
    /// Other text than the component always is.
    Literal(usize, KeyComponent),
    /// No text, where a component is never empty.
    Empty(usize),
    /// The keys have another number of components.
    Count(usize),
}

impl Pattern {
    /// Returns whether the pattern tells texts apart.
    fn has_text(&self) -> bool {
        match self {
            Self::Exact(_) => true,
            Self::Prefix(text) => !text.is_empty(),
            Self::Range(_) => false,
        }
    }

    /// Explains why no request has such a component.
    fn why_unlike(&self, component: &KeyComponent) -> Option<String> {
        let (Self::Exact(text) | Self::Prefix(text)) = self else { return None };
        match component {
            _ if text.is_empty() => None,
            KeyComponent::Ip => {
                Some(format!("`{self}` isn't an address: write one, or a range such as 10.0.0.0/8"))
            }
            KeyComponent::Method if text.iter().any(u8::is_ascii_lowercase) => Some(format!(
                "methods are sent in capital letters: write `{}`",
                self.to_string().to_ascii_uppercase()
            )),
            KeyComponent::Path if !text.starts_with(b"/") => {
                Some(format!("a path begins with `/`: write `/{self}`"))
            }
            _ => None,
        }
    }

    fn matches_text(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(own) => **own == *text,
            Self::Prefix(own) => text.starts_with(own),
            Self::Range(_) => false,
        }
    }
}
