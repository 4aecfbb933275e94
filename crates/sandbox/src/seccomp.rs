//! Seccomp: the system calls that no command needs and that other walls do not cover.
//!
//! A list of what is forbidden, not of what is allowed: programs use hundreds of calls, and new ones appear. What matters
//! here is closed by kind: other processes' memory, mounts and namespaces, kinds of sockets that reach out of the
//! namespaces, and parts of the kernel with a long history of holes.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::profile::Level;
use crate::wall::{Missing, OfWall as _};

/// Refused as if the user had no right to.
const FORBIDDEN: [i64; 45] = [
    // Other processes: their memory, their registers, their open files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and roots. Landlock forbids most of this, too.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // Other namespaces. Making new ones is a matter of flags: see below.
    libc::SYS_setns,
    // Files by number, past every mount.
    libc::SYS_open_by_handle_at,
    // Large parts of the kernel that commands have no use for.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    // The keys of the user's session, which are in no namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
];

/// Forbidden, and only there on this machine type.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: [i64; 3] = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: [i64; 0] = [];

/// Calls that are newer than our library; their numbers are the same on every machine type.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Said not to exist, so that programs fall back to what can be judged: `clone3` has its flags in memory, where no
/// filter looks, and `io_uring` does the work of other calls past every filter.
const UNKNOWN: [i64; 4] =
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Changes to files that Landlock does not know. Where read-only mounts guard the outside they are allowed.
const ATTRIBUTES: [i64; 15] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    libc::SYS_utimensat,
    FILE_SETATTR,
];

/// The same, and only there on this machine type.
#[cfg(target_arch = "x86_64")]
const ATTRIBUTES_HERE: [i64; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const ATTRIBUTES_HERE: [i64; 0] = [];

/// Requests of `ioctl` that type into a terminal, or change attributes of files that Landlock does not know.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;

/// The bits of a socket's type beside its flags: `SOCK_TYPE_MASK` of linux/net.h.
const SOCKET_TYPE: u64 = 0xf;

/// New namespaces, in which a process would have rights again.
const NEW_NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    CLONE_NEWTIME,
];

/// `CLONE_NEWTIME` of linux/sched.h.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// The bit that marks calls of the x32 convention, which have numbers of their own.
const X32: u32 = 0x4000_0000;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Binds this process and all that it starts.
pub(crate) fn forbid(level: Level, network: bool) -> Result<(), Missing> {
    for program in programs(level, network).of("seccomp", "the filter cannot be made")? {
        apply_filter(&program).of("seccomp", "a kernel with seccomp filters is needed")?;
    }
    Ok(())
}

fn programs(level: Level, network: bool) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let refused = filter(refused(level, network)?, libc::EPERM)?;
    let unknown = filter(UNKNOWN.into_iter().map(|call| (call, Vec::new())).collect(), libc::ENOSYS)?;
    Ok(vec![no_x32(), unknown, refused])
}

/// Lets everything through but these; a call of another machine type ends the process.
fn filter(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let here: TargetArch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), here)?
        .try_into()
}

fn refused(level: Level, network: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules =
        FORBIDDEN.into_iter().chain(FORBIDDEN_HERE).map(|call| (call, Vec::new())).collect();
    let mut ioctls = vec![TIOCSTI, TIOCLINUX];
    if level == Level::Landlock {
        rules.extend(ATTRIBUTES.into_iter().chain(ATTRIBUTES_HERE).map(|call| (call, Vec::new())));
        ioctls.extend([FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR]);
    }
    // The kernel looks at 32 bits of a request, so the filter must, too.
    let ioctls = ioctls.into_iter().map(|request| rule(&[(1, Op::Eq, request)]));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let flags = NEW_NAMESPACES.into_iter().map(|flag| u64::from(flag.unsigned_abs()));
        let flags = flags.map(|flag| rule(&[(0, Op::MaskedEq(flag), flag)]));
        rules.insert(call, flags.collect::<Result<_, _>>()?);
    }
    rules.insert(libc::SYS_socket, sockets(level == Level::Full || network)?);
    // Pairs are for processes that know each other. One of datagrams could still send to any path; the kernel takes raw
    // ones for the same.
    let of_type = |kind| rule(&[(1, Op::MaskedEq(SOCKET_TYPE), number(kind))]);
    let pairs = vec![
        rule(&[(0, Op::Ne, number(libc::AF_UNIX))])?,
        of_type(libc::SOCK_DGRAM)?,
        of_type(libc::SOCK_RAW)?,
    ];
    rules.insert(libc::SYS_socketpair, pairs);
    Ok(rules)
}

/// Which sockets are forbidden: all but the internet's, and questions to the kernel about interfaces and routes.
///
/// A UNIX socket connects to a path, past read-only mounts and past Landlock, and at the other end may be a daemon that
/// does anything for its user, such as Docker's. Virtual machines and raw packets have kinds of their own.
fn sockets(has_internet: bool) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let mut allowed = vec![number(libc::AF_NETLINK)];
    if has_internet {
        allowed.extend([number(libc::AF_INET), number(libc::AF_INET6)]);
    }
    let none: Vec<_> = allowed.into_iter().map(|family| (0, Op::Ne, family)).collect();
    let other_netlink = [(0, Op::Eq, number(libc::AF_NETLINK)), (2, Op::Ne, number(libc::NETLINK_ROUTE))];
    Ok(vec![rule(&none)?, rule(&other_netlink)?])
}

fn number(constant: libc::c_int) -> u64 {
    u64::from(constant.unsigned_abs())
}

/// Arguments that have to fit all at once.
fn rule(conditions: &[(u8, Op, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition =
        |(index, op, value): &(u8, Op, u64)| SeccompCondition::new(*index, Len::Dword, op.clone(), *value);
    SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)
}

/// Says that no call with the x32 bit exists. Filters compare whole numbers, and would let those through.
fn no_x32() -> BpfProgram {
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let at_least = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let code = |bits: u32| u16::try_from(bits).unwrap_or_default();
    vec![
        // The number of the call is the first field of what a filter sees.
        instruction(code(load), 0, 0, 0),
        instruction(code(at_least), 0, 1, X32),
        instruction(code(answer), 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        instruction(code(answer), 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_can_be_made() {
        for level in [Level::Full, Level::Landlock] {
            for network in [true, false] {
                let programs = programs(level, network).unwrap();
                // The kernel takes no longer ones.
                assert!(programs.iter().all(|program| (1..4096).contains(&program.len())));
            }
        }
    }
}
