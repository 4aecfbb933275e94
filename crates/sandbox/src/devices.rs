//! A `/dev` with what every program may use, and nothing of the machine's.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::mounts::{attach, detached_copy};
use crate::wall::{Missing, OfWall as _};

/// Devices that lead nowhere.
pub(crate) const NODES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Directories of it that are written: shared memory, and terminals that programs make for themselves.
pub(crate) const WRITABLE: [&str; 2] = ["/dev/shm", "/dev/pts"];

/// Links that shells and scripts take for granted.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

/// A file that nobody can open: stands in for hidden ones.
pub(crate) const UNREADABLE: &str = "/dev/unreadable";

/// The nodes as they are outside, to be attached within.
pub(crate) fn nodes() -> Result<Vec<(&'static str, OwnedFd)>, Missing> {
    NODES.into_iter().map(|path| Ok((path, detached_copy(Path::new(path))?))).collect()
}

/// Replaces `/dev`.
pub(crate) fn replace(nodes: Vec<(&'static str, OwnedFd)>) -> Result<(), Missing> {
    let cannot = "cannot fill /dev";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", "/dev", "tmpfs", flags, Some(c"mode=755,size=64k"))
        .of("mount namespace", "cannot mount /dev")?;
    for (path, node) in nodes {
        File::create(path).of("mount namespace", cannot)?;
        attach(&node, Path::new(path))?;
    }
    for (target, link) in LINKS {
        symlink(target, link).of("mount namespace", cannot)?;
    }
    for directory in WRITABLE {
        fs::create_dir(directory).of("mount namespace", cannot)?;
    }
    let flags = flags | MountFlags::NODEV;
    mount("tmpfs", "/dev/shm", "tmpfs", flags, Some(c"mode=1777"))
        .of("mount namespace", "cannot mount /dev/shm")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, Some(c"newinstance,ptmxmode=0666,mode=620"))
        .of("mount namespace", "cannot mount /dev/pts")?;
    let file = File::create(UNREADABLE).of("mount namespace", cannot)?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::empty()).of("mount namespace", cannot)
}
