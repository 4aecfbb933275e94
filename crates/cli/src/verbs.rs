//! The verbs, one file each, and how a run of the program begins and ends.

mod among;
pub(crate) mod commands;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod goal;
pub(crate) mod interrupt;
pub(crate) mod jobs;
pub(crate) mod mode;
pub(crate) mod plan;
pub(crate) mod requests;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod trust;
mod work;

use crate::actor;
use crate::args::{Cli, Verb};
use crate::context::Context;
use crate::demo;
use crate::exit::{CliError, Exit};
use crate::output::{self, Output};
use crate::render;

/// Runs a verb and reports how it ended.
pub(crate) fn run(cli: Cli) -> Exit {
    let out = Output::new(cli.global.json);
    match begin(cli) {
        Ok(exit) => exit,
        Err(error) => {
            report(out, &error);
            error.exit()
        }
    }
}

/// Answers a command line that is no verb to run: help and version, or what is wrong with it.
pub(crate) fn refuse(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // Whoever closed the pipe has read what they wanted.
        let _ = error.print();
        return Exit::Done;
    }
    let text = error.to_string();
    let arguments: Vec<_> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    // A command line that cannot be read may still say who reads the answer.
    if arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json") {
        let problem = text.trim_end().strip_prefix("error: ").unwrap_or(text.trim_end());
        let _ = output::json_line(&CliError::Usage(problem.to_owned()).line());
    }
    // The answer repeats what was typed, or pasted. Only what cannot act there goes to a terminal with its colours.
    if arguments.iter().any(|argument| argument.contains(render::acts_on_terminals)) {
        output::remark(render::lines(&text).trim_end());
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

fn begin(cli: Cli) -> Result<Exit, CliError> {
    let actor = std::env::var_os(actor::ACTOR);
    actor::check(&cli.verb, actor.as_ref().map(|actor| actor.to_string_lossy()).as_deref())?;
    if let Verb::Demo(_) = &cli.verb {
        demo::refuse_places(&cli.global)?;
    }
    log_to_stderr();
    let context = Context::new(&cli.global)?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| CliError::Environment(format!("threads cannot be started: {error}")))?;
    let ended = runtime.block_on(async {
        let ended = dispatch(&context, cli.verb).await;
        context.close().await;
        ended
    });
    // A read of stdin that nobody answers must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn dispatch(context: &Context, verb: Verb) -> Result<Exit, CliError> {
    match verb {
        // By far the largest of them.
        Verb::Run(args) => Box::pin(run::run(context, args)).await,
        Verb::Session(verb) => session::run(context, verb).await,
        Verb::Plan(verb) => plan::run(context, verb).await,
        Verb::Mode(verb) => mode::run(context, verb).await,
        Verb::Goal(verb) => goal::run(context, verb).await,
        Verb::Requests(verb) => requests::run(context, verb).await,
        Verb::Commands(verb) => commands::run(context, verb).await,
        Verb::Jobs(verb) => jobs::run(context, verb).await,
        Verb::Events(args) => events::run(context, args).await,
        Verb::Interrupt(args) => interrupt::run(context, args).await,
        Verb::Doctor(args) => doctor::run(context, args).await,
        Verb::Trust(args) => trust::run(context, &args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Demo(args) => demo::run(context.out, args).await,
    }
}

fn report(out: Output, error: &CliError) {
    if matches!(error, CliError::OutputClosed) {
        return;
    }
    if out.is_json() && output::json_line(&error.line()).is_err() {
        return;
    }
    // A refusal is an answer, and as JSON it is complete. A fault should also be seen where only stderr is.
    if !(out.is_json() && matches!(error, CliError::Rejected(_))) {
        output::remark(&format!("zuno: {}", render::lines(&error.to_string())));
    }
}

/// `ZUNO_LOG` filters as in `info` or `runtime=debug`; by default warnings alone.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::Level::WARN.into())
        .with_env_var("ZUNO_LOG")
        .from_env_lossy();
    // A second logger would mean that somebody embeds this program; theirs stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(output::stderr_has_colour())
        .with_writer(std::io::stderr)
        .try_init();
}
