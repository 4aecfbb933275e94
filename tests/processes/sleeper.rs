//! A worker that is stopped with SIGSTOP in the middle of something, past its lease, and goes on with SIGCONT.

use std::fs;

use domain::{CallOutcome, Event, EventBody, GoalStatus, SessionId, Timestamp};
use serde_json::json;
use store::SystemClock;
use tests::{Gate, OpenAiServer, Reply, Running, World, Zuno, go_on, is_alive, pause, story, wait_until};
use tokio::time::{Duration, sleep};

/// A command that never ends by itself.
const TICKS: &str = "echo $$ > pid; while :; do echo tick >> ticks; sleep 0.05; done";
/// A command that ends when it is told to.
const WAITS: &str = "echo here >> waits; until [ -e go ]; do sleep 0.05; done; echo gone >> waits";

/// What a worker is in the middle of when it falls asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amid {
    /// An answer of the model that never ends.
    Stream,
    /// An answer that arrives while it sleeps.
    Answer,
    /// A command that never ends.
    Command,
    /// A command that ends while it sleeps.
    EndingCommand,
    /// A background command, between turns.
    Background,
}

/// A worker at a Goal of its own.
pub(crate) struct Sleeper {
    pub(crate) world: World<SystemClock>,
    pub(crate) amid: Amid,
    zuno: Zuno,
    session: SessionId,
    worker: Running,
    server: OpenAiServer,
    gate: Gate,
    /// The log when another worker had taken over.
    taken: Vec<Event>,
}

impl Sleeper {
    /// Starts a worker on a Goal that is completed by whoever gets to the end of what comes first.
    pub(crate) async fn start(amid: Amid) -> Self {
        let world = World::in_real_time().await;
        let session = world.session().await;
        world.goal(session, "Outlast the night").await;
        let gate = Gate::default();
        let shell = |command: &str, background: bool| {
            Reply::call("shell", &json!({ "command": command, "background": background }))
        };
        let mut first = vec![match amid {
            Amid::Stream => Reply::Begun("Half an answer".to_owned()),
            Amid::Answer => Reply::Gated(gate.clone(), Box::new(Reply::text("A whole answer."))),
            Amid::Command => shell(TICKS, false),
            Amid::EndingCommand => shell(WAITS, false),
            Amid::Background => shell(TICKS, true),
        }];
        if amid == Amid::Background {
            first.push(Reply::text("It runs."));
        }
        let server = OpenAiServer::start(move |number, request| match first.get(number - 1) {
            Some(reply) => reply.clone(),
            None if request.to_string().contains(r#"\"status\":\"completed\""#) => Reply::text("Reached."),
            None => Reply::call("goal_update", &json!({ "status": "completed" })),
        })
        .await;
        let zuno = Zuno::of(&world).with_model_at(&server.base_url);
        let worker = zuno.start(&["goal", "run", "--session", &session.to_string(), "--once"]);
        Self { world, amid, zuno, session, worker, server, gate, taken: Vec::new() }
    }

    /// Stops the worker when it is in the middle of it.
    pub(crate) async fn falls_asleep(&mut self) {
        let Self { world, server, .. } = self;
        let is_there = |file: &str| world.path(file).exists();
        match self.amid {
            Amid::Stream => {
                self.worker.runs_until("its answer", |worker| worker.printed().contains("Half")).await;
            }
            Amid::Answer => self.worker.runs_until("its request", |_| server.bodies().len() == 1).await,
            Amid::Command => self.worker.runs_until("its first tick", |_| is_there("ticks")).await,
            Amid::EndingCommand => self.worker.runs_until("its wait", |_| is_there("waits")).await,
            Amid::Background => {
                let rests = |worker: &Running| worker.printed().contains("It runs.") && is_there("ticks");
                self.worker.runs_until("its rest", rests).await;
                while self.world.store.head(self.session).await.unwrap().unwrap().leases.turn.is_some() {
                    sleep(Duration::from_millis(5)).await;
                }
            }
        }
        pause(self.worker.pid()).await;
        if self.amid == Amid::Answer {
            self.gate.open();
        }
    }

    /// Waits until the last of its leases has ended.
    pub(crate) async fn sleeps_past_its_lease(&self) {
        let leases = self.world.store.head(self.session).await.unwrap().unwrap().leases;
        let commands = leases.commands.values().map(|lease| lease.expires_at);
        let ends: Option<Timestamp> =
            leases.turn.map(|lease| lease.expires_at).into_iter().chain(commands).max();
        self.world.sessions.sleep_until(ends.unwrap().plus_ms(1)).await;
        if self.amid == Amid::EndingCommand {
            fs::write(self.world.path("go"), "").unwrap();
            wait_until("the command ends", || self.world.read("waits").ends_with("gone\n")).await;
        }
    }

    /// Another worker does what is due, and finds what nobody can tell.
    pub(crate) async fn is_taken_over(&mut self) {
        let taken = self.zuno.run(&["goal", "run", "--session", &self.session.to_string(), "--once"]).await;
        self.taken = self.log().await;
        let told = story(&self.taken);
        let (code, state) = match self.amid {
            Amid::Stream | Amid::Answer => (0, "completed"),
            Amid::Command | Amid::EndingCommand | Amid::Background => (7, "paused uncertain_side_effect"),
        };
        assert_eq!((taken.code, self.goal().await.as_str()), (Some(code), state), "\n{told}");
        let turns_lost = usize::from(self.amid != Amid::Background);
        assert_eq!(lost(&self.taken), turns_lost, "\n{told}");
        assert_eq!(uncertain(&self.taken), usize::from(code == 7), "\n{told}");
    }

    /// Wakes up and must find that nothing there is its own any more. Gives how many events it wrote all the same.
    pub(crate) async fn wakes_up_too_late(&mut self) -> usize {
        let command = match self.amid {
            Amid::Command | Amid::Background => self.world.read("pid").trim().parse().ok(),
            Amid::Stream | Amid::Answer | Amid::EndingCommand => None,
        };
        assert!(command.is_none_or(is_alive), "nobody could stop the command while its worker slept");
        go_on(self.worker.pid());
        self.worker.ends().await;
        if let Some(command) = command {
            wait_until("the command is killed", || !is_alive(command)).await;
            let ticks = self.world.read("ticks");
            sleep(Duration::from_millis(200)).await;
            assert_eq!(self.world.read("ticks"), ticks, "something still ticks");
        }
        self.zuno.assert_sound().await;
        let after = self.log().await;
        assert!(after.starts_with(&self.taken));
        after.len() - self.taken.len()
    }

    /// Wakes up while nobody took over, and goes on to the end as if nothing had been. Says whether it did.
    pub(crate) async fn wakes_up_in_time(&mut self) -> bool {
        go_on(self.worker.pid());
        let code = self.worker.ends().await.code();
        let log = self.log().await;
        self.zuno.assert_sound().await;
        if self.amid == Amid::EndingCommand {
            assert_eq!(self.world.read("waits"), "here\ngone\n", "\n{}", story(&log));
        }
        let is_done = code == Some(0) && self.goal().await == "completed";
        is_done && lost(&log) == 0 && uncertain(&log) == 0
    }

    async fn log(&self) -> Vec<Event> {
        self.world.log(self.session).await
    }

    async fn goal(&self) -> String {
        match self.world.view(self.session).await.goal.unwrap().status {
            GoalStatus::Paused(reason) => format!("paused {}", reason.name()),
            other => other.state().to_string(),
        }
    }
}

/// How many turns were declared lost.
pub(crate) fn lost(log: &[Event]) -> usize {
    log.iter().filter(|event| matches!(event.body, EventBody::TurnLost { .. })).count()
}

/// How many calls and background commands nobody can tell about.
fn uncertain(log: &[Event]) -> usize {
    let is = |event: &&Event| {
        matches!(
            event.body,
            EventBody::CallFinished { outcome: CallOutcome::Uncertain, .. }
                | EventBody::CommandEnded { outcome: CallOutcome::Uncertain, .. }
        )
    };
    log.iter().filter(is).count()
}
