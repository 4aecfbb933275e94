//! Jobs: delegated by a call of the main lane, each with a lane of its own, ended and reported once (E8, C5, W2, M3).

use domain::{
    Answer, CallOutcome, CallRef, Capability, CapabilitySet, Code, Condition, Effect, Event, EventBody,
    FailureKind, GoalStatus, InputKind, JobId, JobOutcome, LaneId, PauseReason, RUNNING_JOBS, StopReason,
    TurnNumber, TurnOutcome, TurnTrigger,
};
use policy::{
    AgentCommand, Awaited, CHILD, IdleReason, Jitter, NextAction, REPORT_BYTES, RuntimeCommand, UserCommand,
};
use testkit::{goal_id, plan_id};

use super::commands::{answer, ask, ask_leave, propose, start_job, wait_goal};
use super::world::{
    START, World, admit, code, complete, end, failure, goal_set, grant, kinds, owner, respond, spent,
    start_work,
};

/// A session whose main turn waits for the job that it delegated, or goes on beside it.
fn delegated(has_goal: bool, is_background: bool) -> (World, TurnNumber) {
    let mut world = World::open();
    if has_goal {
        world.set_goal();
    } else {
        world.submit("go");
    }
    world.start();
    let turn = world.delegate(is_background);
    (world, turn)
}

/// The same, with the main turn ended.
fn left_alone(has_goal: bool) -> (World, TurnNumber) {
    let (mut world, turn) = delegated(has_goal, true);
    world.conclude();
    (world, turn)
}

fn report(turn: TurnNumber, text: &str) -> RuntimeCommand {
    let report = Some(text.to_owned());
    RuntimeCommand::EndTurn { turn, outcome: TurnOutcome::Completed, report, jitter: Jitter::default() }
}

/// Has the job's turn answer, and end with this report.
fn reports(world: &mut World, turn: TurnNumber, text: &str) -> Vec<Event> {
    world.request(turn);
    world.runtime(&respond(turn, &[], spent(100))).unwrap();
    world.runtime(&report(turn, text)).unwrap()
}

/// How the calls that these events answer ended, and what the model reads of it.
fn answers(events: &[Event]) -> Vec<(CallOutcome, &str)> {
    let answers = events.iter().filter_map(|event| match &event.body {
        EventBody::CallFinished { outcome, result, .. } => Some((*outcome, result.as_str())),
        _ => None,
    });
    answers.collect()
}

fn outcome(events: &[Event]) -> Option<JobOutcome> {
    events.iter().find_map(|event| match &event.body {
        EventBody::JobEnded { outcome, .. } => Some(*outcome),
        _ => None,
    })
}

fn child() -> LaneId {
    LaneId::of_job(JobId(1))
}

#[test]
fn e8_w2_a_job_begins_to_run_in_the_decision_that_admits_its_call() {
    let mut world = World::open();
    world.set_goal();
    let call = world.start_with("task");
    let lease = world.leases.turn.clone();
    let events = world.agent(&start_job(call, true)).unwrap();
    assert_eq!(
        kinds(&events),
        ["call_admitted", "job_started", "input_queued", "turn_started", "call_finished"]
    );
    assert_eq!(world.leases.turn, lease, "T5: the turns of all lanes run under one lease");
    insta::assert_snapshot!(answers(&events)[0].1, @r#"{"job":1,"status":"running","next":"it works beside your turns; its report comes to you. To continue only then, end the turn"}"#);
    let job = &world.state.core.jobs[0];
    let goal = Some(world.goal().id);
    assert_eq!((job.id, &job.child, job.call, job.goal_id), (JobId(1), &child(), call, goal));
    let running = world.turn(world.state.core.last_turn);
    assert_eq!((running.agent.as_str(), running.goal.map(|bound| bound.goal_id)), ("deep", goal));
    let TurnTrigger::Input { rows } = &running.trigger else { panic!() };
    assert_eq!(world.state.core.lanes[&child()].inbox[0].id, rows[0]);
    assert_eq!(world.state.core.lanes[&child()].inbox[0].kind, InputKind::Task);
    world.user(&complete(false)).unwrap_err();
}

#[test]
fn w2_whoever_waits_for_a_job_reads_its_report_in_the_decision_that_ends_it() {
    let (mut world, turn) = delegated(true, false);
    let main = world.running().number;
    assert_eq!(
        code(world.runtime(&end(main, TurnOutcome::Completed))),
        Code::OutOfOrder,
        "no turn ends before its calls"
    );
    let events = reports(&mut world, turn, "It is in a.rs.");
    assert_eq!(kinds(&events), ["turn_ended", "job_ended", "call_finished"]);
    let read = "[Job 1 (deep) succeeded: look into it]\nIt is in a.rs.";
    assert_eq!(answers(&events), [(CallOutcome::Succeeded, read)]);
    assert_eq!(world.state.core.jobs, []);
    assert_eq!(world.state.core.lanes.len(), 1);
    world.conclude();
    assert!(matches!(world.next(), NextAction::RunGoal { continuation: 2, .. }));
}

#[test]
fn i5_w2_the_report_of_a_job_beside_the_turns_is_a_row_that_starts_one_only_for_an_active_goal() {
    let (mut world, turn) = left_alone(true);
    assert_eq!(world.next(), NextAction::WaitFor { what: Awaited::Jobs { jobs: vec![JobId(1)] } });
    let events = reports(&mut world, turn, "Done.");
    assert_eq!(kinds(&events), ["turn_ended", "job_ended", "input_queued"]);
    let EventBody::InputQueued { lane, input, text, goal_id, .. } = &events[2].body else { panic!() };
    assert_eq!((lane, *input, *goal_id), (&LaneId::main(), InputKind::Report, Some(world.goal().id)));
    assert_eq!(text.as_str(), "[Job 1 (deep) succeeded: look into it]\nDone.");
    assert!(matches!(world.next(), NextAction::RunInput { .. }));

    let (mut world, turn) = left_alone(false);
    reports(&mut world, turn, "Done.");
    assert_eq!(world.next(), NextAction::Idle { why: IdleReason::NothingToDo });
    assert_eq!(world.wake_at, None);
    world.submit("and?");
    let turn = world.start();
    let events = world.runtime(&super::world::begin(turn)).unwrap();
    let EventBody::InputConsumed { rows, .. } = &events[0].body else { panic!() };
    assert_eq!(rows.len(), 2, "it joins the turn that something else starts");
}

#[test]
fn c5_only_the_main_lane_delegates_and_only_with_the_capability() {
    let (mut world, turn) = delegated(true, true);
    let call = world.call(turn, &["task"])[0];
    let refused = world.agent(&start_job(call, true)).unwrap_err();
    insta::assert_snapshot!(refused, @"denied: only the session's main agent delegates; do it yourself, or say in your report what is left");
    let call = world.one_call("task");
    let without = match start_job(call, true) {
        AgentCommand::StartJob { call, grant, job } => {
            let none = CapabilitySet::of(&[]);
            AgentCommand::StartJob { call, grant: policy::CallGrant { grant: none, ..grant }, job }
        }
        other => other,
    };
    assert_eq!(code(world.agent(&without)), Code::Denied);
}

#[test]
fn c2_c5_a_child_has_what_role_parent_and_lane_all_have_and_no_more() {
    let all = CapabilitySet::of(&Capability::ALL);
    for missing in Capability::ALL {
        let without = |from: CapabilitySet| {
            let kept: Vec<_> = from.iter().filter(|one| *one != missing).collect();
            CapabilitySet::of(&kept)
        };
        for is_of_role in [false, true] {
            if missing == Capability::Delegate && !is_of_role {
                continue;
            }
            let mut world = World::open();
            world.submit("go");
            let call = world.start_with("task");
            let AgentCommand::StartJob { grant: parent, mut job, .. } = start_job(call, true) else {
                panic!()
            };
            let of_parent = if is_of_role { all } else { without(all) };
            job.role_grant = if is_of_role { without(all) } else { all };
            let grant_of_parent = policy::CallGrant { grant: of_parent, ..parent };
            world.agent(&AgentCommand::StartJob { call, grant: grant_of_parent, job }).unwrap();
            assert_eq!(world.state.core.jobs[0].may(), without(CHILD), "{missing}");
            let turn = world.state.core.last_turn;
            for capability in Capability::ALL {
                // Under a name of its own: the same call again and again would end the turn (T12).
                let call = world.call(turn, &[capability.name()])[0];
                let order =
                    AgentCommand::AdmitCall { call, grant: grant(&[capability]), effect: Effect::Read };
                let is_admitted = world.agent(&order).is_ok();
                assert_eq!(is_admitted, without(CHILD).holds(capability), "{capability} without {missing}");
                let ended = super::world::finish_call(call, CallOutcome::Succeeded);
                let refused = super::world::refuse_call(call, CallOutcome::Denied);
                world.runtime(if is_admitted { &ended } else { &refused }).unwrap();
            }
        }
    }
}

#[test]
fn c5_a_child_neither_asks_nor_speaks_for_the_goal() {
    let (mut world, turn) = delegated(true, true);
    let call = world.call(turn, &["tool"])[0];
    assert_eq!(code(world.runtime(&ask(call))), Code::Denied);
    assert_eq!(code(world.agent(&super::world::complete_goal(call))), Code::Denied);
    assert_eq!(code(world.agent(&super::commands::stage_block(call))), Code::Denied);
    assert_eq!(code(world.agent(&wait_goal(call, Condition::Time, START + 1_000))), Code::Denied);
    assert_eq!(code(world.agent(&propose(call, goal_id(9), "more"))), Code::Denied);
}

#[test]
fn c5_g4_what_a_child_spends_is_spent_by_the_goal() {
    let (mut world, turn) = delegated(true, true);
    let before = world.goal().usage.tokens.charged();
    world.call(turn, &["tool"]);
    assert_eq!(world.goal().usage.tokens.charged(), before + 100);
    world.now += 4_000;
    world
        .runtime(&super::world::refuse_call(CallRef { turn, request: 1, index: 0 }, CallOutcome::Refused))
        .unwrap();
    reports(&mut world, turn, "Done.");
    assert!(world.goal().usage.active_ms >= 4_000);
}

#[test]
fn p18_a_lane_writes_its_own_plan_and_the_plan_goes_with_its_job() {
    let (mut world, turn) = delegated(true, true);
    world.update_plan("a:in_progress", None).unwrap();
    let call = world.call(turn, &["plan_update"])[0];
    let update = world.plan_update("b:in_progress c", None);
    let update = policy::PlanUpdate { new_plan: plan_id(77), ..update };
    let of_child =
        AgentCommand::UpdatePlan { call, grant: grant(&[Capability::UpdatePlan]), update, ignored: vec![] };
    world.agent(&of_child).unwrap();
    let plans = &world.state.plans;
    assert_eq!(plans[&child()].id, plan_id(77));
    assert_eq!(plans[&LaneId::main()].revision.0, 1);
    assert_ne!(plans[&LaneId::main()].id, plan_id(77));
    reports(&mut world, turn, "Done.");
    assert_eq!(world.state.plans.len(), 1);
}

#[test]
fn w2_jobs_that_run_at_once_are_bounded() {
    let mut world = World::open();
    world.set_goal();
    world.start();
    let turns: Vec<_> = (0..RUNNING_JOBS).map(|_| world.delegate(true)).collect();
    let call = world.one_call("task");
    insta::assert_snapshot!(world.agent(&start_job(call, true)).unwrap_err(), @"limit_exceeded: 4 jobs run already; wait for the report of one, or do it yourself");
    reports(&mut world, turns[2], "Done.");
    world.agent(&start_job(call, true)).unwrap();
    let ids: Vec<_> = world.state.core.jobs.iter().map(|job| job.id.0).collect();
    assert_eq!(ids, [1, 2, 4, 5]);
}

#[test]
fn w2_a_job_ends_as_its_turn_does() {
    let cases = [
        (
            TurnOutcome::Failed { failure: failure(FailureKind::Transport) },
            JobOutcome::Failed,
            CallOutcome::Failed,
        ),
        (TurnOutcome::Stopped { reason: StopReason::Shutdown }, JobOutcome::Cancelled, CallOutcome::Stopped),
    ];
    for (ended, job, call) in cases {
        let (mut world, turn) = delegated(true, false);
        let status = world.status().clone();
        let events = world.runtime(&end(turn, ended)).unwrap();
        assert_eq!(outcome(&events), Some(job));
        assert_eq!(answers(&events)[0].0, call);
        assert_eq!(*world.status(), status, "the failure of a child is its parent's to deal with");
        assert_eq!(world.goal().retry, None);
        world.conclude();
    }
}

#[test]
fn w2_t7_a_lost_job_is_reported_and_never_run_again() {
    for (effect, job) in [
        (None, JobOutcome::Failed),
        (Some(Effect::Read), JobOutcome::Failed),
        (Some(Effect::External), JobOutcome::Uncertain),
    ] {
        let (mut world, turn) = left_alone(true);
        let call = world.call(turn, &["tool"])[0];
        if let Some(effect) = &effect {
            world.admit_call(call, effect.clone());
        }
        let events = world.lose(turn);
        assert_eq!(outcome(&events), Some(job), "{effect:?}");
        assert_eq!(world.goal().streaks.lost, 0, "G7: a lost job is no lost turn of the Goal");
        let text = events.iter().find_map(|event| match &event.body {
            EventBody::InputQueued { text, .. } => Some(text.as_str()),
            _ => None,
        });
        assert!(text.unwrap().contains("cut off by a crash"));
        let is_held = matches!(world.status(), GoalStatus::Paused(PauseReason::UncertainSideEffect { .. }));
        assert_eq!(is_held, job == JobOutcome::Uncertain);
        if !is_held {
            assert!(matches!(world.next(), NextAction::RunInput { .. }), "its parent reads that it was lost");
        }
    }
}

#[test]
fn t7_both_turns_of_a_worker_that_died_are_recovered_whichever_comes_first() {
    for is_child_first in [true, false] {
        let (mut world, turn) = delegated(true, false);
        let main = world.running().number;
        let order = if is_child_first { [turn, main] } else { [main, turn] };
        let first = world.lose(order[0]);
        let second = world.lose(order[1]);
        let all: Vec<_> = first.iter().chain(&second).cloned().collect();
        assert_eq!(outcome(&all), Some(JobOutcome::Failed));
        assert_eq!(answers(&all).len(), 1, "the call is answered once");
        assert!(world.leases.is_empty());
        assert!(!matches!(world.next(), NextAction::Idle { .. }));
    }
}

#[test]
fn m3_entering_plan_mode_ends_every_job() {
    let (mut world, turn) = delegated(true, false);
    let main = world.running().number;
    let events = world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "turn_stop_requested").count(), 2);
    assert_eq!(world.turn(turn).stop, Some(StopReason::PlanMode));
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(outcome(&events), Some(JobOutcome::Cancelled));
    assert_eq!(answers(&events)[0].0, CallOutcome::Stopped);
    world.runtime(&end(main, TurnOutcome::Completed)).unwrap();
    world.user(&start_work(None, None)).unwrap();
    assert!(matches!(world.next(), NextAction::RunGoal { .. }));

    // One that waits for the person has no turn to stop.
    let (mut world, turn) = left_alone(false);
    let call = world.call(turn, &["tool"])[0];
    world.runtime(&ask_leave(call)).unwrap();
    let events = world.user(&UserCommand::EnterPlan).unwrap();
    assert_eq!(
        kinds(&events),
        ["mode_changed", "request_settled", "job_ended", "input_queued"],
        "it ends with its question in the same decision"
    );
    let call = {
        world.submit("plan it");
        world.start_with("task")
    };
    assert_eq!(code(world.agent(&start_job(call, true))), Code::Denied, "and none begins");
}

#[test]
fn i4_c5_a_permission_that_a_child_needs_is_asked_on_the_session_and_its_job_goes_on_with_the_answer() {
    let (mut world, turn) = delegated(true, false);
    let call = world.call(turn, &["tool"])[0];
    let events = world.runtime(&ask_leave(call)).unwrap();
    let told = answers(&events);
    assert_eq!(told[0].0, CallOutcome::Waiting);
    assert_eq!(
        told[1],
        (
            CallOutcome::Waiting,
            "job 1 waits until the user answers request 1; its report follows in a later turn"
        )
    );
    assert_eq!(
        *world.status(),
        GoalStatus::Paused(PauseReason::Permission { request: domain::RequestId(1) })
    );
    let main = world.running().number;
    world.runtime(&end(main, TurnOutcome::Completed)).unwrap();
    world.user(&answer(1, Answer::Allow)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active);
    let lane = child();
    let in_child = RuntimeCommand::AdmitTurn {
        lane: lane.clone(),
        owner: owner(1),
        model: "m".parse().unwrap(),
        scope: policy::Scope::InputOnly,
        max_requests: 5.try_into().unwrap(),
        confinement: None,
    };
    world.runtime(&in_child).unwrap();
    let turn = world.state.core.last_turn;
    assert_eq!(world.turn(turn).agent.as_str(), "deep");
    let call = CallRef { turn, request: 0, index: 0 };
    let allowed = super::commands::asking(&[Capability::Network]);
    world.agent(&AgentCommand::AdmitCall { call, grant: allowed, effect: Effect::External }).unwrap();
    world.runtime(&super::world::finish_call(call, CallOutcome::Succeeded)).unwrap();
    let events = reports(&mut world, turn, "Fetched.");
    assert_eq!(kinds(&events), ["turn_ended", "job_ended", "input_queued"]);
}

#[test]
fn i4_w2_a_goal_that_goes_on_without_the_answer_ends_the_job_that_asked() {
    let (mut world, turn) = left_alone(true);
    let call = world.call(turn, &["tool"])[0];
    world.runtime(&ask_leave(call)).unwrap();
    let events = world.user(&UserCommand::ResumeGoal).unwrap();
    assert_eq!(kinds(&events), ["request_settled", "goal_moved", "job_ended", "input_queued"]);
    assert_eq!(outcome(&events), Some(JobOutcome::Cancelled));
    assert!(matches!(world.next(), NextAction::RunInput { .. }), "its parent reads why");
}

#[test]
fn t5_another_lanes_turn_starts_under_the_lease_of_its_owner_alone() {
    let (mut world, _) = left_alone(false);
    world.submit("meanwhile");
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::LeaseHeld);
    let lease = world.leases.turn.clone().unwrap();
    world.now += 1_000;
    world.runtime(&admit(&owner(1))).unwrap();
    assert_eq!(world.leases.turn, Some(lease), "it is taken once, and renewed by its turns");
    assert_eq!(world.state.core.running_turns().count(), 2);
    assert_eq!(code(world.runtime(&admit(&owner(1)))), Code::LeaseHeld, "T4: one turn in a lane");
    world.now += policy::LEASE_MS;
    assert_eq!(code(world.runtime(&admit(&owner(2)))), Code::RecoveryNeeded);
}

#[test]
fn w2_the_user_cancels_a_job_and_its_parent_reads_so() {
    let cancel = |job: u32| UserCommand::CancelJob { job: JobId(job) };
    let (mut world, turn) = delegated(true, false);
    let events = world.user(&cancel(1)).unwrap();
    assert_eq!(kinds(&events), ["turn_stop_requested"]);
    assert_eq!(world.user(&cancel(1)).unwrap(), [], "once is enough");
    assert_eq!(world.running().stop, None, "its parent goes on");
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    let read = "[Job 1 (deep) cancelled: look into it]\nit was stopped: job_cancelled";
    assert_eq!(answers(&events), [(CallOutcome::Stopped, read)]);
    insta::assert_snapshot!(world.user(&cancel(1)).unwrap_err(), @"unknown_job: job 1 is over");
    for unknown in [0, 2] {
        assert_eq!(code(world.user(&cancel(unknown))), Code::UnknownJob);
    }

    let (mut world, turn) = left_alone(true);
    let call = world.call(turn, &["tool"])[0];
    world.runtime(&ask_leave(call)).unwrap();
    world.user(&cancel(1)).unwrap();
    assert_eq!(*world.status(), GoalStatus::Active, "the pause goes with the question that caused it");
    assert_eq!(world.state.core.requests, []);
}

#[test]
fn g12_a_goal_waits_for_its_jobs_and_takes_them_along_when_it_ends() {
    let (mut world, turn) = left_alone(true);
    insta::assert_snapshot!(world.user(&complete(false)).unwrap_err(), @"open_work: the Goal still has open work (1 running job); complete it with --force to cancel that");
    for ends in
        [complete(true), UserCommand::CancelGoal, goal_set(goal_id(50), domain::Budgets::default(), true)]
    {
        let mut world = world.clone();
        world.user(&ends).unwrap();
        assert_eq!(world.turn(turn).stop, Some(StopReason::GoalChanged));
        let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
        assert_eq!(outcome(&events), Some(JobOutcome::Cancelled));
        assert!(!kinds(&events).contains(&"input_queued"), "nobody reads its report");
    }
}

#[test]
fn g11_an_interrupt_ends_every_job() {
    let (mut world, turn) = delegated(true, false);
    let main = world.running().number;
    world.user(&UserCommand::Interrupt).unwrap();
    assert_eq!(world.turn(turn).stop, Some(StopReason::Interrupted));
    let events = world.runtime(&end(turn, TurnOutcome::Completed)).unwrap();
    assert_eq!(outcome(&events), Some(JobOutcome::Cancelled));
    world.runtime(&end(main, TurnOutcome::Completed)).unwrap();
    assert!(matches!(world.next(), NextAction::Idle { .. }));
}

#[test]
fn g10_a_wait_for_a_job_is_over_with_it() {
    let (mut world, turn) = delegated(true, true);
    let call = world.one_call("goal_wait");
    for unknown in [0, 2] {
        let wait = wait_goal(call, Condition::Job { job: JobId(unknown) }, START + 60_000);
        assert_eq!(code(world.agent(&wait)), Code::UnknownJob);
    }
    world.agent(&wait_goal(call, Condition::Job { job: JobId(1) }, START + 60_000)).unwrap();
    world.conclude();
    assert!(matches!(world.next(), NextAction::WaitFor { what: Awaited::Condition { .. } }));
    let events = reports(&mut world, turn, "Done.");
    assert!(kinds(&events).contains(&"goal_wait_met"));
    assert!(matches!(world.next(), NextAction::RunInput { .. }));
}

#[test]
fn v2_a_report_is_cut_to_what_a_model_reads_of_one_result() {
    let (mut world, turn) = delegated(true, false);
    let events = reports(&mut world, turn, &"ä".repeat(REPORT_BYTES));
    assert!(answers(&events)[0].1.len() <= REPORT_BYTES + 256);
}

#[test]
fn g7_what_a_job_brings_counts_for_the_goal_and_that_it_brought_nothing_does_not() {
    let (mut world, turn) = left_alone(true);
    assert_eq!(world.goal().streaks.without_evidence, 1);
    let mut idle = world.clone();
    reports(&mut idle, turn, "Nothing.");
    assert_eq!(idle.goal().streaks.without_evidence, 1);
    let call = world.call(turn, &["write_file"])[0];
    world.run_call(call, super::world::write("p", 1), "ok");
    reports(&mut world, turn, "Written.");
    assert_eq!(world.goal().streaks.without_evidence, 0);
}
