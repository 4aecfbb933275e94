//! Ten processes change one plan at the same time; each is told when it was too late and tries again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{EventBody, LaneId, Seq, SessionId};
use serde_json::{Value, json};
use store::SystemClock;
use tests::{World, Zuno};

/// Processes at the same plan.
const PROCESSES: usize = 10;
/// Updates each of them gets accepted.
const UPDATES: usize = 200;
/// Revisions read at once.
const PAGE: usize = 1_000;

/// An update that a process was told is durable.
#[derive(Debug, PartialEq, Eq)]
struct Acknowledged {
    revision: u64,
    title: String,
}

/// What one process did.
struct Account {
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
fn contribute(process: usize, mut stream: Stream) -> Account {
    let mut account = Account { acknowledged: Vec::new(), conflicts: 0, worst_wait: Duration::ZERO };
    let mut expected = 1;
    for update in 1..=UPDATES {
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

#[tokio::test]
async fn e3_p9_p13_of_ten_processes_at_one_plan_no_acknowledged_revision_is_lost() {
    let world = World::in_real_time().await;
    let session = world.session().await;
    world.user.update_plan(session, &candidate("the first", 0), None).await.unwrap();
    let zuno = Arc::new(Zuno::of(&world));
    let streams: Vec<_> = (0..PROCESSES).map(|_| Stream::start(&zuno, session)).collect();
    let started = Instant::now();
    let workers: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(process, stream)| std::thread::spawn(move || contribute(process, stream)))
        .collect();
    let accounts: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let took = started.elapsed();

    let mut acknowledged: Vec<_> = accounts.iter().flat_map(|account| &account.acknowledged).collect();
    acknowledged.sort_by_key(|update| update.revision);
    let recorded = revisions(&world, session).await;
    assert_eq!(recorded.len(), PROCESSES * UPDATES);
    assert!(acknowledged.into_iter().eq(recorded.iter()), "what was acknowledged is not what is there");
    zuno.assert_sound().await;

    let conflicts: usize = accounts.iter().map(|account| account.conflicts).sum();
    let worst = accounts.iter().map(|account| account.worst_wait).max().unwrap();
    println!("{PROCESSES} processes, {} accepted, {conflicts} conflicts in {took:.1?}", PROCESSES * UPDATES);
    println!("worst wait for an answer: {worst:.1?}");
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
