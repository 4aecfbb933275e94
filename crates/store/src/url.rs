//! Where a store is: `sqlite:///absolute/path`, or a plain path.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StoreUrl {
    /// An SQLite file.
    Sqlite(PathBuf),
}

/// A text that is no address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{url}` is no store: {why}; use a path, or `sqlite:///absolute/path`")]
pub struct InvalidStoreUrl {
    /// What was given.
    pub url: String,
    /// What is wrong with it.
    pub why: String,
}

impl StoreUrl {
    /// The file, for an engine that keeps its store in one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
        }
    }
}

impl From<PathBuf> for StoreUrl {
    fn from(path: PathBuf) -> Self {
        Self::Sqlite(path)
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        let invalid = |why: &str| InvalidStoreUrl { url: text.to_owned(), why: why.to_owned() };
        if text.trim().is_empty() {
            return Err(invalid("it is empty"));
        }
        if text.starts_with(":memory:") {
            return Err(invalid("a store is a file that outlives the process"));
        }
        match text.split_once("://") {
            None if ["sqlite:", "file:"].iter().any(|scheme| text.starts_with(scheme)) => {
                Err(invalid("three slashes and an absolute path follow `sqlite:`"))
            }
            None => Ok(Self::Sqlite(PathBuf::from(text))),
            Some(("sqlite", path)) if path.starts_with('/') && path.len() > 1 => {
                Ok(Self::Sqlite(PathBuf::from(path)))
            }
            Some(("sqlite", _)) => Err(invalid("three slashes and an absolute path follow `sqlite:`")),
            Some((scheme, _)) => Err(invalid(&format!("this build has no engine for `{scheme}:`"))),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) if path.is_absolute() => write!(f, "sqlite://{}", path.display()),
            Self::Sqlite(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_an_sqlite_url_is_a_store() {
        let path = |text: &str| text.parse::<StoreUrl>().map(|url| url.to_string());
        assert_eq!(path("sqlite:///a/b c.db"), Ok("sqlite:///a/b c.db".to_owned()));
        assert_eq!(path("/a/b.db"), Ok("sqlite:///a/b.db".to_owned()));
        assert_eq!(path("b.db"), Ok("b.db".to_owned()));
    }

    #[test]
    fn anything_else_says_what_to_write() {
        let messages: Vec<_> = ["", ":memory:", "sqlite://b.db", "sqlite:b.db", "postgres://host/db"]
            .iter()
            .map(|text| text.parse::<StoreUrl>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r"
        `` is no store: it is empty; use a path, or `sqlite:///absolute/path`
        `:memory:` is no store: a store is a file that outlives the process; use a path, or `sqlite:///absolute/path`
        `sqlite://b.db` is no store: three slashes and an absolute path follow `sqlite:`; use a path, or `sqlite:///absolute/path`
        `sqlite:b.db` is no store: three slashes and an absolute path follow `sqlite:`; use a path, or `sqlite:///absolute/path`
        `postgres://host/db` is no store: this build has no engine for `postgres:`; use a path, or `sqlite:///absolute/path`
        ");
    }
}
