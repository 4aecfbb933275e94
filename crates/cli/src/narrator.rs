//! Tells what turns do as they run: the model's words on stdout, everything else on stderr.
//!
//! The runtime hands over events and pieces of text through a queue that may lose some: the log is the authority, so
//! whatever is missing is read from there before anything later is told.

mod status;
mod voice;

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Event, EventBody, GoalStatus, PauseReason, Seq, SessionId, TurnOutcome};
use runtime::{Delta, Observer, Sessions, Waiting};
use store::EVENTS_PER_PAGE;
use tokio::sync::mpsc;

use crate::exit::CliError;
use crate::output::{self, Output, dim};
use crate::render::{self, Hints};
use crate::verbs::events::EventLine;
use status::Status;
pub(crate) use voice::Fate;
use voice::Voice;

/// Messages between the turn loop and the terminal. Text that overflows it is told when its answer is complete.
const QUEUE: usize = 4_096;

enum Told {
    Event(SessionId, Box<Event>),
    Text(SessionId, String),
    Waiting(SessionId, Waiting),
}

/// Whether the worker has nothing to do in the session after this without a person.
const fn leads_to_rest(event: &Event) -> bool {
    match &event.body {
        // What is asked under a Goal pauses it in the same transaction, and is told as the outcome of its turn.
        EventBody::GoalMoved { to: GoalStatus::Paused(reason), .. } => {
            !matches!(reason, PauseReason::HumanInput { .. } | PauseReason::Permission { .. })
        }
        EventBody::GoalMoved { to: GoalStatus::Blocked { .. } | GoalStatus::BudgetLimited, .. }
        | EventBody::TurnEnded { outcome: TurnOutcome::Waiting { .. }, .. } => true,
        _ => false,
    }
}

/// The runtime's end of the queue.
struct Ear {
    queue: mpsc::Sender<Told>,
}

impl Observer for Ear {
    fn event(&self, session: SessionId, event: &Event) {
        let _ = self.queue.try_send(Told::Event(session, Box::new(event.clone())));
    }

    fn delta(&self, session: SessionId, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                let _ = self.queue.try_send(Told::Text(session, text.to_owned()));
            }
            Delta::Reasoning(_) => {}
        }
    }

    fn waiting(&self, session: SessionId, waiting: Waiting) {
        let _ = self.queue.try_send(Told::Waiting(session, waiting));
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Several sessions are told: each change of session is announced.
    pub(crate) names_sessions: bool,
    /// Whoever reads along is not there when it ends: why a session rests, and what would change that, is told when it
    /// does.
    pub(crate) explains_rest: bool,
    /// What an agent asks is shown in full once its turn has ended, so that the line about it would be a second one.
    pub(crate) shows_requests: bool,
}

impl Manner {
    /// One session, whose rest is told at the end.
    pub(crate) const OF_A_RUN: Self =
        Self { names_sessions: false, explains_rest: false, shows_requests: true };
}

/// A reader that went away does not stop the work.
pub(crate) fn heard(told: Result<(), CliError>) -> Result<(), CliError> {
    match told {
        Err(CliError::OutputClosed) => Ok(()),
        other => other,
    }
}

/// Tells what happens in one session or several.
pub(crate) struct Narrator {
    out: Output,
    sessions: Sessions,
    queue: mpsc::Receiver<Told>,
    voices: BTreeMap<SessionId, Voice>,
    /// Whose lines are being told, where there are several.
    speaking: Option<SessionId>,
    manner: Manner,
    status: Status,
}

impl Narrator {
    /// A narrator, and the observer to give to the engine.
    pub(crate) fn new(out: Output, sessions: Sessions, manner: Manner) -> (Self, Arc<dyn Observer>) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let narrator = Self {
            out,
            sessions,
            queue,
            voices: BTreeMap::new(),
            speaking: None,
            manner,
            status: Status::new(out, manner.explains_rest.then_some("waiting for work")),
        };
        (narrator, Arc::new(Ear { queue: sender }))
    }

    /// Follows a session from after this place of its log on.
    pub(crate) fn follow(&mut self, session: SessionId, after: Seq) {
        self.voices.insert(session, Voice::new(self.out, after, self.manner.shows_requests));
    }

    /// Waits for the next thing to tell, and tells it. Ends never: the engine holds the other end.
    pub(crate) async fn tell_next(&mut self) -> Result<(), CliError> {
        tokio::select! {
            told = self.queue.recv() => match told {
                Some(told) => self.tell(told).await,
                None => std::future::pending().await,
            },
            () = self.status.tick() => Ok(()),
        }
    }

    /// Says something between the lines it tells.
    pub(crate) fn remark(&mut self, text: &str) {
        self.status.clear();
        if self.voices.values().any(Voice::is_mid_line) {
            output::break_line();
        }
        output::remark(text);
    }

    /// Tells what is left in the queue and in the logs of the sessions it follows.
    pub(crate) async fn catch_up(&mut self) -> Result<(), CliError> {
        while let Ok(told) = self.queue.try_recv() {
            self.tell(told).await?;
        }
        for session in self.voices.keys().copied().collect::<Vec<_>>() {
            self.read_log(session, None).await?;
        }
        self.status.clear();
        Ok(())
    }

    /// Whether a turn was told to end.
    pub(crate) fn saw_turn(&self, session: SessionId) -> bool {
        self.voices.get(&session).is_some_and(Voice::saw_turn)
    }

    /// What became of an input, as far as it was told.
    pub(crate) fn fate(&self, session: SessionId, row: domain::InputId) -> Fate {
        self.voices.get(&session).map_or_else(Fate::default, |voice| voice.fate(row))
    }

    async fn tell(&mut self, told: Told) -> Result<(), CliError> {
        match told {
            Told::Event(session, event) => {
                if !self.voices.contains_key(&session) {
                    self.follow(session, Seq(event.seq.0.saturating_sub(1)));
                }
                self.read_log(session, Some(event.seq)).await?;
                self.tell_event(session, &event)?;
                // Waits reach the queue in order with these, and not with what others write.
                self.voices.entry(session).and_modify(Voice::waits_no_more);
                if self.manner.explains_rest && !self.out.is_json() && leads_to_rest(&event) {
                    let view = self.sessions.view(session).await?;
                    let next = render::next_lines(&view, Hints::of(session), self.sessions.now());
                    output::remark(&dim(&format!("  {}", output::lines_for_stderr(4, &next))));
                }
                Ok(())
            }
            Told::Text(session, text) => {
                // A file or a pipe gets whole answers, so that each stands below the name of its session.
                let is_told = !self.manner.names_sessions || output::stdout_is_terminal();
                if !is_told || !self.voices.get(&session).is_some_and(Voice::is_streaming) {
                    return Ok(());
                }
                self.announce(session)?;
                self.status.clear();
                self.voices.get_mut(&session).map_or(Ok(()), |voice| voice.text(&text))
            }
            Told::Waiting(session, waiting) => {
                self.read_log(session, None).await?;
                self.status.clear();
                if let Some(voice) = self.voices.get_mut(&session) {
                    voice.waiting(waiting);
                    self.status.show(voice.doing());
                }
                Ok(())
            }
        }
    }

    /// Tells what the log holds after the last event told, up to but without `before`.
    async fn read_log(&mut self, session: SessionId, before: Option<Seq>) -> Result<(), CliError> {
        loop {
            let Some(last) = self.voices.get(&session).map(Voice::last) else { return Ok(()) };
            let missing = before.map_or(u64::MAX, |before| before.0.saturating_sub(last.0 + 1));
            if missing == 0 {
                return Ok(());
            }
            let limit = usize::try_from(missing).unwrap_or(usize::MAX).min(EVENTS_PER_PAGE);
            let page = self.sessions.events_after(session, last, limit).await?;
            for event in &page.events {
                self.tell_event(session, event)?;
            }
            if !page.has_more {
                return Ok(());
            }
        }
    }

    fn tell_event(&mut self, session: SessionId, event: &Event) -> Result<(), CliError> {
        let Some(voice) = self.voices.get_mut(&session) else { return Ok(()) };
        if !voice.is_new(event.seq) {
            return Ok(());
        }
        self.status.clear();
        if self.out.is_json() {
            voice.note(event);
            return output::json_line(&EventLine { session, event });
        }
        self.announce(session)?;
        if let Some(voice) = self.voices.get_mut(&session) {
            voice.event(event)?;
            self.status.show(voice.doing());
        }
        Ok(())
    }

    fn announce(&mut self, session: SessionId) -> Result<(), CliError> {
        if !self.manner.names_sessions || self.speaking == Some(session) {
            return Ok(());
        }
        let before = self.speaking.replace(session);
        if self.out.is_json() {
            return Ok(());
        }
        if let Some(voice) = before.and_then(|before| self.voices.get_mut(&before)) {
            voice.break_off()?;
        }
        output::remark(&format!("session {session}"));
        Ok(())
    }
}
