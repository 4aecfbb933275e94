//! Every crash point there is.

use tests::CrashPoint;
use tokio::task::JoinSet;

/// Commits whose points are tried at the same time.
const AT_A_TIME: u32 = 2;

/// Tries a case before and after each commit, until no case has that many. Gives what came of those that do.
pub(crate) async fn at_each_point<T, F>(case: impl Fn(CrashPoint) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = Option<T>> + Send + 'static,
{
    let mut came_of = Vec::new();
    for first in (1..).step_by(AT_A_TIME as usize) {
        let mut cases = JoinSet::new();
        for commit in first..first + AT_A_TIME {
            cases.spawn(case(CrashPoint::Before(commit)));
            cases.spawn(case(CrashPoint::After(commit)));
        }
        let reached: Vec<_> = cases.join_all().await.into_iter().flatten().collect();
        // All of them: on a slow machine some turns have a commit more than others, the renewal of their lease.
        if reached.is_empty() {
            break;
        }
        came_of.extend(reached);
    }
    println!("killed at {} points", came_of.len());
    came_of
}
