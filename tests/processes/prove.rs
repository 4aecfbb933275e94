//! The long form of the contests, for `cargo xtask prove`.

use std::time::Instant;

use tests::{Effort, Proof};

use crate::account::{Account, Count, Fault};
use crate::{busy, crowd, hand_over, killed, plan_updates, race, stale};

/// Contests and their controls, as they come in.
#[derive(Default)]
struct Accounts {
    clean: Vec<Account>,
    controls: Vec<Account>,
}

impl Accounts {
    fn clean(&mut self, account: Account) {
        account.assert_clean();
        self.clean.push(account);
    }

    fn control(&mut self, account: Account) {
        account.assert_caught();
        self.controls.push(account);
    }
}

fn sum(accounts: &[Account], fault: Fault) -> Count {
    let counts = accounts.iter().map(|account| account.count(fault));
    counts.fold(Count::default(), |sum, one| Count { seen: sum.seen + one.seen, of: sum.of + one.of })
}

/// The races from a barrier.
async fn barriers(accounts: &mut Accounts, effort: Effort) {
    for processes in [2, 12] {
        accounts.clean(race::admissions("admit", processes, 200).await);
        for role in ["admit-on-what-it-saw-before", "admit-without-the-lease"] {
            accounts.control(race::admissions(role, processes, effort.pick(50, 200)).await);
        }
        accounts.clean(race::recoveries("recover", processes, effort.pick(100, 200)).await);
        let role = "recover-on-what-it-saw-before";
        accounts.control(race::recoveries(role, processes, effort.pick(50, 200)).await);
        accounts
            .clean(plan_updates::updates(processes, usize::try_from(effort.pick(100, 1_000)).unwrap()).await);
        accounts.control(plan_updates::overwriting_updates(processes, effort.pick(50, 200)).await);
        accounts.clean(crowd::prompts(processes, effort.pick(50, 200)).await);
        accounts.clean(crowd::revisions(processes, effort.pick(100, 200)).await);
        accounts.control(crowd::nagged(processes).await);
    }
}

/// Signals at processes that are in the middle of something.
async fn signals(accounts: &mut Accounts, effort: Effort) {
    for processes in [2, 12] {
        accounts.clean(killed::workers(processes, effort.pick(10, 100)).await);
        accounts.clean(hand_over::hand_overs(processes, effort.pick(10, 100)).await);
    }
    accounts.clean(killed::clients("write", effort.pick(200, 1_000)).await);
    accounts.control(killed::clients("say-before-it-writes", effort.pick(50, 200)).await);
}

/// What takes longer than a lease lasts, all at the same time: processes that sleep cost nothing.
async fn sleeps(accounts: &mut Accounts) {
    let (taken_over, going_on, embedders, control, awake, busy) = tokio::join!(
        stale::taken_over(3),
        stale::going_on(3),
        stale::embedders("admit", 12),
        stale::embedders("admit-and-never-look-again", 12),
        stale::awake(2),
        busy::busy(),
    );
    for account in [taken_over, going_on, embedders, awake, busy] {
        accounts.clean(account);
    }
    accounts.control(control);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; `cargo xtask prove` runs it"]
async fn prove_real_processes() {
    let effort = Effort::asked();
    let began = Instant::now();
    let mut proof = Proof::new("processes");
    let mut accounts = Accounts::default();
    barriers(&mut accounts, effort).await;
    signals(&mut accounts, effort).await;
    for _ in 0..effort.pick(1, 8) {
        Box::pin(sleeps(&mut accounts)).await;
    }
    println!("all contests took {:.0?}", began.elapsed());

    let Accounts { clean, controls } = &accounts;
    let row = |account: &Account| {
        let Account { what, processes, rounds, worst_wait, .. } = account;
        let wait =
            if worst_wait.is_zero() { String::new() } else { format!("{} ms", worst_wait.as_millis()) };
        [what.clone(), processes.to_string(), rounds.to_string(), account.seen(), wait]
    };
    let started: usize = clean.iter().chain(controls).map(|account| account.processes).sum();
    proof = proof
        .paragraph(format!(
            "Real processes on one SQLite file, {} contests and {} controls with at least {started} of them in all. \
             In a race all wait for one word and are let go at once; there is no randomness but the machine's. \
             The longest wait is that for the last answer of a round, or until another worker had gone on. \
             A store that stays busy is the typed failure `store_busy`, and its Goal goes on once the store is free.",
            clean.len(),
            controls.len()
        ))
        .table("Contests", ["contest", "processes", "rounds", "faults", "longest wait"], clean.iter().map(row))
        .table("Controls, which have to fail", ["contest", "processes", "rounds", "faults", "longest wait"], controls.iter().map(row));
    for fault in Fault::ALL {
        let (seen, control) = (sum(clean, fault), sum(controls, fault));
        proof = proof.fault(fault.name(), seen.seen, seen.of, control.seen, control.of);
    }
    proof.write();
}
