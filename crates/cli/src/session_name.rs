//! How people name a session: by its id, or by the first digits of it or of its last group.
//!
//! Ids begin with the time, so sessions of the same hour begin alike. The last group is random: it makes the short form.

use std::collections::BTreeMap;
use std::str::FromStr;

use domain::SessionId;

/// Digits of an id.
const ALL: usize = 32;
/// Digits before its last group.
const BEFORE_LAST_GROUP: usize = 20;
/// The places of the hyphens in an id.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// Fewer digits would often name the wrong one of a few hundred sessions.
const FEWEST: usize = 4;
/// Digits of the short form: among a thousand sessions, two share them once in ten thousand stores.
pub(crate) const SHORT: usize = 8;

/// A session's id, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionName {
    digits: u128,
    count: usize,
}

impl FromStr for SessionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hyphen = |(at, c): (usize, char)| c == '-' && HYPHENS.contains(&at);
        let hex: String = text.char_indices().filter(|found| !is_hyphen(*found)).map(|(_, c)| c).collect();
        let is_number = hex.chars().all(|c| c.is_ascii_hexdigit());
        match u128::from_str_radix(&hex, 16) {
            Ok(digits) if is_number && (FEWEST..=ALL).contains(&hex.len()) => {
                Ok(Self { digits, count: hex.len() })
            }
            _ => Err(format!("a session is named by its id, or by at least {FEWEST} digits of it")),
        }
    }
}

impl SessionName {
    /// The id, if this is all of it.
    pub(crate) fn whole(self) -> Option<SessionId> {
        (self.count == ALL).then(|| SessionId::from_u128(self.digits))
    }

    /// Whether these are so many digits that hardly two sessions share them.
    pub(crate) const fn is_specific(self) -> bool {
        self.count >= SHORT
    }

    /// Whether the session may be meant.
    pub(crate) fn fits(self, id: SessionId) -> bool {
        let (hex, part) = (digits_of(id), self.part());
        hex.starts_with(&part) || hex[BEFORE_LAST_GROUP..].starts_with(&part)
    }

    /// The digits, without hyphens.
    pub(crate) fn part(self) -> String {
        format!("{:0count$x}", self.digits, count = self.count)
    }
}

fn digits_of(id: SessionId) -> String {
    id.to_string().replace('-', "")
}

/// The short form of an id: the start of its last group.
pub(crate) fn short_form(id: SessionId) -> String {
    digits_of(id)[BEFORE_LAST_GROUP..][..SHORT].to_owned()
}

/// What a list calls its sessions: the short form, and the id where two share that.
pub(crate) fn short_forms(ids: &[SessionId]) -> Vec<String> {
    let mut sharing = BTreeMap::<_, usize>::new();
    for id in ids {
        *sharing.entry(short_form(*id)).or_default() += 1;
    }
    let form = |id: &SessionId| {
        let short = short_form(*id);
        if sharing.get(&short) == Some(&1) { short } else { id.to_string() }
    };
    ids.iter().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a23147-cd7b-7307-8470-f3c02b7c1e0d";

    fn name(text: &str) -> SessionName {
        text.parse().unwrap()
    }

    #[test]
    fn a_session_is_named_by_the_start_of_its_id_or_of_its_last_group() {
        let id: SessionId = ID.parse().unwrap();
        for text in ["01a2", "01a23147-cd7b-", "01a23147cd7b7", "f3c0", "F3C02B7C", "f3c02b7c1e0d"] {
            assert!(name(text).fits(id), "{text}");
            assert_eq!(name(text).whole(), None);
        }
        for text in ["1a23", "cd7b", "3c02", "f3c02b7c1e0d0"] {
            assert!(!name(text).fits(id), "{text}");
        }
        assert_eq!(name(ID).whole(), Some(id));
        assert_eq!(name(&ID.replace('-', "")).whole(), Some(id));
        assert_eq!(name("00f3").part(), "00f3");
    }

    #[test]
    fn what_is_no_part_of_an_id_is_no_name() {
        let longer = format!("{ID}0");
        for text in ["", "f3c", "----", "+f3c0", "f3-c0", "nonsense", &longer, "f3c0 ", "ｆ3c0"] {
            assert!(text.parse::<SessionName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_names_its_sessions_shortly_and_never_two_alike() {
        let ids = [ID, "02a23147-cd7b-7307-8470-f3c02b7cffff", "01a23147-cd7b-7307-8470-000000010000"];
        let ids = ids.map(|id| id.parse().unwrap());
        let forms = short_forms(&ids);
        assert_eq!(forms, [ID, "02a23147-cd7b-7307-8470-f3c02b7cffff", "00000001"]);
        for (form, id) in forms.iter().zip(ids) {
            assert_eq!(ids.into_iter().filter(|other| name(form).fits(*other)).collect::<Vec<_>>(), [id]);
        }
    }
}
