//! Landlock: the wall that holds by itself, whatever the mounts say.
//!
//! It also keeps a command from changing mounts and from looking into processes that are not behind the same wall.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::devices;
use crate::git;
use crate::mounts::TEMP;
use crate::profile::{Level, Profile};
use crate::wall::{Missing, OfWall as _};

const WALL: &str = "landlock";

/// The least that will do: before it, a file could be emptied without leave (Linux 6.2).
const LEAST: ABI = ABI::V3;

/// The latest whose rules were tried with this program; what the kernel does not know of it is left out.
const BEST: ABI = ABI::V7;

/// Binds this process and all that it starts.
pub(crate) fn restrict(profile: &Profile) -> Result<(), Missing> {
    let doing = "Linux 6.2 with Landlock switched on is needed";
    let status = build(profile).and_then(RulesetCreated::restrict_self).of(WALL, doing)?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(Missing::new(WALL, doing));
    }
    Ok(())
}

/// Whether Landlock does what is needed here, and which of its versions there is. Restricts this process.
pub(crate) fn version() -> (bool, String) {
    let rules = Ruleset::default().handle_access(AccessFs::from_write(LEAST));
    let status = rules.and_then(Ruleset::create).and_then(RulesetCreated::restrict_self);
    match status.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, kernel_abi }) => {
            let version = kernel_abi.unwrap_or(effective_abi as i32);
            (effective_abi >= LEAST, format!("version {version} of its interface"))
        }
        Ok(other) => (false, format!("{other:?}")),
        Err(error) => (false, error.to_string()),
    }
}

fn build(profile: &Profile) -> Result<RulesetCreated, RulesetError> {
    let is_alone = profile.level == Level::Landlock;
    let least = if is_alone { AccessFs::from_all(LEAST) } else { AccessFs::from_write(LEAST) };
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(least)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(BEST))?
        .scope(Scope::from_all(BEST))?
        .create()?;
    let everything = if is_alone { AccessFs::from_all(BEST) } else { AccessFs::from_write(BEST) };
    let ruleset = ruleset.add_rules(rules(writable(profile, is_alone), everything))?;
    if !is_alone {
        // Mounts hide what must be hidden, and reading is free otherwise.
        return Ok(ruleset);
    }
    let (whole, listed) = readable(&profile.hidden);
    ruleset
        .add_rules(rules(whole, AccessFs::from_read(BEST)))?
        .add_rules(rules(listed, AccessFs::ReadDir.into()))
}

/// Where writing is allowed.
fn writable(profile: &Profile, is_alone: bool) -> Vec<PathBuf> {
    let mut writable: Vec<_> = profile.roots().map(Path::to_owned).collect();
    writable.extend(git::guarded(&profile.workspace).writable);
    writable.extend(devices::NODES.map(PathBuf::from));
    if is_alone {
        writable.push(profile.temp.clone());
    } else {
        writable.push(TEMP.into());
        writable.extend(devices::WRITABLE.map(PathBuf::from));
    }
    writable
}

/// What may be read so that nothing hidden may: everything beside the way to a hidden place, and the names on the way.
/// What appears beside that way later cannot be read.
fn readable(hidden: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut whole, mut listed) = (Vec::new(), Vec::new());
    let mut to_see = vec![PathBuf::from("/")];
    while let Some(path) = to_see.pop() {
        if hidden.contains(&path) {
            continue;
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            whole.push(path);
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            to_see.extend(entries.flatten().map(|entry| entry.path()));
        }
        listed.push(path);
    }
    (whole, listed)
}

/// Rules for what exists. A right that only directories have is none for a file.
fn rules(
    paths: Vec<PathBuf>,
    access: BitFlags<AccessFs>,
) -> impl Iterator<Item = Result<PathBeneath<PathFd>, RulesetError>> {
    paths.into_iter().filter_map(move |path| {
        // A rule about a link would be a rule about what it leads to, which may be hidden.
        let found = fs::symlink_metadata(&path).ok().filter(|found| !found.is_symlink())?;
        let access = if found.is_dir() { access } else { access & AccessFs::from_file(BEST) };
        Some(Ok(PathBeneath::new(PathFd::new(&path).ok()?, access)))
    })
}
