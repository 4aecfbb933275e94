//! Namespaces of its own: what a process cannot name, it cannot touch.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};

use crate::network;
use crate::wall::{Missing, OfWall as _};

/// What to do where the kernel has no namespaces for us.
const HINT: &str = "user namespaces are switched off on this machine, or forbidden in this container. Allow them (sysctl \
                    user.max_user_namespaces, kernel.unprivileged_userns_clone or \
                    kernel.apparmor_restrict_unprivileged_userns; for a container a seccomp profile that lets unshare \
                    and mount through), or choose a weaker wall: `level = \"landlock\"` in [sandbox] of zuno.toml";

/// Moves this process to new namespaces; its children are in a new process namespace. Needs a single thread.
///
/// User and group keep their numbers, so files belong to whom they belong; no other number means anything inside.
pub(crate) fn enter(keeps_network: bool) -> Result<(), Missing> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC;
    if !keeps_network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags).of("namespaces", HINT)?;
    // Without this the kernel lets nobody map a group. Older kernels do not have the file, and need it not.
    let _ = fs::write("/proc/self/setgroups", "deny");
    for (file, id) in [("uid_map", user), ("gid_map", group)] {
        fs::write(format!("/proc/self/{file}"), format!("{id} {id} 1")).of("user namespace", HINT)?;
    }
    if keeps_network { Ok(()) } else { network::raise_loopback() }
}
