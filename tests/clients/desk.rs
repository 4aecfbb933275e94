//! A person's desk: a git repository with a small project, a configured model and a shell to type `zuno` into.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use domain::{Event, EventBody, SessionId};
use serde_json::Value;
use store::SystemClock;
use tests::{Finished, OpenAiServer, Reply, World, Zuno, wait_until};
use tokio::process::{Child, Command};

/// What the configuration names as the variable of the key.
const KEY_VARIABLE: &str = "LOCAL_MODEL_KEY";
/// The key. Nothing but the request's header may ever hold it.
pub(crate) const KEY: &str = "sk-local-0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// Says hello, and not as its test wants it.
const PROGRAM: &str = "#!/bin/sh\n# Greets whoever is named.\necho \"Hallo $1\"\n";
/// Says what it expected, so that whoever reads it can act on it.
const TEST: &str = "#!/bin/sh\nsaid=$(sh greet.sh Ada)\necho \"said: $said\"\necho \"expected: Hello, Ada!\"\n\
                    [ \"$said\" = \"Hello, Ada!\" ]\n";

/// The desk. Dropping it removes everything and stops the server.
pub(crate) struct Desk {
    pub(crate) world: World<SystemClock>,
    pub(crate) server: OpenAiServer,
    zuno: Zuno,
}

impl Desk {
    /// A project under git, and a model behind HTTP that answers so.
    pub(crate) async fn with_model(reply: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let world = World::in_real_time().await;
        world.write("greet.sh", PROGRAM);
        world.write("test.sh", TEST);
        world.git();
        let server = OpenAiServer::start(reply).await;
        let zuno = Zuno::of(&world);
        let desk = Self { world, server, zuno };
        let config = desk.home().join("config").join("zuno");
        fs::create_dir_all(&config).unwrap();
        let text = format!(
            "default_model = \"local\"\n\n[models.local]\nprotocol = \"openai-chat\"\nmodel = \"small-1\"\n\
             base_url = \"{}\"\napi_key_env = \"{KEY_VARIABLE}\"\n",
            desk.server.base_url
        );
        fs::write(config.join("zuno.toml"), text).unwrap();
        desk
    }

    /// The folder that holds everything: workspace, store and configuration.
    pub(crate) fn home(&self) -> PathBuf {
        self.world.store_path().parent().unwrap().to_owned()
    }

    /// `zuno` with these arguments, with the key in its environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::from(self.zuno.command(arguments));
        command.env(KEY_VARIABLE, KEY).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs it to its end.
    pub(crate) async fn zuno(&self, arguments: &[&str]) -> Finished {
        finished(self.command(arguments)).await
    }

    /// Starts it; its two streams go to pipes.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it, expects success and reads its answer as JSON.
    pub(crate) async fn answer(&self, arguments: &[&str]) -> Value {
        let done = self.zuno(arguments).await;
        assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.out, done.err);
        serde_json::from_str(&done.out).unwrap()
    }

    /// Opens a session the way a script would.
    pub(crate) async fn session(&self) -> SessionId {
        let answer = self.answer(&["session", "new", "--json"]).await;
        answer["session"].as_str().unwrap().parse().unwrap()
    }

    /// The session of this workspace that changed last, such as the one that `zuno run` opened.
    pub(crate) async fn latest(&self) -> SessionId {
        let answer = self.answer(&["session", "list", "--json"]).await;
        answer["sessions"][0]["session"].as_str().unwrap().parse().unwrap()
    }

    /// The log of a session.
    pub(crate) async fn log(&self, session: SessionId) -> Vec<Event> {
        self.world.log(session).await
    }

    /// Waits until the server has been asked this often.
    pub(crate) async fn asked(&self, requests: usize) {
        wait_until("the model is asked", || self.server.bodies().len() >= requests).await;
    }

    /// The request bodies so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.server.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

/// Runs a command to its end.
pub(crate) async fn finished(mut command: Command) -> Finished {
    let output = command.output().await.unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits for the end of a started command.
pub(crate) async fn end_of(child: Child) -> Finished {
    let output = child.wait_with_output().await.unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal to a started command.
pub(crate) async fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id().unwrap());
    let status = Command::new("sh").arg("-c").arg(&kill).status().await.unwrap();
    assert!(status.success(), "{kill}");
}

/// Every file beneath a folder.
pub(crate) fn files_beneath(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_beneath(&path)) } else { files.push(path) }
    }
    files
}

/// Every file beneath a folder with its bytes.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_beneath(folder).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Checks that no file lies beneath a folder.
pub(crate) fn assert_no_file(folder: &Path) {
    let found = files_beneath(folder);
    assert!(found.is_empty(), "{found:?}");
}

/// How each turn of a log ended, in order.
pub(crate) fn endings(log: &[Event]) -> Vec<String> {
    let ending = |event: &Event| match &event.body {
        EventBody::TurnEnded { turn, outcome } => Some(format!("{turn} {}", outcome.name())),
        EventBody::TurnLost { turn } => Some(format!("{turn} lost")),
        _ => None,
    };
    log.iter().filter_map(ending).collect()
}

/// The kinds of a log's events, in order.
pub(crate) fn kinds(log: &[Event]) -> Vec<&'static str> {
    log.iter().map(|event| event.body.kind()).collect()
}
