//! `[mcp.NAME]`: programs and addresses that offer tools.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

use external::{Reach, Token};
use serde::Deserialize;
use tools::Secrets;

use super::Environment;
use super::file::is_variable;

/// How a server is reached. Secrets stand in the environment; here are the names of their variables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub(crate) enum McpServer {
    /// A program that is started, and spoken to by its standard streams.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that it gets besides those that every command gets.
        env: BTreeSet<String>,
    },
    /// A server that is there already.
    Http {
        /// Its address.
        url: String,
        /// The variable that holds what it knows the user by.
        token_env: Option<String>,
    },
}

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeSet<String>>,
    url: Option<String>,
    token_env: Option<String>,
}

impl TryFrom<Table> for McpServer {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Self, Self::Error> {
        let mut variables = table.env.iter().flatten().chain(&table.token_env);
        if !variables.all(|variable| is_variable(variable)) {
            return Err("`env` and `token_env` are names of environment variables, never what they hold");
        }
        match table {
            Table { command: Some(command), args, env, url: None, token_env: None }
                if !command.is_empty() =>
            {
                Ok(Self::Program { command, args: args.unwrap_or_default(), env: env.unwrap_or_default() })
            }
            Table { command: None, args: None, env: None, url: Some(url), token_env } => {
                let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
                match rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
                    None | Some("") => Err("the `url` of an MCP server begins with http:// or https://"),
                    Some(host) if host.contains('@') => Err(
                        "the `url` of an MCP server holds no user and no password; `token_env` names a variable",
                    ),
                    Some(_) => Ok(Self::Http { url, token_env }),
                }
            }
            _ => Err(
                "an MCP server has either a `command`, with `args` and `env` if need be, or a `url`, with \
                      `token_env` if need be",
            ),
        }
    }
}

impl McpServer {
    /// The variables that are meant for it.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        let (env, token_env) = match self {
            Self::Program { env, .. } => (Some(env), None),
            Self::Http { token_env, .. } => (None, token_env.as_deref()),
        };
        env.into_iter().flatten().map(String::as_str).chain(token_env)
    }

    /// How it is reached from an environment; else what is missing there.
    pub(crate) fn reach(
        &self,
        secrets: &Secrets,
        env: Environment<'_>,
        all: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Reach, String> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(missing) = self.variables().find(|name| set(name).is_none()) {
            return Err(format!("the variable {missing} is not set"));
        }
        Ok(match self {
            Self::Program { command, args, env } => Reach::Program {
                command: command.clone(),
                arguments: args.clone(),
                environment: secrets.environment_of_server(all, env),
            },
            Self::Http { url, token_env } => {
                Reach::Http { url: url.clone(), token: token_env.as_deref().and_then(set).map(Token) }
            }
        })
    }
}

impl fmt::Display for McpServer {
    /// What it is for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, args, .. } => {
                f.write_str(command)?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
            }
            Self::Http { url, .. } => f.write_str(url)?,
        }
        let variables: Vec<_> = self.variables().collect();
        if variables.is_empty() { Ok(()) } else { write!(f, " with {}", variables.join(", ")) }
    }
}
