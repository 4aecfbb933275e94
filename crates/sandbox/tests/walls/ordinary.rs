//! What commands do every day works behind the walls.

use std::fs;
use std::process::Command;

use sandbox::{Level, Report};

use crate::house::House;

#[test]
fn the_shell_s_end_is_told_as_it_was() {
    let house = House::new();
    let ended =
        |code, signal, left_running| Some(Report::Ended { code, signal, left_running, over_memory: false });
    assert_eq!(house.run("exit 3").report, ended(Some(3), None, false));
    assert_eq!(house.run("kill -9 $$").report, ended(None, Some(9), false));
    assert_eq!(house.run("kill -TERM $$").report, ended(None, Some(15), false));
    assert_eq!(house.run("kill -TERM 0").report, ended(None, Some(15), false));
    assert_eq!(house.run("sleep 300 & echo").report, ended(Some(0), None, true));
    assert_eq!(house.run("setsid sleep 300 & sleep 0.1").report, ended(Some(0), None, true));
    assert_eq!(house.run("true & wait").report, ended(Some(0), None, false));
}

#[test]
fn writes_go_where_they_may() {
    let house = House::new();
    house.ok("echo x > file; mkdir -p a/b; mv file a/b; echo y > \"$P/cache/z\"; echo t > /tmp/t; echo u > $TMPDIR/u");
    assert_eq!(house.read("root/a/b/file"), "x\n");
    assert_eq!(house.read("cache/z"), "y\n");
    assert_eq!(house.read("temp/t") + &house.read("temp/u"), "t\nu\n");
}

#[test]
fn ordinary_commands_work() {
    let house = House::new();
    for script in [
        "touch f && chmod +x f && touch -t 200001010000 f && ln -s f l && ln f h && rm l h f",
        "t=$(mktemp) && echo x > $t && test -s $t && rm $t",
        "d=$(mktemp -d) && tar cf $d/x.tar . && tar xf $d/x.tar -C $d",
        "cat <<E | tr a b | grep -q bbb\naaa\nE",
        "sleep 300 & p=$!; kill $p; wait $p; test $? = 143",
        "bash -c 'diff <(echo a) <(echo a)'",
        "echo x > /dev/null && head -c 4 /dev/urandom | wc -c | grep -q 4 && echo y > /dev/stdout && echo z > /dev/stderr",
        "id -u && ps >/dev/null 2>&1; ls /proc/self/fd >/dev/null",
        "python3 -c 'import os,multiprocessing as m; q=m.Queue(); q.put(1); print(q.get()); os.openpty()'",
        "printf 'all:\\n\\techo made > m\\n' > Makefile && make -s && cat m",
    ] {
        house.ok(script);
    }
}

#[test]
fn c6_a_server_on_the_loopback_works() {
    let house = House::new();
    let script = r"
import socket, threading
s = socket.create_server(('127.0.0.1', 0)); t = threading.Thread(target=lambda: s.accept()[0].sendall(b'x')); t.start()
c = socket.create_connection(s.getsockname()); print(c.recv(1)); t.join()
socket.create_server(('::1', 0), family=socket.AF_INET6)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'y', u.getsockname()); print(u.recv(1))
";
    fs::write(house.place("root/t.py"), script).unwrap();
    assert_eq!(house.ok("python3 t.py"), "b'x'\nb'y'\n");
}

#[test]
fn git_works() {
    let house = House::at(Level::Full, |root| {
        let status = Command::new("git").args(["init", "-q"]).arg(root).status().unwrap();
        assert!(status.success());
    });
    house.ok("git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git status && git log --oneline \
              && git checkout -q -b x && git stash list && git gc -q && git branch -D master main 2>/dev/null; git tag t");
    house.fails("git config user.name x");
    house.fails("echo x > .git/hooks/pre-commit");
    house.fails("mv .git other");
    house.fails("rm -rf .git/hooks");
}

#[test]
fn commits_in_a_linked_worktree_work() {
    let house = House::at(Level::Full, |root| {
        let script = "git init -q main && cd main && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one \
                      && git worktree add -q ../root";
        let parent = root.parent().unwrap();
        fs::remove_dir(root).unwrap();
        assert!(Command::new("sh").args(["-c", script]).current_dir(parent).status().unwrap().success());
    });
    house
        .ok("echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -q -m two && git status");
    house.fails("git config user.name x");
    house.fails("echo x > $P/main/file");
    house.fails("echo x > $P/main/.git/hooks/pre-commit");
    house.fails("echo $P > $P/main/.git/worktrees/root/commondir");
    house.fails("echo 'gitdir: /' > .git");
}

#[test]
fn c6_a_workspace_beneath_tmp_is_there_and_its_neighbours_are_not() {
    let house = House::around(tempfile::tempdir().unwrap(), |_| {});
    house.ok("echo x > file && echo y > \"$P/cache/file\"");
    assert_eq!(house.read("root/file") + &house.read("cache/file"), "x\ny\n");
    house.fails("ls \"$P/outside\"");
    house.run("mkdir -p \"$P/outside\" && echo x > \"$P/outside/file\"");
    assert_eq!(house.read("outside/file"), "untouched");
}
