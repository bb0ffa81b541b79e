//! `explain`: the reasons for a decision, without making it.

use sluicegate::store::Operation;
use sluicegate_client::json::{Answer, Because, Explanation};
use sluicegate_core::printable;

use super::ask::{ask_of, failure, gate_of, note, note_store};
use super::setup::{OnFreshStore, open};
use super::terms::Terms;
use super::verb::Verb;
use super::{lines, remote};
use crate::cli::AskArgs;
use crate::explain::{Wish, because};
use crate::output::{Exit, Failure, complain, say};

/// Explains a decision of a service, or of the store.
///
/// # Errors
/// Returns an error if the arguments are invalid or the store failed.
pub(crate) async fn explain(args: AskArgs) -> Result<Exit, Failure> {
    let AskArgs { asked, to, admin_token } = args;
    let peek = Verb::Decide(Operation::Peek);
    let print = |explanation: &Explanation<'_>| {
        lines::print(peek, &explanation.decision, &asked);
        explanation.because.iter().for_each(|because| say(line_of(because)));
    };
    if let Some(service) = &to.server {
        let body = remote::body(peek, &Terms::default(), &asked)?;
        let token = admin_token.read()?;
        let call = remote::Call::post(service, "/v1/explain", token.as_deref(), body);
        return call.explain(&to, print).await;
    }
    let (registry, config) = open(&to, OnFreshStore::Decides)?;
    let gate = gate_of(&registry, &config, &asked)?;
    // A process that runs follows the overrides; a command reads them once.
    if let Err(error) = registry.overrides().refresh().await {
        complain(format_args!(
            "note: the store doesn't give the overrides at run time, because {error}"
        ));
    }
    let ask = ask_of(&asked);
    let decision = gate.decide(Operation::Peek, ask.clone()).await.map_err(|it| failure(&it))?;
    note_store(&config);
    note(&decision);
    let wishes = asked.entries.iter().map(|entry| Wish {
        limit: &entry.limit,
        key: entry.key.as_encoded_bytes(),
        cost: &entry.cost,
        gives_policies: false,
    });
    let wishes: Vec<Wish<'_>> = wishes.collect();
    let because = because(&registry, &gate, &ask, &wishes, &decision).map_err(|it| failure(&it))?;
    let answer = Answer::new(gate.name(), &decision);
    let answer = if asked.are_several() { answer.naming_limits(&decision) } else { answer };
    let explanation = Explanation { decision: answer, because };
    if to.json {
        say(serde_json::to_string(&explanation).map_err(Failure::usage)?);
    } else {
        print(&explanation);
    }
    Ok(Exit::of(&explanation.decision))
}

/// Returns a reason with its place, as text for a terminal.
fn line_of(because: &Because) -> String {
    let Because { kind, limit, text, from, file, line, column, numbers, .. } = because;
    let place = match (file, line, column) {
        (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        _ => from.to_string(),
    };
    let mut lines =
        format!("{:8} {limit}: {}\n         from {}", kind, printable(text), printable(&place));
    let defaults = numbers.iter().filter(|number| number.from == "default" && from != "default");
    for number in defaults {
        let (name, value) = (printable(&number.name), printable(&number.value));
        lines.push_str(&format!(", {name} {value} by default"));
    }
    lines
}
