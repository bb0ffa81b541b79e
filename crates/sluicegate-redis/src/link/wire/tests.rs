use std::sync::OnceLock;
use std::time::Duration;

use sluicegate_conformance::schedules::{Dice, Kind, each, random_policies};
use sluicegate_core::{Acknowledgement, Cost, Costs, Limit, OpenOptions, Operation, Request, Span};
use sluicegate_testkit::lua::{Interpreter, Reply};
use tokio::sync::oneshot;

use super::*;
use crate::link::send_queue::Told;
use crate::resp::{Command, Reader};
use crate::script_limit::ScriptLimit;
use crate::{RedisStore, read_reply};

const MAX_CLOCK_BACK: u64 = 5_000_000;
const START: u64 = 1_790_000_000_000_000;
const PATIENCE: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_secs(3_600);

fn open(name: &str, specs: &[&str]) -> ScriptLimit {
    open_limit(Limit::new(name, specs).unwrap())
}

/// Opens a limit without any connection.
fn open_limit(limit: Limit) -> ScriptLimit {
    let store = RedisStore::builder("redis://127.0.0.1:1").unwrap().build();
    ScriptLimit::new(store, limit, OpenOptions::default())
}

fn call(opened: &ScriptLimit, request: &Request<'_>) -> Call {
    Call::Script(opened.call(request, |_| START, None, None))
}

fn waiting(call: Call) -> (Waiting, oneshot::Receiver<Told>) {
    let (answer, told) = oneshot::channel();
    // The same deadline for all calls.
    static START: OnceLock<Instant> = OnceLock::new();
    let deadline = *START.get_or_init(Instant::now) + HOUR;
    (
        Waiting {
            call,
            caller: Caller { answer, deadline, patience: PATIENCE, was_late: false },
            batch: None,
        },
        told,
    )
}

/// Plays a server: answers every written command.
fn answer(wire: &mut Wire, server: &mut Interpreter) -> Vec<usize> {
    let mut reader = Reader::default();
    let mut calls = Vec::new();
    while let Some(Value::Array(words)) = reader.read(&mut wire.output).unwrap() {
        let words: Vec<Vec<u8>> = words
            .into_iter()
            .map(|word| if let Value::Bytes(word) = word { word.to_vec() } else { panic!() })
            .collect();
        assert_eq!(words[0], b"EVALSHA");
        let keys: usize = String::from_utf8_lossy(&words[2]).parse().unwrap();
        let (keys, programs) = words[3..].split_at(keys);
        let reply = server.eval(Script::get().text(), keys, programs).unwrap();
        calls.push(programs.len());
        wire.answer(to_value(reply)).unwrap();
    }
    calls
}

/// Answers until all callers have an answer. Calls that are late by the server's clock are sent again.
fn answer_all(wire: &mut Wire, server: &mut Interpreter) -> Vec<usize> {
    let calls = answer(wire, server);
    let again = wire.take_again();
    if again.is_empty() {
        return calls;
    }
    again.into_iter().for_each(|waiting| wire.add(waiting));
    wire.depart();
    answer_all(wire, server)
}

fn to_value(reply: Reply) -> Value {
    match reply {
        Reply::Array(items) => Value::Array(items.into_iter().map(to_value).collect()),
        Reply::Bulk(text) => Value::Bytes(text.into()),
        Reply::Int(number) => Value::Int(number),
        Reply::Nil => Value::Nil,
    }
}

fn decision(opened: &ScriptLimit, request: &Request<'_>, told: Told) -> String {
    let Told::Said(said) = told else { panic!("{told:?}") };
    format!("{:?}", read_reply(opened.limit(), request, Some(MAX_CLOCK_BACK), &said))
}

fn random_request(dice: &mut Dice) -> Request<'static> {
    const SUBJECTS: [&[u8]; 3] = [b"alice", b"bob", b""];
    let operation = match dice.below(60) {
        0 => Operation::Peek,
        1 => Operation::Take,
        2 => Operation::Charge,
        3 => Operation::Refund,
        4 => Operation::Reserve { within: Span::SECOND },
        _ => Operation::Check,
    };
    let subject = SUBJECTS[dice.below_len(3)];
    let cost = if dice.below(4) == 0 { 2 } else { 1 };
    Request::new(operation, subject).costs(Costs::Same(Cost::new(cost).unwrap()))
}

#[test]
fn calls_that_travel_together_get_the_answers_that_each_would_get_by_itself() {
    let (mut calls, mut arguments) = (0, 0);
    each("calls that travel together", 150, |seed| {
        let mut dice = Dice::new(seed);
        let limits: Vec<_> = (0..3)
            .map(|limit| {
                let count = 1 + dice.below_len(3);
                let policies = random_policies(&mut dice, &Kind::ALL, count);
                Limit::new(format!("l{limit}"), policies).unwrap()
            })
            .map(open_limit)
            .collect();
        let (mut together, mut alone) = (Interpreter::new().unwrap(), Interpreter::new().unwrap());
        let (mut flights, mut one_by_one) = (Wire::new(64), Wire::new(1));
        let mut now = START;
        for _ in 0..12 {
            now += [0, 1, 900, 40_000, 3_000_000, 70_000_000][dice.below_len(6)];
            for server in [&together, &alone] {
                server.set_now(now);
                server.expire();
            }
            let asked: Vec<_> = (0..1 + dice.below(40))
                .map(|_| (&limits[dice.below_len(3)], random_request(&mut dice)))
                .filter(|(opened, request)| request.validate(opened.limit()).is_ok())
                .collect();
            let mut told = Vec::new();
            for (opened, request) in &asked {
                let (ours, answered) = waiting(call(opened, request));
                flights.add(ours);
                let (other, answered_alone) = waiting(call(opened, request));
                one_by_one.add(other);
                one_by_one.depart();
                answer_all(&mut one_by_one, &mut alone);
                told.push((answered, answered_alone));
            }
            flights.depart();
            calls += asked.len();
            arguments += answer_all(&mut flights, &mut together).iter().sum::<usize>();
            for ((mut ours, mut other), (opened, request)) in told.into_iter().zip(&asked) {
                let [ours, other] = [ours.try_recv().unwrap(), other.try_recv().unwrap()]
                    .map(|told| decision(opened, request, told));
                assert_eq!(ours, other, "{request:?} of {:?}", opened.limit());
            }
            assert_eq!(together.keys(), alone.keys());
        }
    });
    assert!(arguments * 10 < calls * 9, "{arguments} arguments for {calls} calls");
}

#[test]
fn equal_checks_are_one_call_and_each_is_told_its_own_turn() {
    for spec in ["token_bucket 1/h burst 5", "fixed_window 5/h", "sliding_log 5/h"] {
        let opened = open("l", &[spec]);
        let mut server = Interpreter::new().unwrap();
        server.set_now(START);
        let mut wire = Wire::new(64);
        let check = Request::check(b"alice");
        let told: Vec<_> = (0..8)
            .map(|_| {
                let (waiting, told) = waiting(call(&opened, &check));
                wire.add(waiting);
                told
            })
            .collect();
        wire.depart();
        assert_eq!(answer(&mut wire, &mut server), [1], "{spec}");
        let sets = told.into_iter().map(|mut told| {
            let Told::Said(said) = told.try_recv().unwrap() else { panic!() };
            match read_reply(opened.limit(), &check, Some(MAX_CLOCK_BACK), &said).unwrap() {
                crate::Reply::Decided(decision) => (decision.is_allowed(), decision.remaining()),
                reply @ crate::Reply::AskAgain { .. } => panic!("{reply:?}"),
            }
        });
        let expected = (0..8).map(|turn| (turn < 5, Some(5_u64.saturating_sub(turn + 1))));
        assert!(sets.eq(expected), "{spec}");
        let reads = if spec.starts_with("sliding_log") { 25 } else { 3 };
        assert!(server.calls() <= reads, "{spec}: {} commands for eight checks", server.calls());
    }
}

/// A charge must be counted in the order of the calls about the key.
#[test]
fn what_is_asked_about_one_key_is_decided_in_its_order() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let check = Request::check(b"alice");
    let twice = Request::check(b"alice").costs(Costs::Same(Cost::new(2).unwrap()));
    let mut server = Interpreter::new().unwrap();
    server.set_now(START);
    let mut wire = Wire::new(64);
    let mut left = Vec::new();
    for request in [&check, &twice, &check, &check, &twice] {
        let (waiting, told) = waiting(call(&opened, request));
        wire.add(waiting);
        left.push((request, told));
    }
    wire.depart();
    assert_eq!(answer(&mut wire, &mut server), [4], "the two checks in the middle are one");
    let left: Vec<_> = left
        .into_iter()
        .map(|(request, mut told)| {
            let Told::Said(said) = told.try_recv().unwrap() else { panic!() };
            match read_reply(opened.limit(), request, Some(MAX_CLOCK_BACK), &said).unwrap() {
                crate::Reply::Decided(decision) => decision.remaining().unwrap(),
                reply @ crate::Reply::AskAgain { .. } => panic!("{reply:?}"),
            }
        })
        .collect();
    assert_eq!(left, [8, 6, 5, 4, 2]);
}

fn of_slot(opened: &ScriptLimit, slot: u16, key: u64) -> Call {
    let mut call = opened.call(&Request::check(key.to_string().as_bytes()), |_| START, None, None);
    call.set_company(slot, Company::Slot);
    Call::Script(call)
}

fn board(wire: &mut Wire, call: Call) {
    assert!(wire.slots.admit(0, 0, &call), "{call:?}");
    let (waiting, told) = waiting(call);
    wire.add(waiting);
    std::mem::forget(told);
}

#[test]
fn at_most_two_flights_are_under_way_and_one_call_waits_for_none() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let mut wire = Wire::new(32);
    board(&mut wire, of_slot(&opened, 0, 1));
    wire.depart();
    assert_eq!(wire.room(), 32, "the first call left by itself");
    board(&mut wire, of_slot(&opened, 0, 2));
    wire.depart();
    assert_eq!(wire.room(), 0);
    let mut server = Interpreter::new().unwrap();
    answer(&mut wire, &mut server);
    assert_eq!(wire.room(), 32);
    (0..20).for_each(|key| board(&mut wire, of_slot(&opened, 0, key)));
    assert_eq!(wire.room(), 12);
}

#[test]
fn to_a_node_at_most_two_flights_of_a_slot_are_under_way_and_others_wait_for_none() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let mut wire = Wire::new(32).by_slot();
    for key in 1..=2 {
        board(&mut wire, of_slot(&opened, 0, key));
        wire.depart();
    }
    assert!(!wire.slots.admit(3, 0, &of_slot(&opened, 0, 3)));
    board(&mut wire, of_slot(&opened, 7, 4));
    wire.depart();
    assert!(wire.slots.admit(5, 0, &Call::Command(Command::of(&[b"SCAN", b"0"]))));
    assert_eq!((wire.room(), wire.slots.next()), (32, None));
    let mut server = Interpreter::new().unwrap();
    assert_eq!(answer(&mut wire, &mut server), [1, 1, 1]);
    assert_eq!([wire.slots.next(), wire.slots.next()], [Some(3), None]);
}

#[test]
fn so_many_commands_are_under_way_at_most() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    for most in [1, 32] {
        let mut wire = Wire::new(most).by_slot();
        for slot in 0..COMMANDS {
            assert_eq!(wire.room(), most);
            board(&mut wire, of_slot(&opened, u16::try_from(slot).unwrap(), 1));
            wire.depart();
        }
        assert_eq!(wire.room(), 0);
    }
}

#[test]
fn a_call_that_comes_too_late_charges_nothing_and_is_sent_once_more() {
    for spec in ["token_bucket 1/h burst 9", "sliding_log 9/h", "fixed_window 9/d calendar UTC"] {
        let opened = open("l", &[spec]);
        let check = Request::check(b"alice");
        let mut server = Interpreter::new().unwrap();
        server.set_now(START);
        let mut wire = Wire::new(32);
        let (first, mut told) = waiting(call(&opened, &check));
        wire.add(first);
        wire.depart();
        answer(&mut wire, &mut server);
        told.try_recv().unwrap();
        let before = server.keys();
        // The server's clock is set two hours forward: all calls seem late, once.
        server.set_now(START + 2 * 3_600_000_000);
        let (second, mut told) = waiting(call(&opened, &check));
        wire.add(second);
        wire.depart();
        answer(&mut wire, &mut server);
        assert_eq!(server.keys(), before, "{spec}");
        assert!(told.try_recv().is_err(), "not yet");
        for again in wire.take_again() {
            wire.add(again);
        }
        wire.depart();
        answer(&mut wire, &mut server);
        assert!(matches!(told.try_recv().unwrap(), Told::Said(_)), "{spec}");
        // The call is late again, because the clock has been set again.
        server.set_now(START + 4 * 3_600_000_000);
        let (third, mut told) = waiting(call(&opened, &check));
        let third = Waiting { caller: Caller { was_late: true, ..third.caller }, ..third };
        wire.add(third);
        wire.depart();
        answer(&mut wire, &mut server);
        assert!(matches!(told.try_recv().unwrap(), Told::Late), "{spec}");
        assert!(wire.take_again().is_empty());
    }
}

#[test]
fn the_reply_to_another_call_is_nobodys() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let mut server = Interpreter::new().unwrap();
    server.set_now(START);
    let mut wire = Wire::new(32);
    let mut replies = Vec::new();
    let mut waiters = Vec::new();
    for key in [b"a", b"b"] {
        let (waiting, told) = waiting(call(&opened, &Request::check(key)));
        wire.add(waiting);
        wire.depart();
        let mut reader = Reader::default();
        let Some(Value::Array(words)) = reader.read(&mut wire.output).unwrap() else { panic!() };
        let [.., Value::Bytes(key), Value::Bytes(program)] = words.as_slice() else { panic!() };
        let reply = server.eval(Script::get().text(), &[key.to_vec()], &[program.to_vec()]);
        replies.push(to_value(reply.unwrap()));
        waiters.push(told);
    }
    assert!(matches!(wire.answer(replies.remove(1)), Err(Wrong::Disordered)));
    for told in &mut waiters {
        assert!(told.try_recv().is_err(), "nobody is told what is another's");
    }
    assert_eq!(wire.into_callers().count(), 2, "all of them are told what is wrong");
}

#[test]
fn a_command_is_sent_after_what_came_before_it() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let mut wire = Wire::new(32);
    let mut told = Vec::new();
    for call in [
        call(&opened, &Request::check(b"a")),
        Call::Command(Command::of(&[b"DEL", b"a"])),
        call(&opened, &Request::check(b"a")),
    ] {
        let (waiting, answered) = waiting(call);
        wire.add(waiting);
        told.push(answered);
    }
    wire.depart();
    let (mut reader, mut names) = (Reader::default(), Vec::new());
    while let Some(Value::Array(words)) = reader.read(&mut wire.output).unwrap() {
        let [Value::Bytes(name), ..] = words.as_slice() else { panic!() };
        names.push(name.clone());
    }
    assert_eq!(names, [&b"EVALSHA"[..], b"DEL", b"EVALSHA"]);
}

#[test]
fn nobody_is_charged_because_another_has_more_time() {
    let opened = open("l", &["token_bucket 1/h burst 9"]);
    let mut server = Interpreter::new().unwrap();
    server.set_now(START);
    let mut wire = Wire::new(32);
    let (first, _told) = waiting(call(&opened, &Request::check(b"alice")));
    wire.add(first);
    wire.depart();
    answer(&mut wire, &mut server);
    let mut told = Vec::new();
    for (key, seconds) in [(b"alice", 1), (b"alice", 9), (b"bobby", 1), (b"carol", 9)] {
        let (Waiting { call, caller, batch }, answered) =
            waiting(call(&opened, &Request::check(key)));
        let deadline = Instant::now() + Duration::from_secs(seconds);
        wire.add(Waiting { call, caller: Caller { deadline, was_late: true, ..caller }, batch });
        told.push(answered);
    }
    wire.depart();
    server.set_now(START + 5_000_000);
    answer(&mut wire, &mut server);
    let is_late = told.iter_mut().map(|told| matches!(told.try_recv().unwrap(), Told::Late));
    assert_eq!(is_late.collect::<Vec<_>>(), [true, false, true, false]);
}

/// Until replicas have it, the decision doesn't count. If the connection breaks before, the outcome is
/// unknown.
#[test]
fn nobody_is_told_before_replicas_have_it_and_one_wait_does_for_all() {
    let opened = open("l", &["token_bucket 1/h burst 1"]);
    let mut server = Interpreter::new().unwrap();
    server.set_now(START);
    let wanted =
        Acknowledgement { replicas: 2.try_into().unwrap(), within: Duration::from_micros(20_001) };
    let add = |wire: &mut Wire, subjects: std::ops::Range<u32>| {
        let calls = subjects.map(|subject| {
            let subject = (subject % 50).to_string();
            let (call, told) = waiting(call(&opened, &Request::check(subject.as_bytes())));
            wire.add(call);
            told
        });
        let told: Vec<_> = calls.collect();
        wire.depart();
        told
    };
    // Plays a server that answers everything but `WAIT`, and returns the names of the commands.
    let decide = |wire: &mut Wire, server: &mut Interpreter| {
        let mut names = Vec::new();
        let mut reader = Reader::default();
        while let Some(Value::Array(words)) = reader.read(&mut wire.output).unwrap() {
            let word =
                |word: &Value| if let Value::Bytes(it) = word { it.to_vec() } else { panic!() };
            let words: Vec<Vec<u8>> = words.iter().map(word).collect();
            names.push(String::from_utf8_lossy(&words[0]).into_owned());
            if words[0] == b"WAIT" {
                assert_eq!(words[1..], [b"2".to_vec(), b"21".to_vec()]);
                continue;
            }
            let keys: usize = String::from_utf8_lossy(&words[2]).parse().unwrap();
            let (keys, programs) = words[3..].split_at(keys);
            wire.answer(to_value(server.eval(Script::get().text(), keys, programs).unwrap()))
                .unwrap();
        }
        names
    };
    let mut wire = Wire::new(32).acknowledged(Some(wanted));
    let mut told = add(&mut wire, 0..60);
    assert_eq!(wire.room(), 0, "one flight at a time");
    assert_eq!(decide(&mut wire, &mut server), ["EVALSHA", "EVALSHA", "WAIT"]);
    assert!(told.iter_mut().all(|told| told.try_recv().is_err()));
    assert_eq!((wire.callers(), wire.is_idle(), wire.patience()), (60, false, Some(PATIENCE)));
    assert_eq!(wire.answer(Value::Int(2)).unwrap(), 60);
    assert!(told.iter_mut().all(|told| matches!(told.try_recv().unwrap(), Told::Said(_))));
    assert_eq!((wire.callers(), wire.is_idle()), (0, true));

    let mut told = add(&mut wire, 0..3);
    decide(&mut wire, &mut server);
    wire.answer(Value::Int(1)).unwrap();
    for told in &mut told {
        let Told::Unacknowledged(short) = told.try_recv().unwrap() else { panic!() };
        assert_eq!((short.wanted, short.reply), (wanted, Value::Int(1)));
    }

    let _told = add(&mut wire, 0..3);
    decide(&mut wire, &mut server);
    assert!(matches!(wire.answer(Value::Bytes("2".into())), Err(Wrong::Nonsense)));
    assert_eq!(wire.into_callers().count(), 3);
}
