//! What is outside of a workspace, and a record of all that a command could change of it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::Record;

/// A process that tells on request what was done to it: its memory, the signals it got, who traces it.
const VICTIM: &str = r"
import ctypes, os, signal, sys
held = open(sys.argv[1], 'a')
buffer = ctypes.create_string_buffer(b'untouched', 64)
got = []
for number in (1, 2, 3, 10, 12, 13, 14, 15, 17, 18, 20, 28, 34, 40):
    signal.signal(number, lambda number, frame: got.append(number))
print(os.getpid(), ctypes.addressof(buffer), flush=True)
for line in sys.stdin:
    status = open('/proc/self/status').read()
    tracer = [line for line in status.splitlines() if line.startswith('TracerPid')]
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    score = open('/proc/self/oom_score_adj').read().strip()
    print(buffer.value, got, tracer, nice, score, sorted(os.sched_getaffinity(0)), flush=True)
";

/// The name of its line in a record.
pub(crate) const PROCESS: &str = "another process";

/// How long a killed process may take to be gone.
const GONE: Duration = Duration::from_secs(1);

/// Sockets that count what arrives.
pub(crate) struct Listeners {
    pub(crate) tcp_port: u16,
    pub(crate) udp_port: u16,
    counts: [(&'static str, Arc<AtomicUsize>); 5],
}

impl Listeners {
    /// On TCP and UDP of this machine, at two paths of a folder and at an abstract name. They live as long as the test.
    pub(crate) fn start(folder: &Path, abstract_name: &str) -> Self {
        let counts =
            ["tcp", "udp", "unix", "datagram", "abstract"].map(|name| (name, Arc::new(AtomicUsize::new(0))));
        let counter = |index: usize| {
            let count = Arc::clone(&counts[index].1);
            move || {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let datagram = UnixDatagram::bind(folder.join("datagram")).unwrap();
        let path = UnixListener::bind(folder.join("socket")).unwrap();
        let address = SocketAddr::from_abstract_name(abstract_name).unwrap();
        let hidden = UnixListener::bind_addr(&address).unwrap();
        let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let (tell_tcp, tell_udp, tell_path) = (counter(0), counter(1), counter(2));
        let (tell_datagram, tell_hidden) = (counter(3), counter(4));
        thread::spawn(move || tcp.incoming().for_each(|_| tell_tcp()));
        thread::spawn(move || {
            while udp.recv(&mut [0; 64]).is_ok() {
                tell_udp();
            }
        });
        thread::spawn(move || path.incoming().for_each(|_| tell_path()));
        thread::spawn(move || {
            while datagram.recv(&mut [0; 64]).is_ok() {
                tell_datagram();
            }
        });
        thread::spawn(move || hidden.incoming().for_each(|_| tell_hidden()));
        Self { tcp_port, udp_port, counts }
    }

    pub(crate) fn record(&self, into: &mut Record) {
        for (name, count) in &self.counts {
            into.insert(format!("{name} socket"), format!("{} arrivals", count.load(Ordering::SeqCst)));
        }
    }
}

/// Another process of the same user.
pub(crate) struct Victim {
    child: Child,
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
    pub(crate) address: u64,
}

impl Victim {
    /// It holds this file open for writing, and a secret in its environment.
    pub(crate) fn start(held: &Path, secret: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", VICTIM])
            .arg(held)
            .env("VICTIM_WORD", secret)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (ask, mut told) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { child, ask, told, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('X')
    }

    pub(crate) fn record(&mut self, into: &mut Record) {
        let line = match self.state() {
            state @ ('T' | 't' | 'Z' | 'X') => format!("stands at {state}"),
            _ => {
                let mut line = String::new();
                let asked = self.ask.write_all(b"\n").and_then(|()| self.ask.flush());
                asked.and_then(|()| self.told.read_line(&mut line)).map_or("gone".to_owned(), |_| line)
            }
        };
        into.insert(PROCESS.to_owned(), line);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Processes that a command of this mark started and that still run, once there was time for them to go.
pub(crate) fn survivors(mark: &str) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let found = marked(mark);
        if found.is_empty() || start.elapsed() > GONE {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Commands of agents carry `ZUNO_ACTOR`, and inherit the mark from the program that runs them.
fn marked(mark: &str) -> Vec<u32> {
    let holds = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let mut environment = Vec::new();
        let file = fs::File::open(format!("/proc/{pid}/environ"));
        // Of a process that ended meanwhile, or is a zombie, nothing can be read.
        let _ = file.and_then(|mut file| file.read_to_end(&mut environment));
        holds(&environment, mark) && holds(&environment, "ZUNO_ACTOR=agent")
    })
    .collect()
}
