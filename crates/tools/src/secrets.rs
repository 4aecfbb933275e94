//! Which variables of the environment a command does not get.
//!
//! What a command prints goes to the model and into the log, and `env` prints everything. So these are withheld:
//!
//! - the variables that the configuration names as keys of models ([`Secrets`]), and every variable that holds the
//!   same text, alone or within more;
//! - variables whose names say that they hold a secret: [`SECRET_NAMES`] and whatever ends as in [`SECRET_ENDS`],
//!   in upper or lower case;
//! - variables that hold an address with a password, as in `postgres://user:password@host`;
//! - our own variables, which say where the store is and how to speak for the user.
//!
//! [`KEPT`] stays unless the configuration names it. This keeps secrets from being shown by accident. It does not hide
//! them from a command that looks for them where the user could: in files, or at the user's other processes.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// Whole names of variables that hold secrets, beside what [`SECRET_ENDS`] covers.
const SECRET_NAMES: [&str; 12] = [
    "API_KEY",
    "APIKEY",
    "AUTHORIZATION",
    "CREDENTIALS",
    "MYSQL_PWD",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PGPASSWORD",
    "SECRET",
    "SSHPASS",
    "TOKEN",
];

/// Ends of names of variables that hold secrets.
const SECRET_ENDS: [&str; 13] = [
    "_ACCESS_KEY_ID",
    "_APIKEY",
    "_AUTH",
    "_CREDENTIALS",
    "_DSN",
    "_KEY",
    "_PASS",
    "_PASSPHRASE",
    "_PASSWD",
    "_PASSWORD",
    "_PWD",
    "_SECRET",
    "_TOKEN",
];

/// Variables without which commands do not work. A placeholder for a key may happen to have the value of one.
const KEPT: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];

/// Start of the names of our own variables.
const OWN_START: &str = "ZUNO_";

/// Bytes from which on a key is looked for within longer values. Keys of providers have 20 and more; a placeholder
/// for a server that wants none, such as `1` or `none`, is part of many harmless values.
const TELLING_BYTES: usize = 8;

/// The variables that hold the keys of models, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    names: BTreeSet<OsString>,
}

impl Secrets {
    /// The variables of these names, whatever they are called.
    pub fn named<N: Into<OsString>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }

    /// These and the variables of these names, which the user means for a server and so for no command. What commands
    /// do not work without stays.
    #[must_use]
    pub fn and_of_servers<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        let names = names.into_iter().filter(|name| !KEPT.contains(name));
        self.names.extend(names.map(Into::into));
        self
    }

    /// What a server's program inherits: what a command does, and the variables that the user means for it.
    pub fn environment_of_server(
        &self,
        ours: impl Iterator<Item = (OsString, OsString)>,
        chosen: &BTreeSet<String>,
    ) -> Vec<(OsString, OsString)> {
        let ours: Vec<_> = ours.collect();
        let is_chosen =
            |(name, _): &(OsString, OsString)| name.to_str().is_some_and(|name| chosen.contains(name));
        let mut environment = self.environment(ours.iter().cloned());
        environment.retain(|variable| !is_chosen(variable));
        environment.extend(ours.into_iter().filter(is_chosen));
        environment
    }

    /// What a command inherits: everything but secrets, and a sign that it does not act for the user.
    pub(crate) fn environment(
        &self,
        ours: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let ours: Vec<_> = ours.collect();
        let is_key = |name: &OsStr, value: &OsStr| self.names.contains(name) && !value.is_empty();
        let keys: Vec<OsString> =
            ours.iter().filter(|(name, value)| is_key(name, value)).map(|(_, value)| value.clone()).collect();
        let is_withheld = |name: &OsStr, value: &OsStr| {
            self.names.contains(name)
                || has_secret_name(name)
                || !KEPT.iter().any(|kept| name == *kept)
                    && (has_password(value) || keys.iter().any(|key| holds(value, key)))
        };
        let mut kept: Vec<_> = ours.into_iter().filter(|(name, value)| !is_withheld(name, value)).collect();
        kept.push(("ZUNO_ACTOR".into(), "agent".into()));
        kept
    }
}

fn has_secret_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    name.starts_with(OWN_START)
        || SECRET_NAMES.contains(&name.as_str())
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

fn holds(value: &OsStr, key: &OsStr) -> bool {
    let (value, key) = (value.as_encoded_bytes(), key.as_encoded_bytes());
    value == key || key.len() >= TELLING_BYTES && value.windows(key.len()).any(|part| part == key)
}

/// Whether an address with a password stands anywhere in a value.
fn has_password(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace()).next();
        let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(secrets: &Secrets, ours: &[(&str, &str)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names = secrets.environment(ours).into_iter().map(|(name, value)| (name.into_string(), value));
        names.map(|(name, value)| format!("{}={}", name.unwrap(), value.display())).collect()
    }

    fn kept_of_names(names: &[&str]) -> Vec<String> {
        let ours: Vec<_> = names.iter().map(|name| (*name, "value")).collect();
        kept(&Secrets::default(), &ours)
    }

    #[test]
    fn names_that_mean_secrets_are_withheld() {
        let names = [
            "OPENAI_API_KEY",
            "OPENAI_KEY",
            "github_token",
            "MY_SECRET",
            "DB_PASSWORD",
            "DB_PASS",
            "DB_PWD",
            "SENTRY_DSN",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SESSION_TOKEN",
            "API_KEY",
            "Token",
            "SECRET",
            "PASSWORD",
            "PASSWD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "ZUNO_STORE",
            "ZUNO_ACTOR",
        ];
        assert_eq!(kept_of_names(&names), ["ZUNO_ACTOR=agent"]);
    }

    #[test]
    fn what_commands_need_stays() {
        let names = ["PATH", "HOME", "LANG", "LC_ALL", "PWD", "OLDPWD", "TOKENS", "KEYMAP", "SSH_AUTH_SOCK"];
        let mut expected: Vec<_> = names.map(|name| format!("{name}=value")).into();
        expected.push("ZUNO_ACTOR=agent".to_owned());
        assert_eq!(kept_of_names(&names), expected);
    }

    #[test]
    fn a_configured_key_is_withheld_under_every_name_and_within_other_values() {
        let ours = [
            ("BRAIN", "sk-1234567890"),
            ("COPY", "sk-1234567890"),
            ("HEADER", "Authorization: Bearer sk-1234567890"),
            ("OTHER", "sk-12345"),
            ("EMPTY", ""),
        ];
        let secrets = Secrets::named(["BRAIN", "UNSET"]);
        assert_eq!(kept(&secrets, &ours), ["OTHER=sk-12345", "EMPTY=", "ZUNO_ACTOR=agent"]);
        let nothing_set = [("BRAIN", ""), ("EMPTY", "")];
        assert_eq!(kept(&secrets, &nothing_set), ["EMPTY=", "ZUNO_ACTOR=agent"]);
    }

    #[test]
    fn a_placeholder_for_a_key_takes_no_more_than_its_equals() {
        let ours =
            [("BRAIN", "me"), ("USER", "me"), ("SAME", "me"), ("HOME", "/home/me"), ("MORE", "me too")];
        let secrets = Secrets::named(["BRAIN"]);
        assert_eq!(kept(&secrets, &ours), ["USER=me", "HOME=/home/me", "MORE=me too", "ZUNO_ACTOR=agent"]);
    }

    #[test]
    fn a_server_gets_the_variables_that_are_meant_for_it_and_commands_get_none_of_them() {
        let ours =
            [("PATH", "/bin"), ("A_TOKEN", "a"), ("B_TOKEN", "b"), ("PLAIN", "c"), ("ZUNO_STORE", "d")];
        let ours = ours.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let secrets = Secrets::default().and_of_servers(["A_TOKEN", "PLAIN", "PATH"]);
        let names = |environment: Vec<(OsString, OsString)>| {
            environment.into_iter().map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let chosen = ["A_TOKEN", "PLAIN", "UNSET"].map(str::to_owned).into();
        let of_server = secrets.environment_of_server(ours.clone().into_iter(), &chosen);
        assert_eq!(names(of_server), "PATH ZUNO_ACTOR A_TOKEN PLAIN");
        assert_eq!(names(secrets.environment(ours.into_iter())), "PATH ZUNO_ACTOR");
    }

    #[test]
    fn an_address_with_a_password_is_withheld() {
        let withheld = [
            "postgres://me:secret@host/db",
            "https://pip.example/simple https://me:secret@host:8080",
            "redis://:secret@host",
            "https://me:p@ss@host?a=b",
        ];
        let stays = [
            "https://host/a:b@c",
            "ssh://git@host/repository",
            "http://localhost:8080",
            "https://host?mail=a:b@c",
            "https://me:@host",
            "a:b@c",
        ];
        for value in withheld {
            assert_eq!(kept(&Secrets::default(), &[("DATABASE_URL", value)]).len(), 1, "{value}");
        }
        for value in stays {
            assert_eq!(kept(&Secrets::default(), &[("DATABASE_URL", value)]).len(), 2, "{value}");
        }
    }
}
