//! The command line: global options and verbs. Each verb's own arguments stand in its file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use domain::SessionId;
use store::StoreUrl;

use crate::demo::DemoArgs;
use crate::exit::EXIT_HELP;
use crate::render::Hints;
use crate::session_name::SessionName;
use crate::verbs::{
    commands, completions, doctor, events, goal, interrupt, jobs, mode, plan, requests, run, session, trust,
};

/// Keeps an agent's plan, mode and Goal on disk, under rules the model cannot bend.
///
/// A plan shows progress and never starts a turn. Plan mode cannot change files. Only a Goal continues by itself, once
/// after each turn, through crashes, within its budget.
#[derive(Debug, Parser)]
#[command(name = "zuno", version, max_term_width = 80, after_help = EXIT_HELP, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The options of every verb.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Not a doc comment, since rustdoc would take the address for a link.
const STORE_HELP: &str = "The store: a path or sqlite:///absolute/path [env: ZUNO_STORE] [default: zuno/zuno.db in the XDG data folder]";

/// Options that may stand before or after the verb.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The store.
    #[arg(help = STORE_HELP, long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) store: Option<StoreUrl>,

    /// The workspace [default: the root of the git repository here, else this folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) workspace: Option<PathBuf>,

    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

/// The session that a verb is about.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OfSession {
    /// The session, by its id or its short form [default: the one of this workspace that changed last]
    #[arg(long = "session", value_name = "ID")]
    pub(crate) session: Option<SessionName>,
}

impl OfSession {
    /// How hints name the session that this one turned out to be: as the person did.
    pub(crate) const fn hints(self, session: SessionId) -> Hints {
        if self.session.is_some() { Hints::of(session) } else { Hints::LATEST }
    }
}

/// How many entries are wanted at most.
pub(crate) fn parse_limit(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|limit| *limit > 0).ok_or("a limit is a whole number from 1")
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Send a prompt to an agent and stream what it does
    #[command(long_about = run::HELP)]
    Run(run::RunArgs),
    /// Open, list and show sessions
    #[command(subcommand)]
    Session(session::SessionVerb),
    /// Show and change the execution plan
    #[command(subcommand)]
    Plan(plan::PlanVerb),
    /// Show the mode, or enter Plan mode or Work mode
    #[command(subcommand)]
    Mode(mode::ModeVerb),
    /// Set, steer and run the Goal
    #[command(subcommand)]
    Goal(goal::GoalVerb),
    /// List and answer what agents ask you
    #[command(subcommand)]
    Requests(requests::RequestsVerb),
    /// List and stop background commands of agents
    #[command(subcommand)]
    Commands(commands::CommandsVerb),
    /// List, show and cancel work that agents delegated
    #[command(subcommand)]
    Jobs(jobs::JobsVerb),
    /// Print the log of a session, and follow it
    #[command(long_about = events::HELP)]
    Events(events::EventsArgs),
    /// Stop what runs, pause the Goal and hold queued prompts
    Interrupt(interrupt::InterruptArgs),
    /// Check the environment, the configuration and the store
    #[command(long_about = doctor::HELP)]
    Doctor(doctor::DoctorArgs),
    /// Let the project's file say what otherwise only your own may
    #[command(long_about = trust::HELP)]
    Trust(trust::TrustArgs),
    /// Print a script that lets a shell complete command lines
    Completions(completions::CompletionsArgs),
    /// Show it all at work in a temporary folder: no key, no network, some seconds
    Demo(DemoArgs),
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_stand_before_or_after_the_verb() {
        for line in [
            ["zuno", "--json", "--store", "/s", "--workspace", "/w", "plan", "show"],
            ["zuno", "plan", "show", "--json", "--store", "/s", "--workspace", "/w"],
            ["zuno", "plan", "--workspace", "/w", "show", "--store", "/s", "--json"],
        ] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert!(cli.global.json);
            assert_eq!(cli.global.store, Some("/s".parse().unwrap()));
            assert_eq!(cli.global.workspace, Some("/w".into()));
        }
    }

    fn help_of(command: &mut clap::Command, path: &str, out: &mut String) {
        let path = format!("{path}{}", command.get_name());
        let _ = writeln!(out, "===== {path}\n{}", command.render_long_help());
        for verb in command.get_subcommands_mut() {
            help_of(verb, &format!("{path} "), out);
        }
    }

    #[test]
    fn every_verb_explains_itself() {
        let mut command = Cli::command().term_width(80);
        command.build();
        let mut help = String::new();
        help_of(&mut command, "", &mut help);
        insta::assert_snapshot!(help);
    }
}
