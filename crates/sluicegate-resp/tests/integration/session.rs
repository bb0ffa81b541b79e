//! Commands about the connection.

use sluicegate_resp::Protocol;

use crate::support::{Connection, command};

#[test]
fn hello_greets_in_the_version_that_it_asks_for() {
    let mut connection = Connection::new();
    let two = connection.send(command("hello 2"));
    assert!(two.starts_with("*14\r\n$6\r\nserver\r\n$10\r\nsluicegate\r\n"), "{two}");
    assert!(two.contains("$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:7\r\n"), "{two}");
    let three = connection.send(command("HELLO 3 SETNAME shop"));
    assert!(three.starts_with("%7\r\n") && three.contains("$5\r\nproto\r\n:3\r\n"), "{three}");
    assert_eq!(connection.send(command("CLIENT GETNAME")), "$4\r\nshop\r\n");
    assert!(connection.send(command("HELLO")).starts_with("%7\r\n"));
    for (words, problem) in [
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer"),
        ("HELLO 2 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 2 FROB", "-ERR Syntax error in HELLO option 'FROB'"),
        ("HELLO 2 SETNAME \u{e9}", "-ERR Client names cannot contain"),
    ] {
        let answer = connection.send(command(words));
        assert!(answer.starts_with(problem), "{words}: {answer}");
    }
    assert_eq!(connection.output.protocol(), Protocol::Resp3, "a refused HELLO changes nothing");
    assert_eq!(connection.send(command("RESET")), "+RESET\r\n");
    assert_eq!(connection.output.protocol(), Protocol::Resp2);
    assert_eq!(connection.send(command("client getname")), "$-1\r\n");
}

#[test]
fn clients_connect_with_their_usual_commands() {
    let mut connection = Connection::new();
    for (words, answer) in [
        ("PING", "+PONG\r\n"),
        ("ping hi", "$2\r\nhi\r\n"),
        ("ECHO hi", "$2\r\nhi\r\n"),
        ("CLIENT SETINFO LIB-NAME go-redis(,go1.26.8)", "+OK\r\n"),
        ("client setinfo lib-ver 9.23.0", "+OK\r\n"),
        ("CLIENT TRACKING ON OPTIN", "+OK\r\n"),
        ("client setname a", "+OK\r\n"),
        ("CLIENT ID", ":7\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("CONFIG GET save", "*0\r\n"),
        ("COMMAND DOCS", "*0\r\n"),
        ("COMMAND COUNT", ":26\r\n"),
        ("QUIT", "+OK\r\n"),
    ] {
        assert_eq!(connection.send(command(words)), answer, "{words}");
    }
    for (words, problem) in [
        (
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-fqdn",
            "-ERR unknown subcommand",
        ),
        ("CLIENT REPLY OFF", "-ERR unknown subcommand"),
        ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled"),
        ("cluster shards", "-ERR This instance has cluster support disabled"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("CONFIG SET save x", "-ERR the configuration is a file"),
        ("GET key", "-ERR unknown command 'GET'"),
        ("SG.CHECK api", "-ERR wrong number of arguments for 'sg.check' command"),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
    ] {
        let answer = connection.send(command(words));
        assert!(answer.starts_with(problem), "{words}: {answer}");
    }
    let info = connection.send(command("INFO"));
    assert!(info.contains("redis_mode:standalone") && !info.contains("loading:1"), "{info}");
    let commands = connection.send(command("COMMAND"));
    assert!(commands.starts_with("*26\r\n*6\r\n$8\r\nsg.check\r\n:-3\r\n"), "{commands}");
    let about = connection.send(command("COMMAND INFO GET sg.reset"));
    assert_eq!(about, "*2\r\n$-1\r\n*6\r\n$8\r\nsg.reset\r\n:3\r\n*0\r\n:2\r\n:2\r\n:1\r\n");
}

#[test]
fn a_connection_without_credentials_may_only_present_some() {
    let mut connection = Connection::new();
    connection.is_known = false;
    for words in ["PING", "SG.CHECK api a", "FROB", "CLIENT SETINFO LIB-NAME a", "MULTI"] {
        let answer = connection.send(command(words));
        assert!(answer.starts_with("-NOAUTH Authentication required"), "{words}: {answer}");
    }
    assert!(connection.send(command("HELLO 3")).starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(connection.output.protocol(), Protocol::Resp2);
    assert_eq!(connection.send(command("QUIT")), "+OK\r\n");
}

#[test]
fn decisions_are_arrays_in_resp2_and_maps_in_resp3() {
    let mut connection = Connection::new();
    let mut ask = |words: &str| connection.send(command(words)).replace("\r\n", " ");
    assert_eq!(ask("SG.CHECK api a"), "*4 :1 :1 :0 :60000 ");
    assert_eq!(ask("sg.check api a"), "*4 :1 :0 :0 :120000 ");
    assert_eq!(ask("SG.CHECK api a"), "*4 :0 :0 :60000 :120000 ");
    ask("HELLO 3");
    assert_eq!(
        ask("SG.PEEK api a"),
        "%5 $7 allowed #f $9 remaining :0 $14 retry_after_ms :60000 $14 reset_after_ms :120000 $7 binding $4 gcra "
    );
    assert_eq!(
        ask("SG.RESET api a"),
        "%5 $7 allowed #t $9 remaining :2 $14 retry_after_ms :0 $14 reset_after_ms :0 $7 binding _ "
    );
}

#[test]
fn a_transaction_is_one_answer_and_an_unknown_command_aborts_it() {
    let mut connection = Connection::new();
    let multi =
        ["MULTI", "SG.CHECK api a", "PING", "SG.CHECK api a", "SG.CHECK api a"].map(command);
    let queued = connection.send(multi.concat()).replace("\r\n", " ");
    assert_eq!(queued, "+OK +QUEUED +QUEUED +QUEUED +QUEUED ");
    let answer = connection.send(command("EXEC")).replace("\r\n", " ");
    assert_eq!(answer, "*4 *4 :1 :1 :0 :60000 +PONG *4 :1 :0 :0 :120000 *4 :0 :0 :60000 :120000 ");
    let aborted = ["MULTI", "SG.RESET api a", "FROB", "SG.RESET api a", "EXEC"].map(command);
    let answer = connection.send(aborted.concat());
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines[..2], ["+OK", "+QUEUED"]);
    assert!(lines[2].starts_with("-ERR unknown command"), "{answer}");
    assert!(lines[4].starts_with("-EXECABORT Transaction discarded"), "{answer}");
    let peeked = connection.send(command("SG.PEEK api a"));
    assert!(peeked.starts_with("*4\r\n:0\r\n"), "nothing was reset: {peeked}");
    let dropped = ["MULTI", "SG.RESET api a", "MULTI", "DISCARD", "EXEC", "DISCARD"].map(command);
    let answer = connection.send(dropped.concat());
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(
        lines,
        [
            "+OK",
            "+QUEUED",
            "-ERR MULTI calls can not be nested",
            "+OK",
            "-ERR EXEC without MULTI",
            "-ERR DISCARD without MULTI"
        ]
    );
    assert_eq!(connection.send(["MULTI", "EXEC"].map(command).concat()), "+OK\r\n*0\r\n");
}

#[test]
fn a_transaction_is_bounded() {
    let mut connection = Connection::new();
    connection.send(command("MULTI"));
    let long = command(&format!("ECHO {}", "x".repeat(60_000)));
    let answers: Vec<String> = (0..20).map(|_| connection.send(&long)).collect();
    assert!(answers[0] == "+QUEUED\r\n" && answers[19].starts_with("-ERR a command"));
    assert!(connection.send(command("EXEC")).starts_with("-EXECABORT"));
}

#[test]
fn commands_are_answered_alike_however_they_arrive() {
    let whole: String = ["HELLO 3", "SG.CHECK api a", "FROB", "MULTI", "SG.PEEK api a", "EXEC"]
        .map(command)
        .concat();
    let expected = Connection::new().send(&whole);
    for size in 1..whole.len() {
        let mut connection = Connection::new();
        let answers: String =
            whole.as_bytes().chunks(size).map(|piece| connection.send(piece)).collect();
        assert_eq!(answers, expected, "{size}");
    }
}
