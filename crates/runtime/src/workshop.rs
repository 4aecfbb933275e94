//! What a workspace gives to turns that run in it.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Budgets, Confinement, Mode, REQUESTS_PER_TURN};

use crate::ports::Inspection;
use crate::toolbox::Toolbox;

/// Opens workspaces for turns.
#[async_trait]
pub trait Workshop: Send + Sync {
    /// What turns in this workspace work with.
    ///
    /// The mode is the session's at this moment, and tells what need not be started. It grants nothing: the mode that
    /// binds a call is read at its admission (M6), and a turn that is admitted in Work mode by then has only the less.
    async fn open(&self, workspace: &str, mode: Mode) -> std::io::Result<Workplace>;

    /// A look at the files of this workspace and nothing else: recovery and waits need no tools, and must not depend on
    /// what tools take to start.
    async fn inspect(&self, workspace: &str) -> std::io::Result<Arc<dyn Inspection>>;
}

/// A workspace that is open for a turn.
#[derive(Clone)]
pub struct Workplace {
    /// The tools, and what is allowed of them.
    pub toolbox: Toolbox,
    /// A look at the files.
    pub inspection: Arc<dyn Inspection>,
    /// What turns here may take.
    pub limits: TurnLimits,
}

/// What turns of one workspace may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    /// Model requests that one turn may make, at most [`REQUESTS_PER_TURN`] (T12).
    pub max_requests: NonZeroU32,
    /// What a Goal may spend that an agent proposes, until the user says otherwise (G4).
    pub proposed_budgets: Budgets,
    /// How commands are confined (C6); a turn's first event tells. `None` leaves that open.
    pub confinement: Option<Confinement>,
}

impl From<NonZeroU32> for TurnLimits {
    /// So many model requests.
    fn from(max_requests: NonZeroU32) -> Self {
        Self { max_requests, ..Self::default() }
    }
}

impl Default for TurnLimits {
    /// Turns make as many requests as they may, and proposed Goals have the usual budgets.
    fn default() -> Self {
        const MOST: NonZeroU32 = NonZeroU32::new(REQUESTS_PER_TURN).expect("not zero");
        Self { max_requests: MOST, proposed_budgets: Budgets::default(), confinement: None }
    }
}
