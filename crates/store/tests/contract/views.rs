//! The views for people who look with the database's own tools.

use std::fmt::Write as _;

use domain::{LaneId, ModelCall, Remark, Revision, TokenUsage, TurnNumber, TurnOutcome};
use policy::{Jitter, RuntimeCommand, UserCommand};

use crate::site::{
    Site, admit_turn, on_each_engine, open_session, plan, run, send, session, set_goal, submit,
};

async fn table(site: &Site, select: &'static str) -> String {
    use sqlx::{Column as _, Row as _, ValueRef as _};
    let rows = sqlx::query(select).fetch_all(&mut site.raw().await).await.unwrap();
    let mut lines = Vec::new();
    for row in rows {
        let cell = |column: usize| -> String {
            if row.try_get_raw(column).unwrap().is_null() {
                return "-".to_owned();
            }
            row.try_get_unchecked(column).unwrap()
        };
        let columns = row.columns().iter().map(|column| cell(column.ordinal()));
        lines.push(columns.collect::<Vec<_>>().join(" | "));
    }
    lines.join("\n")
}

#[tokio::test]
async fn the_views_tell_the_story_of_a_session() {
    on_each_engine(async |site: Site| {
        let store = site.open().await;
        let id = session(1);
        send(&store, id, open_session()).await.unwrap();
        send(&store, id, plan(0, None)).await.unwrap();
        send(&store, id, plan(1, Some(1))).await.unwrap();
        let (lane, reason) = (LaneId::main(), Remark::parse("another way").unwrap());
        let close = UserCommand::ClosePlan { lane, expected_revision: Some(Revision(2)), reason };
        send(&store, id, close).await.unwrap();
        send(&store, id, submit("export it")).await.unwrap();
        run(&store, id, admit_turn()).await.unwrap();
        site.clock.advance_ms(1_234);
        let turn = TurnNumber(1);
        run(&store, id, RuntimeCommand::BeginRequest { turn, estimated_input: 10 }).await.unwrap();
        let (calls, usage) = (Vec::<ModelCall>::new(), TokenUsage::default());
        let response = RuntimeCommand::RecordResponse { turn, text: "done".to_owned(), calls, usage };
        run(&store, id, response).await.unwrap();
        let (outcome, jitter) = (TurnOutcome::Completed, Jitter::default());
        run(&store, id, RuntimeCommand::EndTurn { turn, outcome, report: None, jitter }).await.unwrap();
        send(&store, id, set_goal(5)).await.unwrap();
        run(&store, id, admit_turn()).await.unwrap();
        let mut told = String::new();
        for (name, select) in [
            ("timeline", "SELECT seq, at, by, kind FROM timeline ORDER BY seq"),
            (
                "plan_revisions",
                "SELECT lane, revision, seq, by, change, title, completed, total, active, explanation \
                 FROM plan_revisions ORDER BY seq",
            ),
            ("goals", "SELECT goal_id, opened_at, objective, status, continuations FROM goals"),
            (
                "turns",
                "SELECT turn, lane, agent, model, trigger, started_at, ended_at, outcome FROM turns ORDER BY turn",
            ),
        ] {
            write!(told, "{name}\n{}\n\n", table(&site, select).await).unwrap();
        }
        insta::allow_duplicates!(insta::assert_snapshot!(told, @"
        timeline
        1 | 2027-01-15T08:00:00.000Z | user | session_opened
        2 | 2027-01-15T08:00:00.000Z | user | plan_revised
        3 | 2027-01-15T08:00:00.000Z | user | plan_revised
        4 | 2027-01-15T08:00:00.000Z | user | plan_closed
        5 | 2027-01-15T08:00:00.000Z | user | input_queued
        6 | 2027-01-15T08:00:00.000Z | runtime | turn_started
        7 | 2027-01-15T08:00:01.234Z | runtime | input_consumed
        8 | 2027-01-15T08:00:01.234Z | runtime | model_requested
        9 | 2027-01-15T08:00:01.234Z | runtime | model_responded
        10 | 2027-01-15T08:00:01.234Z | runtime | turn_ended
        11 | 2027-01-15T08:00:01.234Z | user | goal_opened
        12 | 2027-01-15T08:00:01.234Z | runtime | turn_started

        plan_revisions
        main | 1 | 2 | user | revised | Implement session export | 0 | 3 | inspect | -
        main | 2 | 3 | user | revised | Implement session export | 1 | 3 | implement | -
        main | 2 | 4 | user | closed | - | - | - | - | another way

        goals
        00000000-0000-0000-0000-000000000005 | 2027-01-15T08:00:01.234Z | export works | active | 1

        turns
        1 | main | build | scripted | input | 2027-01-15T08:00:00.000Z | 2027-01-15T08:00:01.234Z | completed
        2 | main | build | scripted | goal | 2027-01-15T08:00:01.234Z | - | running
        "));
    })
    .await;
}
