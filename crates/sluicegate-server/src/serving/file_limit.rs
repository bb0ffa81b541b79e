//! The number of connections that the system's file limit permits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of connections of a listener for probes and scrapers, which are few.
pub(crate) const FEW_CONNECTIONS: usize = 32;

/// Files that aren't connections of clients: connections to the store, listeners, the config file,
/// and the few connections of probes and scrapers.
const OWN_FILES: u64 = 160;

/// Returns the wanted number of connections of each of `listeners` listeners, or fewer if the file
/// limit is too low. Raises the process's limit as far as needed and permitted.
pub(crate) fn most_connections(wanted: usize, listeners: usize) -> usize {
    let all = (wanted as u64).saturating_mul(listeners as u64);
    let needed = all.saturating_add(OWN_FILES);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let may_have = maximum.unwrap_or(u64::MAX).min(needed);
    let has = current.unwrap_or(u64::MAX);
    let has = if has < may_have {
        let raised = Rlimit { current: Some(may_have), maximum };
        setrlimit(Resource::Nofile, raised).map_or(has, |()| may_have)
    } else {
        has
    };
    let most = within(wanted, listeners, has);
    if most < wanted {
        let each = if listeners > 1 { " for each listener" } else { "" };
        tracing::warn!(
            "at most {most} connections instead of {wanted}{each}, because this process may open \
             {has} files: raise that to {needed} (`ulimit -n`, `LimitNOFILE`), or lower \
             `service.max_connections`"
        );
    }
    most
}

/// Returns the number of connections that `files` files permit each listener. If the files are very
/// few, half of them are for connections.
fn within(wanted: usize, listeners: usize, files: u64) -> usize {
    let left = files.saturating_sub(OWN_FILES).max(files / 2);
    let each = (left / listeners.max(1) as u64).max(1);
    usize::try_from(each).map_or(wanted, |each| each.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (files, listeners, expected) in [
            (20_000, 1, 10_000),
            (10_160, 1, 10_000),
            (10_159, 1, 9_999),
            (10_160, 2, 5_000),
            (40_000, 3, 10_000),
            (1_024, 1, 864),
            (64, 1, 32),
            (64, 3, 10),
            (1, 1, 1),
            (1, 3, 1),
        ] {
            assert_eq!(within(10_000, listeners, files), expected, "{files} {listeners}");
        }
        assert_eq!(within(10, 1, 64), 10);
    }
}
