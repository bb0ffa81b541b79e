//! Tests `config check --connect` on unusable stores: the problem, and the fix that it suggests.

use std::path::Path;

use sluicegate_testkit::proxy::{Cut, Direction, Fault, Proxy, ReplyFault};
use sluicegate_testkit::servers::{
    self, Authority, Certificate, Cluster, GarbageServer, Misbehaviour, Sentinels, Server,
    ServerBinary, ServerError, fresh_prefix,
};
use sluicegate_testkit::wait::{until, until_seldom};

use crate::support::{Done, File, sluicegate};

/// Policies of every kind that needs different rights.
const LIMITS: &str =
    "limits: {a: {policies: [gcra 1/h burst 9, sliding_log 9/h, sliding_window 9/h slices 6]}}";

fn any() -> ServerBinary {
    servers::available().unwrap().remove(0)
}

fn check(store: &str, redis: &str) -> Done {
    check_limits(store, redis, LIMITS)
}

fn check_limits(store: &str, redis: &str, limits: &str) -> Done {
    let prefix = fresh_prefix("connect");
    let text = format!("store: \"{store}\"\nredis: {{prefix: \"{prefix}\"{redis}}}\n{limits}\n");
    let file = File::new("limits.yaml", &text);
    sluicegate(&["config", "check", file.path(), "--connect"])
}

fn assert_decides(store: &str, redis: &str) {
    let done = check(store, redis);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    assert!(done.stdout.trim_end().ends_with(": decides"), "{done:?}");
}

/// Asserts that the file is valid, that the store can't decide, and that the error contains these
/// words.
fn assert_says(store: &str, redis: &str, why: &[&str]) {
    assert_failed(&check(store, redis), why);
}

fn assert_failed(done: &Done, why: &[&str]) {
    assert_eq!(done.status, 3, "{done:?}");
    assert!(done.stderr.starts_with("error: store "), "{done:?}");
    for why in why {
        assert!(done.stderr.contains(why), "no `{why}` in {}", done.stderr);
    }
    assert!(!done.stdout.contains("decides") && !done.stderr.contains("secret"), "{done:?}");
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts a server with TLS, from any binary that was built with it.
fn encrypted(certificate: &Certificate, clients: Option<&Authority>) -> Server {
    for binary in servers::available().unwrap() {
        match Server::builder(&binary).tls(certificate, clients).start() {
            Ok(server) => return server,
            Err(ServerError::Start { log, .. }) if log.contains("Failed finding TLS support") => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no server here was built with TLS, without which this can't be tested");
}

#[test]
fn certificates_authorities_and_names_that_are_wrong_are_said() {
    let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
    let server = encrypted(&certificate, Some(&clients));
    let client = clients.certificate("client", &["client"]).unwrap();
    let foreign = authority.certificate("foreign", &["client"]).unwrap();
    let url = format!("rediss://127.0.0.1:{}", server.tls_port().unwrap());
    let (ca, stranger) = (shown(authority.certificate_file()), shown(clients.certificate_file()));
    let with = |certificate: &Certificate| {
        let (cert, key) = (shown(certificate.certificate_file()), shown(certificate.key_file()));
        format!(", cert: {cert}, key: {key}")
    };
    let own = with(&client);
    assert_decides(&url, &format!(", ca: {ca}{own}"));
    for (redis, why) in [
        (own.clone(), "this system trust"),
        (format!(", ca: {stranger}{own}"), "a certificate that none of the authorities of"),
        (format!(", ca: {ca}{own}, server_name: other.example"), "not for `other.example`"),
        (format!(", ca: {ca}"), "asked for a client certificate, got none"),
        (
            format!(", ca: {ca}{}", with(&foreign)),
            "asked for a client certificate, got that of `cert`",
        ),
    ] {
        assert_says(&url, &redis, &[why]);
    }
    // A port with TLS, used without TLS.
    let plain = url.replace("rediss", "redis");
    assert_says(&plain, "", &["looks like a TLS port", &format!("write its URL as {url}")]);
    let authority = format!(", ca: {ca}");
    for scheme in ["rediss+cluster", "rediss+sentinel"] {
        let name = if scheme.ends_with("sentinel") { "/main" } else { "" };
        let url = format!("{}{name}", url.replace("rediss", scheme));
        assert_says(&url, &authority, &["asked for a client certificate, got none"]);
    }
}

#[test]
fn wrong_passwords_are_said_of_servers_nodes_and_sentinels() {
    let server = Server::builder(&any()).password("secret").start().unwrap();
    let port = server.port();
    assert_decides(&format!("redis://:secret@127.0.0.1:{port}"), "");
    assert_says(
        &format!("redis://:secretly@127.0.0.1:{port}"),
        "",
        &["another password for the default user", "write them into the URL"],
    );
    assert_says(&format!("redis://127.0.0.1:{port}"), "", &["wants another user or password"]);
    let cluster = Cluster::builder(&any()).replicas(0).password("secret").start().unwrap();
    let port = cluster.node(0).server().port();
    assert_decides(&format!("redis+cluster://:secret@127.0.0.1:{port}"), "");
    assert_says(
        &format!("redis+cluster://:secretly@127.0.0.1:{port}"),
        "",
        &["another password for the default user"],
    );
}

/// One URL for each kind of unsupported server.
#[test]
fn a_server_that_is_another_kind_than_was_meant_says_which_and_what_to_write() {
    let binary = any();
    let server = Server::start_with(&binary, &[]).unwrap();
    let of = ["--replicaof", "127.0.0.1", &server.port().to_string()];
    let replica = Server::start_with(&binary, &of).unwrap();
    let sentinels = Sentinels::builder(&binary).start().unwrap();
    let cluster = Cluster::builder(&binary).start().unwrap();
    let sentinel = sentinels.sentinels()[0].port();
    let node = cluster.node(0).server().port();
    let (plain, copy) = (server.port(), replica.port());
    let name = sentinels.name();
    assert_decides(&server.url(), "");
    assert_decides(&format!("redis+sentinel://127.0.0.1:{sentinel}/{name}"), "");
    assert_decides(&format!("redis+cluster://127.0.0.1:{node}"), "");
    for (url, why) in [
        (format!("redis://127.0.0.1:{copy}"), vec!["is a read-only replica", &*server.url()]),
        (
            format!("redis://127.0.0.1:{sentinel}"),
            vec!["is a sentinel", &*format!("redis+sentinel://127.0.0.1:{sentinel}/NAME")],
        ),
        (
            format!("redis://127.0.0.1:{node}"),
            vec!["is a node of a cluster", &*format!("redis+cluster://127.0.0.1:{node}")],
        ),
        (
            format!("rediss://127.0.0.1:{plain}"),
            vec!["looks like a port without TLS", &*format!("redis://127.0.0.1:{plain}")],
        ),
        (
            format!("redis+cluster://127.0.0.1:{plain}"),
            vec!["is a server of its own", &*format!("write redis://127.0.0.1:{plain}")],
        ),
        (
            format!("redis+cluster://127.0.0.1:{copy}"),
            vec!["is a server of its own", "write redis://127.0.0.1:"],
        ),
        (
            format!("redis+cluster://127.0.0.1:{sentinel}"),
            vec![
                "isn't a cluster node",
                &*format!("for a sentinel, write redis+sentinel://127.0.0.1:{sentinel}/NAME"),
            ],
        ),
        (
            format!("redis+sentinel://127.0.0.1:{plain}/{name}"),
            vec!["isn't a sentinel", &*format!("redis://127.0.0.1:{plain}")],
        ),
        (
            format!("redis+sentinel://127.0.0.1:{node}/{name}"),
            vec!["isn't a sentinel", "redis+cluster://"],
        ),
        (
            format!("redis+sentinel://127.0.0.1:{sentinel}/mian"),
            vec!["knows no primary of this name", &*format!("`{name}`")],
        ),
        (
            format!("rediss+sentinel://127.0.0.1:{sentinel}/{name}"),
            vec!["looks like a port without TLS"],
        ),
        (format!("rediss+cluster://127.0.0.1:{node}"), vec!["looks like a port without TLS"]),
    ] {
        assert_says(&url, "", &why);
    }
}

#[test]
fn a_server_that_is_too_old_or_none_at_all_is_told_apart() {
    let unknown = |command: &str| {
        let words = format!("-ERR unknown command '{command}'\r\n");
        GarbageServer::start(Misbehaviour::Answer(words.into_bytes())).unwrap()
    };
    let hello = unknown("HELLO");
    assert_says(&hello.url(), "", &["is older than Redis 6", "the oldest version that works"]);
    // A server from before the introduction of users.
    let words = b"-ERR wrong number of arguments for 'auth' command\r\n".to_vec();
    let auth = GarbageServer::start(Misbehaviour::Answer(words)).unwrap();
    let url = auth.url().replace("redis://", "redis://user:secret@");
    assert_says(&url, "", &["is older than Redis 6", "the oldest version that works"]);
    let words = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let http = GarbageServer::start(Misbehaviour::Answer(words)).unwrap();
    assert_says(&http.url(), "", &["does not speak the Redis protocol"]);
}

/// Returns the commands that the documentation grants in the line with this word.
fn documented(word: &str) -> Vec<&'static str> {
    let text = include_str!("../../../../docs/stores.md");
    let mut rules = text.lines().filter_map(|line| line.strip_prefix("ACL SETUSER limiter "));
    let rules = rules.find(|line| line.contains(word)).unwrap();
    rules.split_whitespace().filter(|it| it.starts_with('+')).collect()
}

/// A configuration with permits needs the rights to hold units. Each of these rights is required.
#[test]
fn a_user_who_may_not_hold_is_told_so_where_that_is_needed() {
    let flight = "limits: {a: {policies: [gcra 1/h burst 9, concurrency 9 hold 1min]}}";
    let server = Server::start_with(&any(), &[]).unwrap();
    let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
    let (decides, holds) = (documented("on >"), documented("# units in flight"));
    for lacking in [None].into_iter().chain(holds.iter().copied().map(Some)) {
        let granted = holds.iter().filter(|rule| Some(**rule) != lacking);
        let mut rules = vec!["on", ">secret", "~connect*"];
        rules.extend(decides.iter().chain(granted));
        server.set_user("limiter", &rules).unwrap();
        let done = check_limits(&store, "", flight);
        let (status, words) = match lacking {
            None => (0, ""),
            Some(lacking) => (3, lacking),
        };
        assert_eq!((done.status, done.stderr.is_empty()), (status, status == 0), "{done:?}");
        assert!(done.stderr.contains(words), "{done:?}");
        if lacking.is_none() {
            let left = server.cli(&["KEYS", "*{*"]).unwrap();
            assert_eq!(left.trim(), "", "it leaves no trace");
        }
        // A configuration without permits needs none of these rights.
        assert_decides(&store, "");
    }
}

/// Tests each right in the documentation, on a server that has already loaded the script.
#[test]
fn a_user_without_one_of_the_rights_is_told_which() {
    let server = Server::start_with(&any(), &[]).unwrap();
    let rules = documented("on >");
    let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
    let set = |lacking: &str| {
        let rules = rules.iter().filter(|rule| **rule != lacking);
        let rules: Vec<&str> =
            ["on", ">secret", "~connect*"].into_iter().chain(rules.copied()).collect();
        server.set_user("limiter", &rules).unwrap();
    };
    set("none");
    assert_decides(&store, "");
    for lacking in &rules {
        set(lacking);
        assert_says(&store, "", &["does not permit this user", lacking]);
    }
    server.set_user("limiter", &[&["on", ">secret", "~other:*"], &rules[..]].concat()).unwrap();
    assert_says(&store, "", &["does not permit this user our keys: grant it `~connect"]);
    server.set_user("limiter", &[&["on", ">secret", "~connect*"], &rules[..]].concat()).unwrap();
    assert_says(&format!("{store}/1"), "", &["does not permit this user", "grant it `+select`"]);
}

/// Revokes every right that a kind of configuration needs, one at a time.
#[test]
fn each_right_that_a_configuration_needs_is_missed_by_its_name() {
    let plain = documented("on >");
    let holds = documented("# units in flight");
    let queues: Vec<&str> =
        [documented("# queues of permits, reserv"), documented("# queues of permits, to")].concat();
    let listed = documented("# lists of bans");
    let queue = "limits: {a: {policies: [concurrency 9 hold 1min queue 9]}}";
    let ban = "limits: {a: {policies: [gcra 1/h], ban: 5/1min for 15min}}";
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
        for (limits, needed) in [
            (queue, [&plain[..], &holds, &queues, &listed].concat()),
            (ban, [&plain[..], &listed].concat()),
        ] {
            for lacking in [None].into_iter().chain(needed.iter().copied().map(Some)) {
                let mut rules = vec!["on", ">secret", "~connect*", "&sluicegate:turns:*"];
                rules.extend(needed.iter().filter(|rule| Some(**rule) != lacking));
                server.set_user("limiter", &rules).unwrap();
                let done = check_limits(&store, "", limits);
                let Some(lacking) = lacking else {
                    assert_eq!(done.status, 0, "{done:?}");
                    continue;
                };
                // A server need not name the command that a script lacks, unless all commands are
                // requested.
                assert_eq!(done.status, 3, "{lacking}: {done:?}");
                assert!(done.stderr.contains(lacking), "{lacking}: {done:?}");
            }
        }
        let mut rules = vec!["on", ">secret", "~connect*", "resetchannels"];
        rules.extend([&plain[..], &holds, &queues, &listed].concat());
        server.set_user("limiter", &rules).unwrap();
        let done = check_limits(&store, "", queue);
        assert_eq!(done.status, 3, "{done:?}");
        assert!(done.stderr.contains("grant it `&sluicegate:turns:*`"), "{done:?}");
    }
}

/// Regression test: a limit of permits was opened without its `replicas`, so only a decision waited
/// for them.
#[test]
fn a_user_who_may_not_wait_for_replicas_is_told_so_by_the_check() {
    let server = Server::start_with(&any(), &[]).unwrap();
    let of = ["--replicaof", "127.0.0.1", &server.port().to_string()];
    let _replica = Server::start_with(&any(), &of).unwrap();
    until("the replica to keep up", || {
        let info = server.cli(&["INFO", "replication"]).unwrap();
        if info.contains("state=online") { Ok(()) } else { Err(info) }
    });
    let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
    let common = [&["on", ">secret", "~connect*"][..], &documented("on >")].concat();
    let holds = documented("# units in flight");
    for (policy, rules) in [("gcra 1/h", &[][..]), ("concurrency 9 hold 1min", &holds)] {
        let limits = format!(
            "limits: {{a: {{policies: [{policy}], deadline: 2s, replicas: {{acknowledge: 1, within: 1s}}}}}}"
        );
        let rules = [&common[..], rules].concat();
        server.set_user("limiter", &rules).unwrap();
        let done = check_limits(&store, "", &limits);
        assert_eq!(done.status, 3, "{policy}: {done:?}");
        assert!(done.stderr.contains("grant it `+wait`"), "{policy}: {done:?}");
        server.set_user("limiter", &[&rules[..], &["+wait"]].concat()).unwrap();
        let done = check_limits(&store, "", &limits);
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{policy}: {done:?}");
        let more = limits.replace("acknowledge: 1", "acknowledge: 2");
        let done = check_limits(&store, "", &more);
        assert_eq!(done.status, 3, "{policy}: {done:?}");
        assert!(done.stderr.contains("1 of its replicas acknowledged"), "{policy}: {done:?}");
    }
}

/// Regression test: only the first missing right was named, and the others once it was granted.
#[test]
fn a_database_of_its_own_and_other_rights_are_missed_together() {
    let server = Server::start_with(&any(), &[]).unwrap();
    server.set_user("limiter", &["on", ">secret", "~*", "+@all", "-select", "-time"]).unwrap();
    let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
    assert_says(&format!("{store}/1"), "", &["grant it `+time +select`"]);
    server.set_user("limiter", &["on", ">secret", "~*", "+@all", "-select"]).unwrap();
    assert_decides(&store, "");
    assert_decides(&format!("{store}/0"), "");
}

/// Regression test: another node reported the location of all slots.
#[test]
fn a_right_that_one_node_of_a_cluster_does_not_grant_is_missed_by_its_name() {
    let cluster = Cluster::builder(&any()).replicas(0).start().unwrap();
    let nodes: Vec<_> = (0..3).map(|node| cluster.node(node).server()).collect();
    let store = format!("redis+cluster://limiter:secret@127.0.0.1:{}", nodes[0].port());
    let needed = [documented("on >"), documented("# a cluster")].concat();
    let set = |node: usize, lacking: &str| {
        let mut rules = vec!["on", ">secret", "~connect*"];
        rules.extend(needed.iter().filter(|rule| **rule != lacking));
        nodes[node].set_user("limiter", &rules).unwrap();
    };
    (0..3).for_each(|node| set(node, "none"));
    assert_decides(&store, "");
    for lacking in ["+cluster|slots", "+asking", "+time"] {
        set(2, lacking);
        let address = format!("127.0.0.1:{}", nodes[2].port());
        assert_says(&store, "", &[&address, &format!("grant it `{lacking}`")]);
        set(2, "none");
    }
    (0..3).for_each(|node| set(node, "+cluster|slots"));
    assert_says(&store, "", &["who has which slots: grant it `+cluster|slots`"]);
}

/// The user lacks four rights, and the check names all of them.
#[test]
fn a_user_without_the_rights_of_queues_is_found_by_the_check() {
    let server = Server::start_with(&any(), &[]).unwrap();
    let rules =
        ["on", ">secret", "~*", "&*", "+@all", "-zlexcount", "-publish", "-subscribe", "-scan"];
    server.set_user("limiter", &rules).unwrap();
    let store = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
    let queue = "limits: {a: {policies: [concurrency 9 hold 1min queue 9]}}";
    let done = check_limits(&store, "", queue);
    assert_eq!(done.status, 3, "{done:?}");
    let named = "grant it `+zlexcount +scan +publish +subscribe`";
    assert!(done.stderr.contains(named), "{done:?}");
}

#[test]
fn a_server_that_evicts_keys_is_found_by_the_check() {
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = format!("redis://127.0.0.1:{}", server.port());
        assert_decides(&store, "");
        for policy in
            ["allkeys-lru", "allkeys-lfu", "volatile-ttl", "volatile-lru", "allkeys-random"]
        {
            server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]).unwrap();
            assert_says(
                &store,
                "",
                &[&format!("`maxmemory-policy` is {policy}): set it to noeviction")],
            );
        }
        // A user with one of the two commands sees the policy. A user without either gets a note.
        let limited = format!("redis://limiter:secret@127.0.0.1:{}", server.port());
        for (granted, status, words) in [
            ("+info", 3, "is allkeys-random"),
            ("+config|get", 3, "is allkeys-random"),
            ("+time", 0, "`maxmemory-policy` can't be read"),
        ] {
            let mut rules = vec!["on", ">secret", "~connect*", granted];
            rules.extend(documented("on >"));
            server.set_user("limiter", &rules).unwrap();
            let done = check_limits(&limited, "", "limits: {a: {policies: [gcra 1/h]}}");
            assert_eq!(done.status, status, "{granted}: {done:?}");
            let said = format!("{}{}", done.stderr, done.stdout);
            assert!(said.contains(words), "{granted}: {done:?}");
        }
    }
}

/// A proxy in between may truncate, drop, repeat or reorder replies.
#[test]
fn a_proxy_that_spoils_replies_is_found_out() {
    let server = Server::start_with(&any(), &[]).unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    assert_decides(&proxy.url(), "");
    for cut in [Cut::Finish, Cut::Reset] {
        // After the handshake, in the middle of the server's decisions.
        proxy.set(Direction::Replies, Fault::CutAfter(300, cut));
        assert_says(&proxy.url(), "", &["broke the connection before it answered"]);
    }
    // These faults hit the handshake.
    for (fault, why) in [
        (ReplyFault::Swap, "has not answered a connection within 1000 ms: check whether"),
        (ReplyFault::Duplicate, "a proxy may repeat, drop or reorder replies"),
        (ReplyFault::Drop, "has not answered a connection within 1000 ms: check whether"),
        (ReplyFault::Truncate, "has not answered a connection within 1000 ms: check whether"),
    ] {
        proxy.heal();
        // On a busy machine, a late reply to the client before may take the fault.
        let done = until_seldom("the fault hits this client", || {
            proxy.set_next_reply(fault);
            let done = check(&proxy.url(), "");
            if done.status == 0 { Err(done) } else { Ok(done) }
        });
        assert_failed(&done, &[why]);
    }
}
