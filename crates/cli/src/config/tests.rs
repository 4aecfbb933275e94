//! What the two files mean, and what is said when they are wrong.

mod permissions;

use std::fs;

use super::*;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new(user: Option<&str>, project: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        if let Some(text) = user {
            put(folder.path().join(".config/zuno/zuno.toml"), text);
        }
        if let Some(text) = project {
            put(project_path(&folder.path().join("project")), text);
        }
        Self { folder }
    }

    fn env(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| self.folder.path().display().to_string())
    }

    fn config(&self) -> Result<Config, ConfigError> {
        Config::load(&|name| self.env(name))
    }

    fn limits(&self) -> Result<Limits, ConfigError> {
        self.config()?.limits_in(&self.folder.path().join("project"))
    }

    fn shown(&self, error: &ConfigError) -> String {
        error.to_string().replace(&self.folder.path().display().to_string(), "~")
    }

    fn model(&self, asked: Option<&str>, keys: &[&str]) -> String {
        let env =
            |name: &str| self.env(name).or_else(|| keys.contains(&name).then(|| "secret-value".to_owned()));
        let asked = asked.map(|name| name.parse().unwrap());
        let built = self.config().and_then(|config| config.model(asked.as_ref(), &env));
        built.map_or_else(|error| self.shown(&error), |model| model.name().to_string())
    }
}

#[test]
fn without_files_everything_has_its_default() {
    let home = Home::new(None, None);
    let config = home.config().unwrap();
    assert!(!config.is_found());
    assert_eq!(config.on_open(), OnOpen::Ask);
    let limits = home.limits().unwrap();
    let (budgets, max_requests) = (Budgets::default(), TurnLimits::default().max_requests);
    let (tools, permissions) = (ToolAllowList::All, PermissionRules::default());
    assert_eq!(limits, Limits { agent: None, budgets, tools, permissions, max_requests });
}

#[test]
fn a_project_only_narrows() {
    let user = "tools = [\"read_file\", \"grep\", \"shell\"]\ndefault_agent = \"deep\"\n\
                [budgets]\ntokens = 1000\nactive_time = \"1h 30m\"\n[turns]\nmax_requests = 100\n";
    let project = "default_agent = \"build\"\ntools = [\"grep\", \"write_file\"]\n\
                   [budgets]\ntokens = 2000\nturns = 5\nactive_time = \"2h\"\n[turns]\nmax_requests = 20\n";
    let limits = Home::new(Some(user), Some(project)).limits().unwrap();
    assert_eq!((limits.budgets.active_ms.get(), limits.max_requests.get()), (5_400_000, 20));
    assert_eq!(limits.agent.unwrap().as_str(), "build");
    assert_eq!((limits.budgets.tokens.get(), limits.budgets.turns.get()), (1_000, 5));
    assert_eq!(limits.tools, ToolAllowList::Only(["grep".to_owned()].into()));
}

/// A project's file with one of everything that needs trust.
const WIDE: &str = "default_model = \"theirs\"\n\
    [goal]\non_open = \"continue\"\n\
    [models.theirs]\nprotocol = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"https://collect.example/v1\"\n\
    api_key_env = \"THEIR_KEY\"\n\
    [mcp.helper]\ncommand = \"helper\"\nargs = [\"--fast\"]\nenv = [\"LEVEL\"]\n\
    [mcp.far]\nurl = \"https://tools.example/mcp\"\n\
    [[permissions]]\nverdict = \"allow\"\ncommand = \"*\"\n\
    [[permissions]]\nverdict = \"deny\"\ncommand = \"git push*\"\n";

impl Home {
    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn trust(&self) {
        let config = self.config().unwrap();
        let text = config.project(&self.project()).unwrap().text().unwrap().to_owned();
        config.trust().trust(&self.project().canonicalize().unwrap(), &text).unwrap();
    }

    /// What holds in the project, in words.
    fn told(&self) -> String {
        let (config, notice) = self.config().unwrap().in_workspace(&self.project()).unwrap();
        let notice = notice.unwrap_or_default().replace(&self.folder.path().display().to_string(), "~");
        format!(
            "models {:?}, by default {:?}, {:?}, servers {:?}\n{notice}",
            config.model_names(),
            config.default_model.as_ref().map(ModelName::as_str),
            config.on_open(),
            config.mcp_servers().collect::<Vec<_>>(),
        )
    }
}

#[test]
fn c9_what_belongs_to_the_user_counts_in_a_project_only_as_long_as_the_user_trusts_that_very_text() {
    let home = Home::new(None, Some(WIDE));
    let path = project_path(&home.project());
    let untrusted = home.told();
    home.trust();
    let trusted = home.told();
    fs::write(&path, format!("{WIDE} ")).unwrap();
    let changed = home.told();
    fs::write(&path, WIDE).unwrap();
    assert_eq!(home.told(), trusted);
    fs::remove_file(&path).unwrap();
    let gone = home.told();
    insta::assert_snapshot!([untrusted, trusted, changed, gone].join("\n"), @r#"
    models [], by default None, Ask, servers []
    ~/project/.zuno/zuno.toml is not trusted, so this is ignored: default_model, [goal], 1 permission that allows or asks, [models.theirs], [mcp.far], [mcp.helper]; `zuno trust` shows it and asks you
    models ["theirs"], by default Some("theirs"), Continue, servers ["far: https://tools.example/mcp", "helper: helper --fast with LEVEL"]

    models [], by default None, Ask, servers []
    ~/project/.zuno/zuno.toml has changed since you trusted it, so this is ignored: default_model, [goal], 1 permission that allows or asks, [models.theirs], [mcp.far], [mcp.helper]; `zuno trust` shows what changed
    models [], by default None, Ask, servers []
    ~/project/.zuno/zuno.toml, which you trusted, is gone; `zuno trust --remove` forgets it
    "#);
}

#[test]
fn c9_a_trusted_project_still_only_narrows_budgets_bounds_and_tools() {
    let user = "tools = [\"read_file\"]\n[budgets]\ntokens = 10\n[turns]\nmax_requests = 5\n";
    let project =
        "default_model = \"m\"\ntools = [\"shell\"]\n[budgets]\ntokens = 20\n[turns]\nmax_requests = 6\n";
    let home = Home::new(Some(user), Some(project));
    home.trust();
    let limits = home.limits().unwrap();
    assert_eq!((limits.budgets.tokens.get(), limits.max_requests.get()), (10, 5));
    assert_eq!(limits.tools, ToolAllowList::Only([].into()));
}

#[test]
fn c9_a_project_may_name_all_that_the_user_may_so_that_trust_can_give_it() {
    // Both decoders tell the keys they know.
    let known = |error: ConfigError| {
        let said = error.to_string();
        let (_, keys) = said.split_once("expected one of ").unwrap();
        keys.split(", ").map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let of_user = known(Home::new(Some("x = 1"), None).config().unwrap_err());
    let of_project = known(Home::new(None, Some("x = 1")).limits().unwrap_err());
    let missing: Vec<_> = of_user.difference(&of_project).collect();
    assert!(missing.is_empty(), "ProjectFile lacks {missing:?}");
}

#[test]
fn an_mcp_server_is_a_program_or_an_address() {
    let said: Vec<_> = [
        "[mcp.a]",
        "[mcp.a]\ncommand = \"\"",
        "[mcp.a]\ncommand = \"x\"\nurl = \"https://x\"",
        "[mcp.a]\nurl = \"file:///x\"",
        "[mcp.a]\nurl = \"https://x\"\nargs = [\"y\"]",
        "[mcp.a]\ncommand = \"x\"\nargs = \"y\"",
        "[mcp.a]\ncommand = \"x\"\ntrust = true",
        "[mcp.\"a/b\"]\ncommand = \"x\"",
        "[mcp.a]\ncommand = \"x\"\nenv = [\"Sk-very-secret\"]",
        "[mcp.a]\nurl = \"https://me:very-secret@host/mcp\"",
        "[mcp.a]\nurl = \"https://host/mcp\"\ntoken_env = \"very-secret\"",
        "[mcp.a]\ncommand = \"x\"\n[mcp.a.env]\nKEY = \"very-secret\"",
    ]
    .into_iter()
    .map(|user| {
        let home = Home::new(Some(user), None);
        home.shown(&home.config().unwrap_err())
    })
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    ~/.config/zuno/zuno.toml:1: an MCP server has either a `command`, with `args` and `env` if need be, or a `url`, with `token_env` if need be
    ~/.config/zuno/zuno.toml:1: an MCP server has either a `command`, with `args` and `env` if need be, or a `url`, with `token_env` if need be
    ~/.config/zuno/zuno.toml:1: an MCP server has either a `command`, with `args` and `env` if need be, or a `url`, with `token_env` if need be
    ~/.config/zuno/zuno.toml:1: the `url` of an MCP server begins with http:// or https://
    ~/.config/zuno/zuno.toml:1: an MCP server has either a `command`, with `args` and `env` if need be, or a `url`, with `token_env` if need be
    ~/.config/zuno/zuno.toml:3: `mcp.a.args`: invalid type: string "y", expected a list (`[[permissions]]` begins one entry of it)
    ~/.config/zuno/zuno.toml:3: unknown field `trust`, expected one of `command`, `args`, `env`, `url`, `token_env`
    ~/.config/zuno/zuno.toml:1: "a/b" is no name of an MCP server: 1 to 32 lower-case ASCII letters and digits, with single `-` and `_` between them
    ~/.config/zuno/zuno.toml:1: `env` and `token_env` are names of environment variables, never what they hold
    ~/.config/zuno/zuno.toml:1: the `url` of an MCP server holds no user and no password; `token_env` names a variable
    ~/.config/zuno/zuno.toml:1: `env` and `token_env` are names of environment variables, never what they hold
    ~/.config/zuno/zuno.toml:3: invalid type: map, expected a list (`[[permissions]]` begins one entry of it)
    "#);
}

#[test]
fn an_error_names_file_line_and_key_and_shows_no_value_that_may_be_secret() {
    let said: Vec<_> = [
        "default_modle = \"x\"",
        "[budgets]\ntokens = 0",
        "[budgets]\nturns = -1",
        "[budgets]\ntokens = 1.5",
        "[budgets]\ntokens = \"many\"",
        "[budgets]\nactive_time = \"0h\"",
        "[budgets]\nactive_time = \"-2h\"",
        "[budgets]\nactive_time = \"a while\"",
        "[budgets]\nactive_time = 8",
        "[turns]\nmax_requests = 0",
        "[turns]\nmax_requests = 251",
        "[goal]\non_open = \"maybe\"",
        "[models.a]\nmodel = \"m\"",
        "[models.a]\nprotocol = \"openai\"\nmodel = \"m\"",
        "[models.a]\nprotocol = \"ollama\"\nmodel = \"m\"\napi_key = \"sk-very-secret\"",
        "[models.\"two words\"]\nprotocol = \"ollama\"",
        "[models.a]\nprotocol = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"sk-very-secret\"",
        "default_model = ",
    ]
    .into_iter()
    .map(|user| {
        let home = Home::new(Some(user), None);
        home.shown(&home.config().unwrap_err())
    })
    .collect();
    assert!(!said.join("\n").contains("very-secret"));
    insta::assert_snapshot!(said.join("\n"), @r#"
    ~/.config/zuno/zuno.toml:1: unknown field `default_modle`, expected one of `default_model`, `default_agent`, `tools`, `budgets`, `turns`, `goal`, `models`, `sandbox`, `mcp`, `permissions`
    ~/.config/zuno/zuno.toml:2: `budgets.tokens`: invalid value: integer `0`, expected a whole number from 1
    ~/.config/zuno/zuno.toml:2: `budgets.turns`: invalid value: integer `-1`, expected a whole number from 1
    ~/.config/zuno/zuno.toml:2: `budgets.tokens`: invalid type: floating point `1.5`, expected a whole number from 1
    ~/.config/zuno/zuno.toml:2: `budgets.tokens`: invalid type: string "many", expected a whole number from 1
    ~/.config/zuno/zuno.toml:2: `budgets.active_time`: `0h` is not a time such as 8h, 90m or 1h 30m
    ~/.config/zuno/zuno.toml:2: `budgets.active_time`: `-2h` is not a time such as 8h, 90m or 1h 30m
    ~/.config/zuno/zuno.toml:2: `budgets.active_time`: `a while` is not a time such as 8h, 90m or 1h 30m
    ~/.config/zuno/zuno.toml:2: `budgets.active_time`: invalid type: integer `8`, expected a string
    ~/.config/zuno/zuno.toml:2: `turns.max_requests`: 0 is not from 1 to 250, the most that a turn may make
    ~/.config/zuno/zuno.toml:2: `turns.max_requests`: 251 is not from 1 to 250, the most that a turn may make
    ~/.config/zuno/zuno.toml:2: `goal.on_open`: unknown variant `maybe`, expected `ask` or `continue`
    ~/.config/zuno/zuno.toml:1: missing field `protocol`
    ~/.config/zuno/zuno.toml:2: `models.a.protocol`: unknown variant `openai`, expected one of `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `ollama`, `scripted`
    ~/.config/zuno/zuno.toml:4: unknown field `api_key`, expected one of `protocol`, `model`, `base_url`, `api_key_env`, `context_tokens`, `idle_seconds`, `scenario`. Keys do not belong into this file: export one and name its variable in api_key_env
    ~/.config/zuno/zuno.toml:1: `two words` is not a model name (1–64 ASCII letters, digits, `-_.:/`)
    ~/.config/zuno/zuno.toml: `models.a.api_key_env` is the name of an environment variable, never the key itself
    ~/.config/zuno/zuno.toml:1: `default_model`: string values must be quoted, expected literal string
    "#);
}

#[test]
fn the_model_is_asked_for_default_only_or_from_the_environment() {
    let two = "[models.a]\nprotocol = \"ollama\"\nmodel = \"m\"\n[models.b]\nprotocol = \"ollama\"\nmodel = \"n\"\n";
    let one = "[models.a]\nprotocol = \"ollama\"\nmodel = \"m\"\n";
    let with_default = format!("default_model = \"b\"\n{two}");
    let home = |user: &str| Home::new(Some(user), None);
    assert_eq!(home(two).model(Some("a"), &[]), "a");
    assert_eq!(home(&with_default).model(None, &[]), "b");
    assert_eq!(home(one).model(None, &["OPENAI_API_KEY"]), "a");
    assert_eq!(home("").model(None, &["OPENAI_API_KEY"]), "openai");
    assert_eq!(home(one).model(Some("anthropic"), &["ANTHROPIC_API_KEY"]), "anthropic");
    let refused = [
        home(two).model(None, &[]),
        home(two).model(Some("c"), &[]),
        home("default_model = \"c\"").model(None, &[]),
        home("[models.a]\nprotocol = \"anthropic\"\nmodel = \"m\"").model(None, &[]),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r"
    ~/.config/zuno/zuno.toml has several models and no default_model; choose with --model: a, b
    there is no [models.c] in ~/.config/zuno/zuno.toml; it has a, b
    there is no [models.c] in ~/.config/zuno/zuno.toml; it has no models
    [models.a] takes its key from ANTHROPIC_API_KEY, which is not set: export ANTHROPIC_API_KEY=…
    ");
    let none = home("").model(None, &[]);
    assert!(none.contains("~/.config/zuno/zuno.toml") && none.ends_with(models::EXAMPLE_TOML), "{none}");
}

#[test]
fn the_xdg_folder_wins_unless_it_is_relative() {
    let folder = |xdg: &'static str| {
        xdg_folder("XDG_DATA_HOME", ".local/share", &|name: &str| match name {
            "XDG_DATA_HOME" => Some(xdg.to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            _ => None,
        })
    };
    assert_eq!(folder("/data"), Some("/data".into()));
    assert_eq!(folder("data"), Some("/home/me/.local/share".into()));
    assert_eq!(folder(""), Some("/home/me/.local/share".into()));
    assert_eq!(xdg_folder("XDG_DATA_HOME", ".local/share", &|_| None), None);
}
