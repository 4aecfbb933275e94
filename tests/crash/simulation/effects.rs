//! Tools whose effects can be counted: the real ones on files, and some of every other kind of effect.
//!
//! A call that changes something carries a token of its own in its arguments, and its run notes the token in the
//! journal. So a token that stands there twice is an effect that happened twice.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use domain::{Capability, CapabilitySet, CommandTitle, Effect};
use runtime::{CallSubject, PreparedCall, Tool, ToolFault, ToolOutput, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::site::Journal;

/// The tool that needs leave.
pub(crate) const SEND: &str = "send";
/// The tool that is forbidden.
pub(crate) const FORBIDDEN: &str = "burn";
/// The file to which commands append.
const LINES: &str = "lines.txt";

/// A place where a call, a request or a background command waits until the history lets it go on.
#[derive(Default)]
pub(crate) struct Park {
    is_taken: AtomicBool,
    release: Notify,
    /// Lets background commands end, the oldest first.
    pub(crate) end_command: Notify,
}

impl Park {
    /// Waits to be let go on. Dropped, the place is free again.
    pub(crate) async fn wait(&self) {
        struct Taken<'a>(&'a AtomicBool);
        impl Drop for Taken<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        self.is_taken.store(true, Ordering::SeqCst);
        let _taken = Taken(&self.is_taken);
        self.release.notified().await;
    }

    /// Whether somebody waits.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::SeqCst)
    }

    /// Lets whoever waits go on.
    pub(crate) fn release(&self) {
        self.release.notify_waiters();
    }
}

/// The token of a call: what it writes, or what it was given.
pub(crate) fn token_of(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let token = ["token", "content", "new_string"].iter().find_map(|key| arguments[key].as_str())?;
    Some(token.trim().to_owned())
}

/// The tools of one process.
pub(crate) fn all(
    workspace: &Arc<tools::Workspace>,
    root: &Path,
    journal: &Journal,
    park: &Arc<Park>,
) -> Vec<Arc<dyn Tool>> {
    let real = tools::all(Arc::clone(workspace), tools::Secrets::default(), None);
    let of_files = ["read_file", "list_dir", "write_file", "edit_file"];
    let real = real.into_iter().filter(|tool| of_files.contains(&tool.spec().name.as_ref()));
    let counted =
        real.map(|inner| Arc::new(Counted { inner, journal: Arc::clone(journal) }) as Arc<dyn Tool>);
    let own = [
        ("append", Kind::Command { confined: false }, Capability::RunCommand),
        ("probe", Kind::Command { confined: true }, Capability::RunCommand),
        ("watch", Kind::Background, Capability::RunCommand),
        ("sleep", Kind::Sleep, Capability::RunCommand),
        (SEND, Kind::Send, Capability::Network),
        (FORBIDDEN, Kind::Send, Capability::Network),
    ];
    let own = own.map(|(name, kind, requires)| {
        let spec = ToolSpec {
            name: name.into(),
            description: "For tests.".into(),
            input_schema: json!({ "type": "object", "additionalProperties": false, "properties": {} }),
            requires: CapabilitySet::of(&[requires]),
        };
        let (journal, park, lines) = (Arc::clone(journal), Arc::clone(park), root.join(LINES));
        Arc::new(Own { spec, kind, journal, park, lines }) as Arc<dyn Tool>
    });
    counted.chain(own).collect()
}

/// A real tool whose runs are counted.
struct Counted {
    inner: Arc<dyn Tool>,
    journal: Journal,
}

#[async_trait]
impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let token = token_of(&arguments.to_string());
        let inner = self.inner.prepare(arguments).await?;
        Ok(Box::new(CountedCall { inner, token, journal: Arc::clone(&self.journal) }))
    }
}

struct CountedCall {
    inner: Box<dyn PreparedCall>,
    token: Option<String>,
    journal: Journal,
}

#[async_trait]
impl PreparedCall for CountedCall {
    fn effect(&self) -> Effect {
        self.inner.effect()
    }

    fn subject(&self) -> CallSubject {
        self.inner.subject()
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        self.journal.lock().unwrap().extend(self.token);
        self.inner.run(stop).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Appends its token to a file.
    Command { confined: bool },
    /// The same beside turns, at once or when the history says so.
    Background,
    /// Runs until it is stopped.
    Sleep,
    /// Sends its token out of the house.
    Send,
}

struct Own {
    spec: ToolSpec,
    kind: Kind,
    journal: Journal,
    park: Arc<Park>,
    lines: PathBuf,
}

#[async_trait]
impl Tool for Own {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let Some(token) = arguments["token"].as_str() else {
            return Err(ToolFault::Arguments("`token` is missing".to_owned()));
        };
        Ok(Box::new(OwnCall {
            kind: self.kind,
            token: token.to_owned(),
            waits: arguments["waits"] == true,
            journal: Arc::clone(&self.journal),
            park: Arc::clone(&self.park),
            lines: self.lines.clone(),
        }))
    }
}

struct OwnCall {
    kind: Kind,
    token: String,
    waits: bool,
    journal: Journal,
    park: Arc<Park>,
    lines: PathBuf,
}

/// How the title of a background command begins that ends by itself at once.
pub(crate) const AT_ONCE: &str = "at once";

#[async_trait]
impl PreparedCall for OwnCall {
    fn effect(&self) -> Effect {
        match self.kind {
            Kind::Command { confined } => Effect::Command { confined },
            Kind::Background | Kind::Sleep => Effect::Command { confined: true },
            Kind::Send => Effect::External,
        }
    }

    fn subject(&self) -> CallSubject {
        CallSubject { paths: Vec::new(), command: Some(self.token.clone()) }
    }

    fn background(&self) -> Option<CommandTitle> {
        let how = if self.waits { "later" } else { AT_ONCE };
        let title = CommandTitle::parse(&format!("{how} {}", self.token)).unwrap();
        (self.kind == Kind::Background).then_some(title)
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        self.journal.lock().unwrap().push(self.token.clone());
        match self.kind {
            Kind::Command { .. } => {
                let mut file = OpenOptions::new().create(true).append(true).open(&self.lines).unwrap();
                writeln!(file, "{}", self.token).unwrap();
            }
            Kind::Background if self.waits => tokio::select! {
                () = stop.cancelled() => return ToolOutput::stopped("stopped"),
                () = self.park.end_command.notified() => {}
            },
            Kind::Sleep => {
                tokio::select! {
                    () = stop.cancelled() => return ToolOutput::stopped("stopped"),
                    () = self.park.wait() => {}
                }
            }
            Kind::Background | Kind::Send => {}
        }
        ToolOutput { exit_status: Some(0), ..ToolOutput::ok(format!("{} happened", self.token)) }
    }
}
