//! `load_skill`: the text of a skill. It reads, and runs nothing.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Capability, CapabilitySet, Effect};
use runtime::{CallSubject, PreparedCall, Sight, Tool, ToolFault, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Ignored, decode, schema_of};
use crate::call::look;
use crate::skills::{SKILL_FILE, Skills, body_of};

/// Bytes of a text that are shown: what the model reads of one result, less the lines around it.
const SHOWN_BYTES: usize = 30 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Name of the skill, as listed.
    name: String,
    /// Another file of the skill's folder that its text speaks of, such as references/api.md; the text itself if left out.
    file: Option<String>,
}

pub(crate) struct LoadSkill {
    skills: Arc<Skills>,
    spec: ToolSpec,
}

impl LoadSkill {
    pub(crate) fn new(skills: Arc<Skills>) -> Self {
        let spec = ToolSpec {
            name: "load_skill".into(),
            description:
                "Read a skill: a text on how to do one kind of work. The system prompt lists the skills that \
                          there are, and what each is for."
                    .into(),
            input_schema: schema_of::<Arguments>(),
            requires: CapabilitySet::of(&[Capability::LoadSkill]),
        };
        Self { skills, spec }
    }
}

#[async_trait]
impl Tool for LoadSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, arguments: Value) -> Result<Box<dyn PreparedCall>, ToolFault> {
        let (Arguments { name, file }, ignored) = decode::<Arguments>(&self.spec, arguments)?;
        let skills = Arc::clone(&self.skills);
        look(move || {
            let file = file.unwrap_or_else(|| SKILL_FILE.to_owned());
            let resolved = skills.get(&name).and_then(|skill| skill.resolve(&file));
            let path = resolved.map_err(ToolFault::Refused)?;
            Ok(Box::new(Load { skills, name, file, path, ignored, sight: Sight::default() })
                as Box<dyn PreparedCall>)
        })
        .await
    }
}

struct Load {
    skills: Arc<Skills>,
    name: String,
    file: String,
    path: PathBuf,
    ignored: Ignored,
    sight: Sight,
}

#[async_trait]
impl PreparedCall for Load {
    fn effect(&self) -> Effect {
        Effect::Read
    }

    /// A skill of the project is a file like others. One of the user's own is where they put it for agents.
    fn subject(&self) -> CallSubject {
        let is_in_workspace = self.skills.get(&self.name).is_ok_and(|skill| skill.is_in_workspace);
        let paths = if is_in_workspace { vec![self.path.to_string_lossy().into_owned()] } else { Vec::new() };
        CallSubject { paths, command: None }
    }

    fn narrow(&mut self, sight: Sight) {
        self.sight = sight;
    }

    async fn run(self: Box<Self>, stop: CancellationToken) -> ToolOutput {
        if stop.is_cancelled() {
            return ToolOutput::stopped("stopped before it was read");
        }
        let loaded = tokio::task::spawn_blocking(move || {
            let mut loaded = self.load()?;
            self.ignored.mention_in(&mut loaded);
            Ok::<_, String>(loaded)
        });
        match loaded.await {
            Ok(Ok(text)) => ToolOutput::ok(text),
            Ok(Err(text)) => ToolOutput::failed(text),
            Err(error) => ToolOutput::failed(format!("the tool failed: {error}")),
        }
    }
}

impl Load {
    fn load(&self) -> Result<String, String> {
        let skill = self.skills.get(&self.name)?;
        if skill.is_in_workspace && !self.sight.shows_content(&self.path.to_string_lossy()) {
            return Err("the permission rules keep it from agents".to_owned());
        }
        let fault = |error: std::io::Error| format!("{}/{}: {error}", skill.place, self.file);
        let (bytes, whole) = skill.read(&self.path, SHOWN_BYTES as u64).map_err(fault)?;
        let shown = bytes.len() as u64;
        if bytes.contains(&0) {
            return Err(format!("{}/{} is a binary file", skill.place, self.file));
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = if self.file == SKILL_FILE { body_of(&text) } else { &text };
        let mut out =
            format!("[skill `{}`, {} of {}]\n{}", self.name, self.file, skill.place, text.trim_end());
        if shown < whole {
            let _ = write!(out, "\n[cut: these are the first {shown} of {whole} bytes of the file]");
        }
        Ok(out)
    }
}
