//! What no command does, whatever it tries.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use sandbox::{Level, Limits, Places, Report, Sandbox};

use crate::house::{House, launcher, parent};

fn with_git(level: Level) -> House {
    House::at(level, |root| {
        assert!(Command::new("git").args(["init", "-q"]).arg(root).status().unwrap().success());
        fs::create_dir(root.join(".zuno")).unwrap();
    })
}

#[test]
fn c6_nothing_outside_changes() {
    let house = House::new();
    for script in [
        "echo x > \"$P/outside/file\"",
        "echo x > \"$P/outside/new\"",
        "rm -r \"$P/outside\"",
        "mv \"$P/outside\" away",
        "chmod 777 \"$P/outside/file\"",
        "touch -t 200001010000 \"$P/outside/file\"",
        "ln -s \"$P/outside\" link && echo x > link/file",
        "python3 -c 'import os; os.truncate(os.environ[\"P\"] + \"/outside/file\", 0)'",
        "python3 -c 'import os; os.setxattr(os.environ[\"P\"] + \"/outside/file\", \"user.a\", b\"b\")'",
        "mount -t tmpfs none /mnt",
        "umount \"$P/root\"",
        "umount -l /tmp",
        "mount -o remount,rw /",
        "unshare -Ur true",
        "chroot / true",
        "echo x > /proc/sys/kernel/core_pattern",
        "kill -9 $OUTER",
    ] {
        house.fails(script);
        assert_eq!(house.read("outside/file"), "untouched", "{script}");
    }
    // A link to a file outside would be a way to write it: across mounts there are none.
    house.fails("ln \"$P/outside/file\" hard");
}

#[test]
fn c6_what_git_and_zuno_obey_cannot_be_written() {
    let house = with_git(Level::Full);
    for script in [
        "echo x >> .git/config",
        "git config core.fsmonitor ./evil",
        "echo x > .git/hooks/pre-commit",
        "mv .git/hooks .git/old",
        "rm -rf .git/hooks",
        "mv .git away",
        "ln -sf evil .git/config",
        "echo x > .zuno/zuno.toml",
        "mv .zuno away",
        "rmdir .zuno",
    ] {
        house.fails(script);
    }
    assert!(!house.exists("root/away") && !house.exists("root/.zuno/zuno.toml"));
}

#[test]
fn c6_a_place_within_the_workspace_cannot_be_moved_from_under_its_wall() {
    let parent = parent();
    let root = parent.path().join("root");
    fs::create_dir_all(root.join("a/b/hidden")).unwrap();
    fs::write(root.join("a/b/hidden/file"), "secret").unwrap();
    let house = House::around(parent, |places| places.hidden.push(places.workspace.join("a/b/hidden")));
    house.fails("cat a/b/hidden/file");
    house.fails("mv a c");
    house.fails("mv a/b a/c");
    house.ok("echo x > a/b/file && mkdir a/d && mv a/d a/e");
}

#[test]
fn c8_what_is_hidden_cannot_be_read() {
    for house in [House::new(), House::at(Level::Landlock, |_| {})] {
        for script in [
            "cat \"$P/hidden/file\"",
            "cat \"$P/secret\"",
            "cp \"$P/secret\" .",
            "ln \"$P/secret\" s && cat s",
            "grep -r secret \"$P/hidden\" \"$P/secret\"",
            "chmod 777 \"$P/secret\" \"$P/hidden\" && cat \"$P/secret\"",
            "cat < /proc/self/root/\"$P\"/secret",
        ] {
            house.fails(script);
        }
    }
    // Landlock alone cannot hide what it is called.
    House::new().fails("ls \"$P/hidden\"");
}

#[test]
fn c6_there_is_no_way_out() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    for level in [Level::Full, Level::Landlock] {
        let house = House::at(level, |_| {});
        let path = UnixListener::bind(house.place("socket")).unwrap();
        let sockets = [
            format!("s.socket(s.AF_INET, s.SOCK_STREAM).connect(('127.0.0.1', {port}))"),
            "s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))".to_owned(),
            "s.socket(s.AF_INET, s.SOCK_RAW, 1)".to_owned(),
            "s.socket(s.AF_UNIX).connect(os.environ['P'] + '/socket')".to_owned(),
            "s.socket(s.AF_UNIX).connect('\\0abstract')".to_owned(),
            "s.socket(s.AF_PACKET, s.SOCK_RAW)".to_owned(),
            "s.socket(s.AF_VSOCK, s.SOCK_STREAM)".to_owned(),
            "s.socket(s.AF_NETLINK, s.SOCK_RAW, 4)".to_owned(),
            "s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)".to_owned(),
            "s.socketpair(s.AF_UNIX, s.SOCK_RAW)".to_owned(),
        ];
        let tries = sockets.map(|call| format!("refused(lambda: {call})")).join("\n");
        let script = format!(
            "import os, socket as s\ndef refused(call):\n  try: call()\n  except OSError: return\n  raise SystemExit(1)\n{tries}"
        );
        fs::write(house.place("root/t.py"), script).unwrap();
        house.ok("python3 t.py");
        house.ok("python3 -c \"import socket as s; a, b = s.socketpair(); a.send(b'x')\"");
        drop(path);
    }
    let reaching = House::new().with_network();
    reaching.ok(&format!("python3 -c \"import socket as s; s.create_connection(('127.0.0.1', {port}))\""));
    let _listener = UnixListener::bind(reaching.place("socket")).unwrap();
    reaching.fails(
        "python3 -c \"import os, socket as s; s.socket(s.AF_UNIX).connect(os.environ['P'] + '/socket')\"",
    );
}

#[test]
fn c6_forbidden_calls_are_refused() {
    let house = House::new();
    let number = |name: &str, number: i64, errno: i32| {
        let script = format!(
            "python3 -c \"import ctypes as c; l = c.CDLL(None, use_errno=True); r = l.syscall({number}, 0, 0, 0, 0, 0); \
             assert (r, c.get_errno()) == (-1, {errno}), (r, c.get_errno())\""
        );
        let outcome = house.run(&script);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
    };
    if cfg!(target_arch = "x86_64") {
        number("ptrace", 101, 1);
        number("process_vm_readv", 310, 1);
        number("keyctl", 250, 1);
        number("bpf", 321, 1);
        number("userfaultfd", 323, 1);
        number("io_uring_setup", 425, 38);
        number("clone3", 435, 38);
        number("x32 ptrace", 0x4000_0000 + 521, 38);
    }
}

#[test]
fn c6_the_weaker_level_holds_what_it_promises() {
    let house = House::at(Level::Landlock, |_| {});
    house.ok("echo x > file && mkdir d && mv file d && cat d/file && echo y > \"$TMPDIR/z\" && echo w > \"$P/cache/w\"");
    for script in [
        "echo x > \"$P/outside/file\"",
        "chmod 777 \"$P/outside/file\"",
        "touch -t 200001010000 \"$P/outside/file\"",
        "rm -r \"$P/outside\"",
        "python3 -c 'import os; os.setxattr(os.environ[\"P\"] + \"/outside/file\", \"user.a\", b\"b\")'",
    ] {
        house.fails(script);
    }
    assert_eq!(house.read("outside/file"), "untouched");
}

#[test]
fn c6_what_is_used_up_is_bounded() {
    let house = House::with_limits(Limits { processes: 400, memory_bytes: Some(256 << 20) });
    let output = house.fails("for i in $(seq 500); do sleep 60 & done");
    assert!(output.contains("fork"), "{output}");
    let outcome = house.run("python3 -c 'a = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): a[i] = 1\nimport time; time.sleep(60)'");
    assert!(matches!(outcome.report, Some(Report::Ended { over_memory: true, .. })), "{outcome:?}");
    // What is reserved and not used does not count: checkers of compilers reserve terabytes.
    house.ok("python3 -c 'import mmap; mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)'");
}

#[test]
fn c6_what_cannot_be_confined_is_refused() {
    let parent = parent();
    let places = |workspace: &str, hidden: &str| Places {
        workspace: workspace.into(),
        temp: parent.path().join("temp"),
        writable: Vec::new(),
        hidden: vec![parent.path().join(hidden)],
    };
    let refused = |level, places: &Places| {
        let error = Sandbox::new(launcher(), level, places, Limits::default()).unwrap_err().to_string();
        error.replace(&parent.path().canonicalize().unwrap().display().to_string(), "P")
    };
    fs::create_dir_all(parent.path().join("a/b")).unwrap();
    let workspace = parent.path().join("a").display().to_string();
    let told = [
        refused(Level::Full, &places("/", "x")),
        refused(Level::Full, &places("/absent", "x")),
        refused(Level::Full, &places(&workspace, "")),
        refused(Level::Landlock, &places(&workspace, "a/b")),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
        commands cannot be confined to the root of the file system; choose another workspace, or take `/` out of `writable` in [sandbox] of zuno.toml
        /absent: No such file or directory (os error 2)
        P must be hidden from commands, and P/a beneath it must be writable; choose another workspace, or change `hide` in [sandbox] of zuno.toml
        P/a/b must be hidden from commands, and Landlock cannot hide what lies in the writable P/a; choose another workspace or `level = "full"` in [sandbox] of zuno.toml
        "#);
}
