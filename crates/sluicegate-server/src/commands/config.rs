//! `config check`.

use sluicegate::{
    Config, OpenOptions, OpenedLimit as _, Operation, Request, Span, Store as _, StoreOptions,
};

use crate::cli::{ConfigArgs, ConfigCommand};
use crate::output::{Exit, Failure, complain, counted, say};
use crate::setup::config_failure;

/// How long each call to the store may take: it connects first.
const PATIENCE: Span = match Span::from_millis(5_000) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};

/// Checks a file, and its store if that is asked for.
///
/// # Errors
/// Every problem of the file; what is wrong with the store.
pub(crate) async fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    let ConfigCommand::Check { file, connect } = &args.command;
    let config = Config::load(file).map_err(|errors| config_failure(&errors))?;
    for warning in config.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    let limits = counted(config.limits.len() as u64, "limit");
    let warnings = match config.warnings().len() {
        0 => String::new(),
        count => format!(", {}", counted(count as u64, "warning")),
    };
    say(format_args!("{}: {limits}, no errors{warnings}", file.display()));
    if *connect {
        decide(&config).await?;
        say(format_args!("store {}: decides", config.store));
    }
    Ok(Exit::Allowed)
}

/// Lets every limit decide in the store, without a trace.
async fn decide(config: &Config) -> Result<(), Failure> {
    let mut options = StoreOptions::from(config);
    options.deadline = PATIENCE;
    let store = config.store.open(&options).map_err(Failure::usage)?;
    store.rehearse().await.map_err(|error| Failure::of_store(&config.store, &error.into()))?;
    for limit in &config.limits {
        let opened = store.open(limit.limit.clone(), OpenOptions::default());
        // Each way to read and to write, since a user may have the right to some of them alone. The
        // second check meets what the first one wrote.
        for operation in [
            Operation::Check,
            Operation::Check,
            Operation::Peek,
            Operation::TakeUpTo,
            Operation::Refund,
            Operation::Reset,
        ] {
            let request = Request::new(operation, b"sluicegate-config-check");
            let asked = opened.ask(request).wait().await;
            let _ = asked.map_err(|error| Failure::of_store(&config.store, &error))?;
        }
    }
    Ok(())
}
