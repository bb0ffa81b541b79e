//! The number of connections that the system's file limit permits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that aren't client connections: connections to the store, listeners, the config file, and
/// connections of the health listener.
const OWN_FILES: u64 = 128;

/// Returns the wanted number of connections, or fewer if the file limit is too low. Raises the
/// process's limit as far as needed and permitted.
pub(crate) fn most_connections(wanted: usize) -> usize {
    let needed = (wanted as u64).saturating_add(OWN_FILES);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let may_have = maximum.unwrap_or(u64::MAX).min(needed);
    let has = current.unwrap_or(u64::MAX);
    let has = if has < may_have {
        let raised = Rlimit { current: Some(may_have), maximum };
        setrlimit(Resource::Nofile, raised).map_or(has, |()| may_have)
    } else {
        has
    };
    let most = within(wanted, has);
    if most < wanted {
        tracing::warn!(
            "at most {most} connections instead of {wanted}, because this process may open {has} \
             files: raise that to {needed} (`ulimit -n`, `LimitNOFILE`), or lower \
             `service.max_connections`"
        );
    }
    most
}

/// Returns the number of connections that `files` files permit: half of the files if they are very
/// few.
fn within(wanted: usize, files: u64) -> usize {
    let left = files.saturating_sub(OWN_FILES).max(files / 2).max(1);
    usize::try_from(left).map_or(wanted, |left| left.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        assert_eq!(within(10_000, 20_000), 10_000);
        assert_eq!(within(10_000, 10_128), 10_000);
        assert_eq!(within(10_000, 10_127), 9_999);
        assert_eq!(within(10_000, 1_024), 896);
        assert_eq!(within(10_000, 64), 32);
        assert_eq!(within(10, 64), 10);
        assert_eq!(within(10_000, 1), 1);
    }
}
