//! Processes change one plan at the same time; each is told when it was too late and tries again.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use domain::{EventBody, LaneId, Seq, SessionId};
use serde_json::{Value, json};
use store::SystemClock;
use tests::{World, Zuno};

use crate::account::{Account, Fault};
use crate::race::{at_once, field};

/// Processes at the same plan in an ordinary run.
const PROCESSES: usize = 10;
/// Updates each of them gets accepted.
const UPDATES: usize = 50;
/// Revisions read at once.
const PAGE: usize = 1_000;

/// An update that a process was told is durable.
#[derive(Debug, PartialEq, Eq)]
struct Acknowledged {
    revision: u64,
    title: String,
}

/// What one process did.
struct Contribution {
    acknowledged: Vec<Acknowledged>,
    conflicts: usize,
    worst_wait: Duration,
}

/// `zuno plan update --stream`: a candidate on each line of its input, an answer on each line of its output.
struct Stream {
    child: Child,
    candidates: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Stream {
    fn start(zuno: &Zuno, session: SessionId) -> Self {
        let session = session.to_string();
        let mut command = zuno.command(&["plan", "update", "--session", &session, "--stream"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let candidates = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, candidates, answers }
    }

    fn send(&mut self, candidate: &Value) -> Value {
        self.candidates.write_all(format!("{candidate}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        assert!(self.answers.read_line(&mut answer).unwrap() > 0, "the stream ended");
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }

    fn end(self) {
        let Self { mut child, candidates, answers } = self;
        drop((candidates, answers));
        let status = child.wait().unwrap();
        assert!(status.success() || status.code() == Some(3), "{status}");
    }
}

fn candidate(title: &str, expected: u64) -> Value {
    json!({
        "title": title,
        "expected_revision": expected,
        "steps": [
            { "id": "count", "title": "Count the updates", "status": "in_progress" },
            { "id": "compare", "title": "Compare them with the log", "status": "pending" },
        ],
    })
}

/// Gets its updates accepted one after the other. A refusal says which revision is current.
fn contribute(process: usize, updates: usize, mut stream: Stream) -> Contribution {
    let mut account = Contribution { acknowledged: Vec::new(), conflicts: 0, worst_wait: Duration::ZERO };
    let mut expected = 1;
    for update in 1..=updates {
        let title = format!("process {process}, update {update}");
        loop {
            let sent = Instant::now();
            let answer = stream.send(&candidate(&title, expected));
            account.worst_wait = account.worst_wait.max(sent.elapsed());
            if let Some(revision) = answer["accepted"]["revision"].as_u64() {
                assert_eq!(revision, expected + 1, "{answer}");
                account.acknowledged.push(Acknowledged { revision, title });
                expected = revision;
                break;
            }
            assert_eq!(answer["rejected"]["code"], "revision_conflict", "{answer}");
            account.conflicts += 1;
            let current = answer["rejected"]["current_revision"].as_u64().unwrap();
            assert!(current > expected, "{answer}");
            expected = current;
        }
    }
    stream.end();
    account
}

/// So many processes of `zuno plan update --stream` get so many updates each accepted.
pub(crate) async fn updates(processes: usize, updates: usize) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.user.update_plan(session, &candidate("the first", 0), None).await.unwrap();
    let zuno = Zuno::of(&world);
    let streams: Vec<_> = (0..processes).map(|_| Stream::start(&zuno, session)).collect();
    let workers: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(process, stream)| std::thread::spawn(move || contribute(process, updates, stream)))
        .collect();
    let accounts: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();

    let mut acknowledged: Vec<_> = accounts.iter().flat_map(|account| &account.acknowledged).collect();
    acknowledged.sort_by_key(|update| update.revision);
    let recorded = revisions(&world, session).await;
    assert_eq!(recorded.len(), processes * updates);
    let lost = acknowledged.iter().filter(|update| !recorded.contains(update)).count() as u64;
    zuno.assert_sound().await;

    let conflicts: usize = accounts.iter().map(|account| account.conflicts).sum();
    let worst = accounts.iter().map(|account| account.worst_wait).max().unwrap();
    Account::new(format!("plan updates, {conflicts} refused as conflicts"), processes, recorded.len() as u64)
        .saw(Fault::Duplicated, twice(recorded.iter().map(|update| update.revision)))
        .saw(Fault::Lost, lost)
        .waited(worst)
}

/// The control: clients that send what they made of an older plan for the revision that is there.
pub(crate) async fn overwriting_updates(processes: usize, rounds: u64) -> Account {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.user.update_plan(session, &candidate("the first", 0), None).await.unwrap();
    let role = "update-whatever-is-there";
    let mut racers = field(role, processes, &world, session);
    let (mut lost, mut worst) = (0, Duration::ZERO);
    for _ in 0..rounds {
        let (answers, took) = at_once(&mut racers);
        worst = worst.max(took);
        // Between the revision it saw and the one it wrote stands one that nobody saw before it was replaced.
        let overwrote = |answer: &String| {
            let (seen, written) = answer.split_once(' ').unwrap();
            written.parse::<u64>().unwrap() > seen.parse::<u64>().unwrap() + 1
        };
        lost += u64::from(answers.iter().any(overwrote));
    }
    Account::new(format!("plan updates by `{role}`"), processes, rounds).saw(Fault::Lost, lost).waited(worst)
}

/// How many of these were there before.
fn twice<T: Ord>(all: impl IntoIterator<Item = T>) -> u64 {
    let mut seen = BTreeSet::new();
    all.into_iter().filter_map(|one| (!seen.insert(one)).then_some(())).count() as u64
}

#[tokio::test]
async fn e3_p9_p13_of_ten_processes_at_one_plan_no_acknowledged_revision_is_lost() {
    updates(PROCESSES, UPDATES).await.assert_clean();
}

#[tokio::test]
async fn the_check_catches_updates_that_replace_what_nobody_saw() {
    overwriting_updates(2, 50).await.assert_caught();
}

/// Every revision in the log after the first, with its title.
async fn revisions(world: &World<SystemClock>, session: SessionId) -> Vec<Acknowledged> {
    let (mut found, mut after) = (Vec::new(), Seq(1));
    loop {
        let page = world.store.plan_history(session, &LaneId::main(), after, PAGE).await.unwrap();
        for event in page.events {
            let EventBody::PlanRevised { plan, .. } = event.body else { panic!("{:?}", event.body) };
            let title = plan.snapshot.title().to_string();
            found.push(Acknowledged { revision: plan.revision.0, title });
        }
        after = page.next;
        if !page.has_more {
            found.remove(0);
            return found;
        }
    }
}
