//! The file system as a command sees it: read-only, with holes.
//!
//! First everything that will be writable is copied, as mounts that hang nowhere; then all mounts become read-only;
//! then the copies are put where they belong, from the outside in. A copy that is put onto its own place is a mount of
//! its own, and the place of a mount can be neither renamed nor removed: so directories above a protected place become
//! mounts too.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount,
    move_mount, open_tree,
};

use crate::devices;
use crate::git::{self, Guarded};
use crate::profile::Profile;
use crate::wall::{Missing, OfWall as _};

const WALL: &str = "mount namespace";

/// The directory for temporary files, as commands see it.
pub(crate) const TEMP: &str = "/tmp";

/// Processes that may live in the namespace at once, for kernels that count by namespace (Linux 6.14). The limit on a
/// user's processes does not bind the machine's own root.
const PID_MAX: &str = "/proc/sys/kernel/pid_max";

/// The least that the kernel takes for it.
const LEAST_PIDS: u32 = 301;

/// What is put onto its own place, and how.
struct Copy {
    tree: OwnedFd,
    is_writable: bool,
}

/// Changes what this process sees of the file system. It is in a mount namespace of its own.
pub(crate) fn build(profile: &Profile) -> Result<(), Missing> {
    let recursively = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", recursively).of(WALL, "cannot detach the mounts of the machine")?;
    make_temp(&profile.temp)?;
    let temp = detached_copy(&profile.temp)?;
    let copies = copies(profile)?;
    let nodes = devices::nodes()?;
    make_read_only(Path::new("/"))?;
    devices::replace(nodes)?;
    attach(&temp, Path::new(TEMP))?;
    for (path, copy) in &copies {
        make_place(path)?;
        attach(&copy.tree, path)?;
        if !copy.is_writable {
            make_read_only(path)?;
        }
    }
    for path in &profile.hidden {
        hide(path)?;
    }
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
    mount_remount("/dev", flags, "").of(WALL, "cannot protect /dev")
}

/// In a process namespace of its own: shows it. Where the machine's `/proc` is masked, as in most containers, the kernel
/// allows no other one; then that one stays, read-only, and Landlock keeps what is inside of other processes shut.
///
/// Answers whether it is shown.
pub(crate) fn show_processes(profile: &Profile) -> Result<bool, Missing> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("proc", "/proc", "proc", flags, None) {
        Ok(()) => {
            // Of no consequence where the kernel does not count so.
            let _ = fs::write(PID_MAX, profile.limits.processes.max(LEAST_PIDS).to_string());
            mount_remount("/proc", flags | MountFlags::BIND | MountFlags::RDONLY, "")
                .of(WALL, "cannot protect /proc")?;
            Ok(true)
        }
        Err(Errno::PERM | Errno::ACCESS) => Ok(false),
        Err(error) => Err(Missing::new(WALL, format_args!("cannot mount /proc: {error}"))),
    }
}

/// The directory that `/tmp` will be, for this user alone.
pub(crate) fn make_temp(path: &Path) -> Result<(), Missing> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.of("temporary files", format_args!("cannot make {}", path.display()))
}

/// Copies of what stays writable, and of what is protected within that; sorted, so that parents come first.
fn copies(profile: &Profile) -> Result<BTreeMap<PathBuf, Copy>, Missing> {
    let Guarded { protected, writable } = git::guarded(&profile.workspace);
    let roots: Vec<&Path> = profile.roots().chain(writable.iter().map(PathBuf::as_path)).collect();
    let mut plan: BTreeMap<&Path, bool> = roots.iter().map(|root| (*root, true)).collect();
    for inner in protected.iter().chain(&profile.hidden) {
        let Some(root) = roots.iter().find(|root| inner.starts_with(root)) else { continue };
        let above = inner.ancestors().skip(1).take_while(|above| above != root);
        plan.extend(above.filter(|above| above.exists()).map(|above| (above, true)));
    }
    plan.extend(protected.iter().map(|path| (path.as_path(), false)));
    let copy = |(path, is_writable): (&Path, bool)| {
        Ok((path.to_owned(), Copy { tree: detached_copy(path)?, is_writable }))
    };
    plan.into_iter().map(copy).collect()
}

/// A copy of the mounts at and beneath a place, hanging nowhere.
pub(crate) fn detached_copy(path: &Path) -> Result<OwnedFd, Missing> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(CWD, path, flags).of(WALL, format_args!("cannot copy the mount of {}", path.display()))
}

/// Puts a copy onto a place.
pub(crate) fn attach(tree: &OwnedFd, path: &Path) -> Result<(), Missing> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .of(WALL, format_args!("cannot mount {}", path.display()))
}

/// A place within the new `/tmp` has to be made before something can be mounted there.
fn make_place(path: &Path) -> Result<(), Missing> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    // Everything that is mounted as a file lies in a directory that is mounted before it.
    fs::create_dir_all(path).of(WALL, format_args!("there is no place for {}", path.display()))
}

/// Covers a place with something that nobody can look into.
fn hide(path: &Path) -> Result<(), Missing> {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(found) if found.is_dir() => {
            let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("tmpfs", path, "tmpfs", flags, Some(c"mode=000,size=4k,nr_inodes=1"))
                .of(WALL, format_args!("cannot hide {}", path.display()))
        }
        Ok(_) => attach(&detached_copy(Path::new(devices::UNREADABLE))?, path),
    }
}

/// Makes every mount at or beneath a place read-only. What the mounts do not allow already stays that way: the kernel
/// lets nobody in a user namespace loosen it.
fn make_read_only(top: &Path) -> Result<(), Missing> {
    let table = fs::read_to_string("/proc/self/mountinfo").of(WALL, "cannot list the mounts")?;
    for (path, options) in table.lines().filter_map(mount_point) {
        if !path.starts_with(top) || options.split(',').any(|option| option == "ro") {
            continue;
        }
        let kept = options.split(',').fold(MountFlags::empty(), |flags, option| flags | flag(option));
        match mount_remount(&path, kept | MountFlags::BIND | MountFlags::RDONLY, "") {
            // Covered by another mount, or not to be entered by this user: commands cannot get there either.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::INVAL) => {}
            Err(error) => {
                let doing = format!("cannot make {} read-only: {error}", path.display());
                return Err(Missing::new(WALL, doing));
            }
        }
    }
    Ok(())
}

/// The place and the options of a line of mountinfo.
fn mount_point(line: &str) -> Option<(PathBuf, &str)> {
    let mut fields = line.split(' ').skip(4);
    Some((PathBuf::from(unescaped(fields.next()?)), fields.next()?))
}

/// Blanks and backslashes stand there as three octal digits.
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

fn flag(option: &str) -> MountFlags {
    match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402\134040 rw,noatime,nosuid master:1 - ext3 /dev/root rw,errors=continue";
        let (path, options) = mount_point(line).unwrap();
        assert_eq!((path, options), (PathBuf::from(r"/mnt 2\040"), "rw,noatime,nosuid"));
    }
}
