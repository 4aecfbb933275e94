//! Many small jobs on a few threads, each job in a runtime of its own thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};

use store::at_each_commit;
use tokio::runtime::{Builder, Runtime};

/// Jobs at a time. Each mostly waits for the threads of its database, so there are more than processors.
const AT_A_TIME: usize = 4;

/// Does a job.
type Run<T> = Box<dyn FnOnce(&Runtime) -> (T, Vec<Job<T>>) + Send>;

/// Something to do, and what it is called should it panic. It gives its result, and jobs that follow from it.
pub(crate) struct Job<T> {
    pub(crate) name: String,
    pub(crate) run: Run<T>,
}

struct Crowd<T> {
    /// The latest first, so that what follows from one job is done before the next one begins.
    jobs: Vec<Job<T>>,
    at_work: usize,
    done: Vec<Result<T, String>>,
}

/// Does all jobs. A panic is the fault of its job alone, and is told by its name.
pub(crate) fn do_all<T: Send>(jobs: Vec<Job<T>>) -> Vec<Result<T, String>> {
    let crowd = Mutex::new(Crowd { jobs, at_work: 0, done: Vec::new() });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| work(&crowd, &changed));
        }
    });
    crowd.into_inner().unwrap_or_else(PoisonError::into_inner).done
}

fn work<T: Send>(crowd: &Mutex<Crowd<T>>, changed: &Condvar) {
    let mut held = crowd.lock().unwrap();
    loop {
        let Some(job) = held.jobs.pop() else {
            if held.at_work == 0 {
                changed.notify_all();
                return;
            }
            held = changed.wait(held).unwrap();
            continue;
        };
        held.at_work += 1;
        drop(held);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let came = catch_unwind(AssertUnwindSafe(|| (job.run)(&runtime)));
        at_each_commit(None);
        drop(runtime);
        held = crowd.lock().unwrap();
        held.at_work -= 1;
        match came {
            Ok((result, more)) => {
                held.jobs.extend(more);
                held.done.push(Ok(result));
            }
            Err(_) => held.done.push(Err(format!("{}: it panicked", job.name))),
        }
        changed.notify_all();
    }
}
