//! The `[models.NAME]` table, and the model that follows from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::ModelName;
use runtime::Model;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::error::SettingsError;
use crate::remote::{Protocol, RemoteModel, RemoteSettings};
use crate::scripted::{self, ScriptedModel};

/// The context window of a model whose table does not say: small enough for any model worth using here. Too small only
/// shortens the history early, too large is found out by failing.
const CONTEXT_TOKENS: u64 = 128_000;

/// The longest silence: no answer takes longer than an hour as a whole.
const IDLE: Duration = Duration::from_hours(1);

/// What to paste into `zuno.toml` when there is neither a table nor a well-known key.
pub const EXAMPLE_TOML: &str = r#"default_model = "main"

[models.main]
protocol = "openai-chat"            # or openai-responses, anthropic, gemini, ollama, scripted
model = "gpt-5.4"
api_key_env = "OPENAI_API_KEY"      # the name of the variable, never the key itself
context_tokens = 200000

# Any server that speaks the protocol, for example one on this machine:
[models.local]
protocol = "openai-chat"
model = "qwen3-coder"
base_url = "http://localhost:8080/v1"
context_tokens = 65536
"#;

/// The protocol of a `[models.NAME]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelProtocol {
    /// See [`Protocol::OpenaiChat`].
    OpenaiChat,
    /// See [`Protocol::OpenaiResponses`].
    OpenaiResponses,
    /// See [`Protocol::Anthropic`].
    Anthropic,
    /// See [`Protocol::Gemini`].
    Gemini,
    /// See [`Protocol::Ollama`].
    Ollama,
    /// A scenario file, see [`ScriptedModel`].
    Scripted,
}

impl ModelProtocol {
    /// The wire protocol; `None` for a scenario.
    const fn remote(self) -> Option<Protocol> {
        match self {
            Self::OpenaiChat => Some(Protocol::OpenaiChat),
            Self::OpenaiResponses => Some(Protocol::OpenaiResponses),
            Self::Anthropic => Some(Protocol::Anthropic),
            Self::Gemini => Some(Protocol::Gemini),
            Self::Ollama => Some(Protocol::Ollama),
            Self::Scripted => None,
        }
    }
}

/// A `[models.NAME]` table as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// How the model is reached.
    pub protocol: ModelProtocol,
    /// The provider's name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where the server listens, if not at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key. Without it the provider's usual variable is read, and a server
    /// with its own `base_url` gets no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The size of the context window in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// How long the server may send nothing, in seconds, before the request counts as failed: 1 to 3,600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// The scenario file of a scripted model; relative to the file that holds the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<PathBuf>,
}

/// Builds the model of `[models.NAME]`. `env` reads an environment variable, `base_dir` is where a relative
/// `scenario` starts.
pub fn build(
    name: &ModelName,
    settings: &ModelSettings,
    env: &dyn Fn(&str) -> Option<String>,
    base_dir: &Path,
) -> Result<Arc<dyn Model>, SettingsError> {
    match settings.protocol.remote() {
        Some(protocol) => build_remote(name, protocol, settings, env),
        None => build_scripted(name, settings, base_dir),
    }
}

fn build_remote(
    name: &ModelName,
    protocol: Protocol,
    settings: &ModelSettings,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Model>, SettingsError> {
    let shown = protocol.name();
    if settings.scenario.is_some() {
        return Err(SettingsError::Unused { name: name.clone(), field: "scenario", protocol: shown });
    }
    let Some(model) = settings.model.clone() else {
        return Err(SettingsError::Missing { name: name.clone(), field: "model", protocol: shown });
    };
    let usual = if settings.base_url.is_none() { usual_key_variable(protocol) } else { None };
    let api_key = match settings.api_key_env.as_deref().or(usual) {
        None => None,
        Some(variable) => match set(env, variable) {
            Some(key) => Some(SecretString::from(key)),
            None => {
                return Err(SettingsError::NoKey { name: name.clone(), variable: variable.to_owned() });
            }
        },
    };
    let idle = settings.idle_seconds.map(Duration::from_secs);
    if idle.is_some_and(|idle| idle.is_zero() || idle > IDLE) {
        return Err(SettingsError::Idle { name: name.clone(), most: IDLE.as_secs() });
    }
    let model = RemoteModel::new(RemoteSettings {
        name: name.clone(),
        protocol,
        model,
        base_url: settings.base_url.clone(),
        api_key,
        context_tokens: settings.context_tokens.unwrap_or(CONTEXT_TOKENS),
    })?;
    Ok(Arc::new(match idle {
        Some(idle) => model.with_idle(idle),
        None => model,
    }))
}

fn build_scripted(
    name: &ModelName,
    settings: &ModelSettings,
    base_dir: &Path,
) -> Result<Arc<dyn Model>, SettingsError> {
    let protocol = "scripted";
    let for_servers = [
        ("model", settings.model.is_some()),
        ("base_url", settings.base_url.is_some()),
        ("api_key_env", settings.api_key_env.is_some()),
        ("idle_seconds", settings.idle_seconds.is_some()),
    ];
    if let Some((field, _)) = for_servers.into_iter().find(|(_, given)| *given) {
        return Err(SettingsError::Unused { name: name.clone(), field, protocol });
    }
    let Some(scenario) = &settings.scenario else {
        return Err(SettingsError::Missing { name: name.clone(), field: "scenario", protocol });
    };
    let context_tokens = settings.context_tokens.unwrap_or(scripted::CONTEXT_TOKENS);
    if context_tokens == 0 {
        return Err(SettingsError::NoContext { name: name.clone() });
    }
    let model = ScriptedModel::from_file(name.clone(), &base_dir.join(scenario))?;
    Ok(Arc::new(model.with_context_tokens(context_tokens)))
}

/// Where each provider's own documentation puts the key.
const fn usual_key_variable(protocol: Protocol) -> Option<&'static str> {
    match protocol {
        Protocol::OpenaiChat | Protocol::OpenaiResponses => Some("OPENAI_API_KEY"),
        Protocol::Anthropic => Some("ANTHROPIC_API_KEY"),
        Protocol::Gemini => Some("GEMINI_API_KEY"),
        Protocol::Ollama => None,
    }
}

/// A variable that is set to something; blank counts as unset, as shells make it easy to export nothing.
fn set(env: &dyn Fn(&str) -> Option<String>, variable: &str) -> Option<String> {
    env(variable).filter(|value| !value.trim().is_empty())
}

/// A model for people without any configuration: of the first of `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` and
/// `GEMINI_API_KEY` that is set, named `openai`, `anthropic` or `gemini`.
pub fn from_environment(env: &dyn Fn(&str) -> Option<String>) -> Option<(ModelName, ModelSettings)> {
    // Of each provider the current all-round model that works without extra settings.
    let known = [
        ("OPENAI_API_KEY", "openai", ModelProtocol::OpenaiChat, "gpt-5.4", 200_000),
        ("ANTHROPIC_API_KEY", "anthropic", ModelProtocol::Anthropic, "claude-sonnet-4-6", 200_000),
        ("GEMINI_API_KEY", "gemini", ModelProtocol::Gemini, "gemini-2.5-pro", 1_000_000),
    ];
    let (variable, name, protocol, model, context_tokens) =
        known.into_iter().find(|(variable, ..)| set(env, variable).is_some())?;
    let settings = ModelSettings {
        protocol,
        model: Some(model.to_owned()),
        base_url: None,
        api_key_env: Some(variable.to_owned()),
        context_tokens: Some(context_tokens),
        idle_seconds: None,
        scenario: None,
    };
    Some((name.parse().ok()?, settings))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settings(toml: &str) -> ModelSettings {
        toml::from_str(toml).unwrap()
    }

    fn building(toml: &str, env: &[(&str, &str)]) -> Result<Arc<dyn Model>, String> {
        let name: ModelName = "main".parse().unwrap();
        let env = |wanted: &str| {
            env.iter().find(|(variable, _)| *variable == wanted).map(|(_, value)| (*value).to_owned())
        };
        build(&name, &settings(toml), &env, Path::new("/nowhere")).map_err(|error| error.to_string())
    }

    fn check_refused(toml: &str, env: &[(&str, &str)], expected: &str) {
        assert_eq!(building(toml, env).err().as_deref(), Some(expected), "{toml}");
    }

    #[test]
    fn a_table_that_makes_no_model_is_refused_with_what_to_do() {
        check_refused(
            r#"protocol = "openai-chat""#,
            &[("OPENAI_API_KEY", "k")],
            "[models.main] needs `model` with protocol `openai-chat`",
        );
        check_refused(
            "protocol = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"MY_KEY\"",
            &[],
            "[models.main] takes its key from MY_KEY, which is not set: export MY_KEY=…",
        );
        check_refused(
            "protocol = \"openai-chat\"\nmodel = \"m\"",
            &[("OPENAI_API_KEY", "  ")],
            "[models.main] takes its key from OPENAI_API_KEY, which is not set: export OPENAI_API_KEY=…",
        );
        check_refused(
            "protocol = \"openai-chat\"\nmodel = \"m\"",
            &[("OPENAI_API_KEY", "two\nlines")],
            "the key of [models.main] has characters that no key has: look for a broken line or a stray quote",
        );
        check_refused(
            "protocol = \"gemini\"\nmodel = \"m\"\nscenario = \"s.toml\"",
            &[],
            "[models.main] has `scenario`, which means nothing with protocol `gemini`: remove it",
        );
        check_refused(
            r#"protocol = "scripted""#,
            &[],
            "[models.main] needs `scenario` with protocol `scripted`",
        );
        check_refused(
            "protocol = \"scripted\"\nscenario = \"s.toml\"\nbase_url = \"http://h\"",
            &[],
            "[models.main] has `base_url`, which means nothing with protocol `scripted`: remove it",
        );
        check_refused(
            "protocol = \"scripted\"\nscenario = \"s.toml\"",
            &[],
            "scenario /nowhere/s.toml: cannot be read: No such file or directory (os error 2)",
        );
        for seconds in [0, 3_601] {
            check_refused(
                &format!("protocol = \"ollama\"\nmodel = \"m\"\nidle_seconds = {seconds}"),
                &[],
                "idle_seconds of [models.main] must be from 1 to 3600",
            );
        }
        check_refused(
            "protocol = \"ollama\"\nmodel = \"m\"\ncontext_tokens = 0",
            &[],
            "context_tokens of [models.main] must be at least 1",
        );
        check_refused(
            "protocol = \"ollama\"\nmodel = \"m\"\nbase_url = \"localhost:11434\"",
            &[],
            "base_url of [models.main]: must start with http:// or https://",
        );
        check_refused(
            "protocol = \"ollama\"\nmodel = \"m\"\nbase_url = \"https://me:secret@host/v1\"",
            &[],
            "base_url of [models.main]: must not carry a user or password: use api_key_env",
        );
    }

    #[test]
    fn a_server_of_ones_own_needs_no_key() {
        let model =
            building("protocol = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"http://h/v1\"", &[]).unwrap();
        assert_eq!(model.context_tokens(), CONTEXT_TOKENS);
        building("protocol = \"ollama\"\nmodel = \"m\"", &[]).unwrap();
    }

    #[test]
    fn a_relative_scenario_starts_at_the_file_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s.toml"), "[[response]]\ntext = \"hi\"").unwrap();
        let table = settings("protocol = \"scripted\"\nscenario = \"s.toml\"\ncontext_tokens = 5000");
        let name: ModelName = "demo".parse().unwrap();
        let model = build(&name, &table, &|_| None, folder.path()).unwrap();
        assert_eq!((model.name(), model.context_tokens()), (&name, 5_000));
    }

    #[test]
    fn a_table_is_read_strictly() {
        let fault = |text: &str| toml::from_str::<ModelSettings>(text).unwrap_err().message().to_owned();
        assert!(fault("protocol = \"scripted\"\napi_key = \"k\"").starts_with("unknown field `api_key`"));
        assert!(fault("protocol = \"openai\"").starts_with("unknown variant `openai`"));
    }

    #[test]
    fn the_first_well_known_key_chooses_the_model() {
        let found = |set: &[&str]| {
            let env = |variable: &str| set.contains(&variable).then(|| "key".to_owned());
            from_environment(&env).map(|(name, settings)| {
                build(&name, &settings, &env, Path::new(".")).unwrap();
                name.to_string()
            })
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["GEMINI_API_KEY"]).as_deref(), Some("gemini"));
        assert_eq!(found(&["GEMINI_API_KEY", "ANTHROPIC_API_KEY"]).as_deref(), Some("anthropic"));
        assert_eq!(found(&["GEMINI_API_KEY", "OPENAI_API_KEY"]).as_deref(), Some("openai"));
        assert_eq!(from_environment(&|_| Some(String::new())), None);
    }

    #[test]
    fn the_example_to_paste_builds() {
        #[derive(Deserialize)]
        struct Example {
            default_model: ModelName,
            models: BTreeMap<ModelName, ModelSettings>,
        }
        let example: Example = toml::from_str(EXAMPLE_TOML).unwrap();
        assert!(example.models.contains_key(&example.default_model));
        for (name, table) in &example.models {
            build(name, table, &|_| Some("key".to_owned()), Path::new(".")).unwrap();
        }
    }
}
