//! One `zuno run` under way: the engine at work, the person's signals and answers, and the end.

use domain::{Answer, Asked, GoalStatus, HumanRequest, InputId, PauseReason, RequestId, SessionId};
use policy::IdleReason;
use runtime::{Engine, Rest, Scope};

use super::ended::{Ended, exit_of_goal, exit_of_input, is_open};
use super::keyboard::Keyboard;
use crate::config::OnOpen;
use crate::context::{Context, Opened};
use crate::exit::{CliError, Exit};
use crate::narrator::{Fate, Narrator, heard};
use crate::render::Hints;
use crate::signals::{Signals, Wish};
use crate::verbs::requests;
use crate::{output, render};

/// A run.
pub(super) struct Course<'a> {
    context: &'a Context,
    opened: &'a Opened,
    engine: Engine,
    narrator: Narrator,
    person: Person,
    session: SessionId,
    /// The person interrupted, which is on record.
    interrupted: bool,
    /// The process is to end.
    ending: bool,
}

/// The person at the other end.
pub(super) struct Person {
    /// Their signals.
    pub(super) signals: Signals,
    /// What they type.
    pub(super) keyboard: Keyboard,
    /// Whether requests are asked here.
    pub(super) is_here: bool,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        context: &'a Context,
        opened: &'a Opened,
        engine: Engine,
        narrator: Narrator,
        person: Person,
        session: SessionId,
    ) -> Self {
        Self { context, opened, engine, narrator, person, session, interrupted: false, ending: false }
    }

    /// Lets the engine work until the session rests, telling what happens. `None` if the person would not wait for that.
    /// `row` is the prompt of this run.
    pub(super) async fn until_rest(
        &mut self,
        scope: Scope,
        row: Option<InputId>,
    ) -> Result<Option<Rest>, CliError> {
        let rested = self.work(scope).await;
        if rested.is_err() {
            self.say_what_is_left(row).await;
        }
        rested
    }

    async fn work(&mut self, scope: Scope) -> Result<Option<Rest>, CliError> {
        let engine = self.engine.clone();
        let mut working = std::pin::pin!(engine.run_session(self.session, scope));
        let rest = loop {
            tokio::select! {
                rest = &mut working => break rest,
                told = self.narrator.tell_next() => heard(told)?,
                wish = self.person.signals.next() => match wish {
                    Wish::Interrupt if self.interrupted || self.ending => return Ok(None),
                    Wish::Interrupt => {
                        self.narrator.remark("interrupting; Ctrl-C again leaves at once");
                        self.interrupt().await?;
                    }
                    Wish::End => {
                        self.ending = true;
                        self.engine.shut_down();
                    }
                },
            }
        };
        heard(self.narrator.catch_up().await)?;
        Ok(Some(rest?))
    }

    /// Stops the turn, pauses the Goal and holds the queue, durably (G11).
    async fn interrupt(&mut self) -> Result<(), CliError> {
        self.opened.door.interrupt(self.session).await?;
        self.interrupted = true;
        Ok(())
    }

    const fn is_leaving(&self) -> bool {
        self.interrupted || self.ending
    }

    /// Whether the Goal that is active goes on here (T11).
    pub(super) async fn goal_goes_on(&mut self, on_open: OnOpen) -> Result<bool, CliError> {
        if self.interrupted {
            return Ok(false);
        }
        if on_open == OnOpen::Continue && !self.ending {
            return Ok(true);
        }
        Ok(self.person.is_here && !self.ending && self.ask_about_goal().await?)
    }

    async fn ask_about_goal(&mut self) -> Result<bool, CliError> {
        let view = self.opened.sessions.view(self.session).await?;
        let objective =
            view.goal.map(|goal| render::cut(&goal.objective, render::COLUMNS)).unwrap_or_default();
        self.person.keyboard.forget();
        output::remark(&format!("The Goal of this session is active:\n  {objective}\nGo on with it? [y/N]"));
        let answer = self.typed(None).await?;
        Ok(matches!(answer, Typed::Line(line) if matches!(line.trim(), "y" | "Y" | "yes")))
    }

    /// Whether the request that the session rests for was answered: here by the person, or meanwhile elsewhere.
    pub(super) async fn is_answered(&mut self, why: &IdleReason) -> Result<bool, CliError> {
        let request = match why {
            IdleReason::AwaitingAnswer { request }
            | IdleReason::GoalPaused {
                pause: PauseReason::HumanInput { request } | PauseReason::Permission { request },
            } => *request,
            _ => return Ok(false),
        };
        if !self.person.is_here || self.is_leaving() {
            return Ok(false);
        }
        let view = self.opened.sessions.view(self.session).await?;
        let asked = view.requests.iter().find(|open| open.id == request);
        if let Some(asked) = asked {
            self.person.keyboard.forget();
            output::remark(&format!("\n{}", render::in_full(asked, 0).trim_end()));
            match self.ask(asked).await? {
                Some(Answered::Here(answer)) => {
                    let answered = self.opened.door.answer(self.session, request, answer).await?;
                    if !answered.changed {
                        let end = render::settled(&answered.end);
                        output::remark(&format!("request {request} was settled before: {end}"));
                    }
                }
                Some(Answered::Elsewhere) => {}
                None => return Ok(false),
            }
        }
        heard(self.narrator.catch_up().await)?;
        Ok(true)
    }

    /// Asks until there is an answer. `None` if the person leaves it for later.
    async fn ask(&mut self, asked: &HumanRequest) -> Result<Option<Answered>, CliError> {
        let is_permission = matches!(asked.asked, Asked::Permission { .. });
        loop {
            output::remark(match &asked.asked {
                Asked::Permission { .. } => "Allow it, once? [y/N] (Ctrl-D leaves it for later)",
                Asked::Input { options, .. } if options.is_empty() => {
                    "Your answer (Ctrl-D leaves it for later):"
                }
                Asked::Input { .. } => "A number, or your own words (Ctrl-D leaves it for later):",
            });
            let words = match self.typed(Some(asked.id)).await? {
                Typed::Line(line) => line,
                Typed::Nothing => return Ok(None),
                Typed::Elsewhere => return Ok(Some(Answered::Elsewhere)),
            };
            let words = match (words.trim(), is_permission) {
                // Enter alone is the answer in capitals; a question has none.
                ("", true) => "no",
                ("", false) => continue,
                (words, _) => words,
            };
            match requests::read(asked, words, false, Hints::of(self.session)) {
                Ok(answer) => return Ok(Some(Answered::Here(answer))),
                Err(_) if is_permission => {
                    output::remark("Type y or n; words after n tell the agent why.");
                }
                Err(refused) => output::remark(&render::lines(&refused.to_string())),
            }
        }
    }

    /// Waits for a line from the person, a signal, or the answer to the request from somewhere else.
    async fn typed(&mut self, request: Option<RequestId>) -> Result<Typed, CliError> {
        let settled = async {
            let Some(request) = request else { return std::future::pending().await };
            let mut watch = self.opened.sessions.watch();
            loop {
                let view = self.opened.sessions.view(self.session).await?;
                if view.requests.iter().all(|open| open.id != request) {
                    return Ok(());
                }
                watch.changed().await;
            }
        };
        tokio::select! {
            line = self.person.keyboard.line() => Ok(line.map_or(Typed::Nothing, Typed::Line)),
            settled = settled => settled.map(|()| Typed::Elsewhere),
            wish = self.person.signals.next() => {
                match wish {
                    Wish::Interrupt => self.interrupt().await?,
                    Wish::End => self.ending = true,
                }
                // The catch-up tells what the interrupt did.
                heard(self.narrator.catch_up().await)?;
                Ok(Typed::Nothing)
            }
        }
    }

    /// Says what stays behind of a run that something around it broke off. What was submitted is durable.
    async fn say_what_is_left(&self, row: Option<InputId>) {
        let session = self.session;
        if let Some(row) = row.filter(|row| self.narrator.fate(session, *row) == Fate::default()) {
            let way = format!("zuno run --session {session}");
            output::remark(&format!(
                "the prompt stays queued as {row}; once the problem below is solved it runs with\n  {way}"
            ));
        }
        // What cannot be read here is what the error itself is about.
        let goal = self.opened.sessions.view(session).await.ok().and_then(|view| view.goal);
        if goal.is_some_and(|goal| goal.status == GoalStatus::Active) {
            output::remark(&format!(
                "the Goal stays active; then it goes on with\n  zuno goal run --session {session}"
            ));
        }
    }

    /// Ends what this process started in the background, in order, unless the person would not wait.
    async fn end_commands(&mut self) -> Result<(), CliError> {
        if !self.engine.has_commands() {
            return Ok(());
        }
        if !self.context.out.is_json() {
            self.narrator.remark("background commands end with this run; Ctrl-C leaves at once");
        }
        let engine = self.engine.clone();
        tokio::select! {
            () = engine.close() => {}
            _ = self.person.signals.next() => {}
        }
        heard(self.narrator.catch_up().await)
    }

    /// Says how it ended.
    pub(super) async fn end(
        mut self,
        row: Option<InputId>,
        rest: Option<Rest>,
        minds_goal: bool,
    ) -> Result<Exit, CliError> {
        if rest.is_some() {
            self.end_commands().await?;
        }
        let view = self.opened.sessions.view(self.session).await?;
        let fate = row.map(|row| self.narrator.fate(self.session, row)).unwrap_or_default();
        let exit = match (self.interrupted, minds_goal, &view.goal) {
            (true, ..) => Exit::Interrupted,
            (false, true, Some(goal)) => exit_of_goal(goal),
            // Without a prompt, the run is about what the session has.
            (false, false, Some(goal)) if row.is_none() && is_open(goal) => exit_of_goal(goal),
            (false, ..) => exit_of_input(row, &fate, &view),
        };
        let did_nothing = row.is_none() && !self.narrator.saw_turn(self.session);
        if self.context.out.is_json() {
            let Fate { turn, outcome, .. } = fate;
            heard(output::json_line(&Ended {
                outcome,
                session: self.session,
                turn,
                goal: view.goal,
                requests: view.requests,
                outlook: view.outlook,
                exit: exit as u8,
            }))?;
        } else if exit != Exit::Done || did_nothing || rest == Some(Rest::GoalHeldBack) {
            let next = match rest {
                Some(_) => render::next_lines(&view, Hints::of(self.session), self.opened.sessions.now()),
                None => vec!["left while the turn was stopping; `zuno events` shows how it ended".to_owned()],
            };
            for request in view.requests.iter().filter(|_| exit == Exit::NotFinished) {
                output::remark(&format!(
                    "request {}:\n{}",
                    request.id,
                    render::in_full(request, 2).trim_end()
                ));
            }
            output::remark(&output::lines_for_stderr(2, &next));
        }
        Ok(exit)
    }
}

/// How a request came to its answer.
enum Answered {
    /// The person gave it.
    Here(Answer),
    /// Somebody did, in another place.
    Elsewhere,
}

/// What came of a question.
enum Typed {
    /// A line.
    Line(String),
    /// The person left it, or interrupted.
    Nothing,
    /// It was answered somewhere else.
    Elsewhere,
}
