//! An engine to test, and the commands that tests send.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use domain::{
    Budgets, Candidate, CandidateStep, CommandKey, GoalId, InputText, LaneId, ModelName, Objective, PlanId,
    Revision, SessionId, SessionState, Snapshot, StepStatus, Timestamp,
};
use policy::{
    Command, Decision, Delivery, Facts, Owner, PlanUpdate, Rejection, RuntimeCommand, UserActor, UserCommand,
};
use store::{Ask, CommandKeyed, Committed, ExecuteError, ManualClock, Store, StoreUrl, digest};

/// A place for one store of one engine. The only part of the suite that knows engines.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
}

/// A time like any other.
pub(crate) const START: Timestamp = Timestamp(1_800_000_000_000);

/// Runs a test on each engine.
pub(crate) async fn on_each_engine<F: Future<Output = ()>>(test: impl Fn(Site) -> F) {
    test(Site::sqlite()).await;
}

impl Site {
    pub(crate) fn sqlite() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: Arc::new(ManualClock::new(START)) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }

    pub(crate) fn url(&self) -> StoreUrl {
        self.path().into()
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.url(), self.clock.clone()).await.unwrap()
    }

    /// A connection to the database behind the store's back.
    pub(crate) async fn raw(&self) -> sqlx::SqliteConnection {
        use sqlx::Connection as _;
        sqlx::SqliteConnection::connect_with(
            &sqlx::sqlite::SqliteConnectOptions::new().filename(self.path()).foreign_keys(false),
        )
        .await
        .unwrap()
    }

    /// Changes the database behind the store's back.
    pub(crate) async fn tamper(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut self.raw().await).await.unwrap();
    }

    /// Everything in the database, as text.
    pub(crate) async fn dump(&self) -> String {
        use std::fmt::Write as _;

        use sqlx::{Column as _, Row as _, ValueRef as _};
        let mut connection = self.raw().await;
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
        let mut dump = String::new();
        for table in tables {
            let select = sqlx::AssertSqlSafe(format!("SELECT * FROM {table} ORDER BY 1, 2"));
            for row in sqlx::query(select).fetch_all(&mut connection).await.unwrap() {
                dump.push_str(&table);
                for column in row.columns() {
                    let raw = row.try_get_raw(column.ordinal()).unwrap();
                    let bytes: Vec<u8> = if raw.is_null() {
                        b"NULL".to_vec()
                    } else {
                        row.try_get_unchecked(column.ordinal()).unwrap()
                    };
                    write!(dump, " | {} {}", column.name(), String::from_utf8_lossy(&bytes)).unwrap();
                }
                dump.push('\n');
            }
        }
        dump
    }
}

pub(crate) fn session(number: u128) -> SessionId {
    SessionId::from_u128(number)
}

pub(crate) fn user() -> UserActor {
    UserActor::for_client("test".parse().unwrap())
}

pub(crate) fn owner() -> Owner {
    Owner { worker: "worker".parse().unwrap(), place: String::new(), pid: 1, started: 1 }
}

/// A deciding function for a user's command.
pub(crate) fn by_user(
    command: UserCommand,
) -> impl Fn(&SessionState, &Facts) -> Result<Decision, Rejection> + Send + Sync + 'static {
    move |state, facts| policy::decide(state, Command::User(&user(), &command), facts)
}

/// A deciding function for the runtime.
pub(crate) fn by_runtime(
    command: RuntimeCommand,
) -> impl Fn(&SessionState, &Facts) -> Result<Decision, Rejection> + Send + Sync + 'static {
    move |state, facts| policy::decide(state, Command::Runtime(&owner().worker, &command), facts)
}

pub(crate) fn keyed(key: &str, payload: &str) -> Ask {
    let key = CommandKey::parse(key).unwrap();
    Ask { key: Some(CommandKeyed { key, payload: digest(payload.as_bytes()) }), ..Ask::default() }
}

pub(crate) fn open_session() -> UserCommand {
    UserCommand::OpenSession { workspace: "/w".to_owned(), agent: "build".parse().unwrap() }
}

pub(crate) fn submit(text: &str) -> UserCommand {
    let (text, delivery) = (InputText::parse(text).unwrap(), Delivery::Queue);
    UserCommand::SubmitInput { lane: LaneId::main(), text, delivery, resume: false }
}

pub(crate) fn admit_turn() -> RuntimeCommand {
    let model: ModelName = "scripted".parse().unwrap();
    RuntimeCommand::AdmitTurn {
        lane: LaneId::main(),
        owner: owner(),
        model,
        scope: policy::Scope::All,
        max_requests: NonZeroU32::new(250).unwrap(),
        confinement: None,
    }
}

/// An update of a plan of three steps: `done` steps are completed, the next one is in progress.
pub(crate) fn plan(done: usize, expected: Option<u64>) -> UserCommand {
    let status = |at: usize| match at {
        at if at < done => StepStatus::Completed,
        at if at == done => StepStatus::InProgress,
        _ => StepStatus::Pending,
    };
    let steps = ["inspect", "implement", "verify"].iter().enumerate();
    let steps = steps.map(|(at, id)| CandidateStep {
        id: (*id).to_owned(),
        title: format!("{id} it"),
        status: status(at),
    });
    let candidate = Candidate {
        title: "Implement session export".to_owned(),
        steps: steps.collect(),
        expected_revision: None,
        goal_id: None,
        explanation: None,
    };
    UserCommand::UpdatePlan {
        lane: LaneId::main(),
        update: PlanUpdate {
            snapshot: Snapshot::check(&candidate).unwrap(),
            expected_revision: expected.map(Revision),
            goal_id: None,
            new_plan: PlanId::from_u128(77),
        },
    }
}

/// Sends a user's command without a key.
pub(crate) async fn send(
    store: &Store,
    id: SessionId,
    command: UserCommand,
) -> Result<Committed, ExecuteError> {
    store.execute(id, Ask::default(), by_user(command)).await
}

/// Sends one of the runtime.
pub(crate) async fn run(
    store: &Store,
    id: SessionId,
    command: RuntimeCommand,
) -> Result<Committed, ExecuteError> {
    store.execute(id, Ask::default(), by_runtime(command)).await
}

pub(crate) fn set_goal(number: u128) -> UserCommand {
    UserCommand::SetGoal {
        goal_id: GoalId::from_u128(number),
        objective: Objective::parse("export works").unwrap(),
        criteria: None,
        budgets: Budgets::default(),
        replace: false,
    }
}

/// A plan of one step, as the revision after `current`.
pub(crate) fn plan_of_one(current: u64) -> UserCommand {
    let step = CandidateStep {
        id: "only".to_owned(),
        title: format!("after {current}"),
        status: StepStatus::InProgress,
    };
    let candidate = Candidate {
        title: "One".to_owned(),
        steps: vec![step],
        expected_revision: None,
        goal_id: None,
        explanation: None,
    };
    UserCommand::UpdatePlan {
        lane: LaneId::main(),
        update: PlanUpdate {
            snapshot: Snapshot::check(&candidate).unwrap(),
            expected_revision: Some(Revision(current)),
            goal_id: None,
            new_plan: PlanId::from_u128(78),
        },
    }
}
