//! `[mcp.NAME]`: programs and addresses that offer tools.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// Characters of a server's name. It stands in `server/tool`, which people write in permission rules.
const NAME_CHARS: usize = 64;

/// The name of a server: ASCII letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct McpName(String);

impl TryFrom<String> for McpName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(fits) {
            return Err(format!(
                "`{name}` is no name of an MCP server (1–{NAME_CHARS} ASCII letters, digits, `-` and `_`)"
            ));
        }
        Ok(Self(name))
    }
}

impl fmt::Display for McpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub(crate) enum McpServer {
    /// A program that is started, and spoken to by its standard streams.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its environment.
        env: BTreeMap<String, String>,
    },
    /// A server that is there already.
    Http {
        /// Its address.
        url: String,
    },
}

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    url: Option<String>,
}

impl TryFrom<Table> for McpServer {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Self, Self::Error> {
        match table {
            Table { command: Some(command), args, env, url: None } if !command.is_empty() => {
                Ok(Self::Program { command, args: args.unwrap_or_default(), env: env.unwrap_or_default() })
            }
            Table { command: None, args: None, env: None, url: Some(url) }
                if url.starts_with("http://") || url.starts_with("https://") =>
            {
                Ok(Self::Http { url })
            }
            _ => Err(
                "an MCP server has either a `command`, with `args` and `env` if need be, or a `url` that \
                      begins with http:// or https://",
            ),
        }
    }
}

impl fmt::Display for McpServer {
    /// What it is for people. Values of variables may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, args, env } => {
                f.write_str(command)?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))?;
                if !env.is_empty() {
                    write!(f, " with {}", env.keys().map(String::as_str).collect::<Vec<_>>().join(", "))?;
                }
                Ok(())
            }
            Self::Http { url } => f.write_str(url),
        }
    }
}
