//! Takes a shell text apart into simple commands, or says why it cannot.
//!
//! A small part of the POSIX grammar is understood: words with quotes, and the operators between simple commands.
//! Whatever may run, or write, something that is not one of these words makes the text unclear. So what comes out is
//! everything that the shell would run, for every shell that may be `sh`.

use std::iter::Peekable;
use std::str::Chars;

use super::pattern::{ANY, flat};

/// One simple command of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Its words as they are written, one space between them, without redirections.
    pub(super) raw: String,
    /// From the name of the command on, without quotes. Empty if it only sets variables.
    pub(super) plain: String,
    /// Whether `plain` is all of it and means the same as `raw`.
    pub(super) is_exact: bool,
    /// `plain` with [`ANY`] for each word that the shell makes something else of, if there is one.
    pub(super) shape: Option<String>,
    /// What it may run besides, if its arguments can be a command: the [`flat`] text.
    pub(super) may_run: Option<String>,
}

/// Why a text is not understood: the construct, to be read after "it holds".
pub(super) type Unclear = &'static str;

/// The construct that leaves open which command it is.
pub(super) const UNNAMED: Unclear = "a command whose name is not plain text";

/// Words that begin or continue a compound command where the name of a command is expected.
const KEYWORDS: [&str; 19] = [
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "select", "then", "until", "while", "{", "}",
];

/// Commands that read their arguments, or a file, as a further shell text.
const READS_TEXT: [&str; 4] = ["eval", ".", "source", "alias"];

/// Commands that run another command, which stands among their arguments.
const RUNS_ARGUMENTS: [&str; 57] = [
    "ash",
    "at",
    "bash",
    "batch",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "dash",
    "doas",
    "env",
    "exec",
    "fakeroot",
    "find",
    "fish",
    "flock",
    "gosu",
    "ionice",
    "ksh",
    "ltrace",
    "mksh",
    "nice",
    "nohup",
    "nsenter",
    "numactl",
    "parallel",
    "pkexec",
    "prlimit",
    "rbash",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "sh",
    "ssh",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "trap",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
    "xvfb-run",
    "yash",
    "zsh",
];

/// The simple commands of a text, none of which is empty.
pub(super) fn simple_commands(text: &str) -> Result<Vec<SimpleCommand>, Unclear> {
    // Shells disagree on which blanks part words, and a person cannot see these.
    let is_odd = |c: char| !matches!(c, ' ' | '\t' | '\n') && (c.is_whitespace() || domain::is_invisible(c));
    if text.contains(is_odd) {
        return Err("an unusual blank or an invisible character");
    }
    let mut reader =
        Reader { rest: text.chars().peekable(), word: None, words: Vec::new(), commands: Vec::new() };
    reader.read()?;
    Ok(reader.commands)
}

/// A word while it is read, and after.
#[derive(Default)]
struct Word {
    raw: String,
    plain: String,
    /// Whether the shell may make something else of it, or of a part: a variable, a pattern, braces.
    expands: bool,
    /// Whether a quoted character means something else, or parts words, when it is not quoted.
    needs_quotes: bool,
}

impl Word {
    fn push(&mut self, c: char) {
        self.raw.push(c);
        self.plain.push(c);
    }

    fn push_quoted(&mut self, c: char) {
        self.push(c);
        self.needs_quotes |= !(c.is_alphanumeric() || "_-./:@%+,".contains(c));
    }

    fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.raw.split_once('=') else { return false };
        let name = name.strip_suffix('+').unwrap_or(name);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(fits)
    }
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    word: Option<Word>,
    words: Vec<Word>,
    commands: Vec<SimpleCommand>,
}

impl Reader<'_> {
    /// The next character, line continuations skipped: outside of single quotes and comments a shell does not see
    /// them, not even within an operator.
    fn next(&mut self) -> Option<char> {
        self.skip_continuations();
        self.rest.next()
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_continuations();
        self.rest.peek().copied()
    }

    fn skip_continuations(&mut self) {
        while self.rest.peek() == Some(&'\\') {
            let mut ahead = self.rest.clone();
            ahead.next();
            if ahead.next() != Some('\n') {
                return;
            }
            self.rest = ahead;
        }
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn read(&mut self) -> Result<(), Unclear> {
        while let Some(c) = self.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                // Of operators with two characters the second ends an empty command.
                ';' | '&' | '|' | '\n' => self.end_command()?,
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\'' => self.single_quotes()?,
                '"' => self.double_quotes()?,
                '\\' => {
                    let escaped = self.rest.next().ok_or("a backslash at its end")?;
                    self.word().raw.push('\\');
                    self.word().push_quoted(escaped);
                }
                '$' => self.variable(false)?,
                '`' => return Err("a command substitution"),
                '(' | ')' => return Err("a subshell or a function"),
                '<' | '>' => self.redirection(c)?,
                '*' | '?' | '[' | '{' | '}' => {
                    self.word().expands = true;
                    self.word().push(c);
                }
                // A command named by a tilde is in a folder that the text does not name.
                '~' => {
                    self.word().expands |= self.word().raw.is_empty();
                    self.word().push(c);
                }
                c => self.word().push(c),
            }
        }
        self.end_command()
    }

    fn single_quotes(&mut self) -> Result<(), Unclear> {
        self.word().raw.push('\'');
        loop {
            match self.rest.next().ok_or("a quote without its end")? {
                '\'' => break,
                c => self.word().push_quoted(c),
            }
        }
        self.word().raw.push('\'');
        Ok(())
    }

    fn double_quotes(&mut self) -> Result<(), Unclear> {
        self.word().raw.push('"');
        loop {
            match self.next().ok_or("a quote without its end")? {
                '"' => break,
                '`' => return Err("a command substitution"),
                '$' => self.variable(true)?,
                '\\' => {
                    self.word().raw.push('\\');
                    let escapes = |c: &char| matches!(c, '$' | '`' | '"' | '\\');
                    match self.rest.next_if(escapes) {
                        Some(c) => self.word().push_quoted(c),
                        None => {
                            self.word().plain.push('\\');
                            self.word().needs_quotes = true;
                        }
                    }
                }
                c => self.word().push_quoted(c),
            }
        }
        self.word().raw.push('"');
        Ok(())
    }

    /// After a `$`: a variable by its plain name, or the character itself.
    fn variable(&mut self, is_quoted: bool) -> Result<(), Unclear> {
        match self.peek() {
            Some('(') => return Err("a command substitution"),
            Some('{' | '[') => return Err("a variable in braces, or arithmetic"),
            Some('\'' | '"') if !is_quoted => return Err("quotes that shells read in different ways"),
            _ => {}
        }
        let word = self.word();
        word.push('$');
        word.expands = true;
        word.needs_quotes |= is_quoted;
        Ok(())
    }

    /// After a `<` or `>`: understood are copies of open files, as in `2>&1`, and the null device.
    fn redirection(&mut self, sign: char) -> Result<(), Unclear> {
        match &self.word {
            Some(word) if word.raw.chars().all(|c| c.is_ascii_digit()) => {
                if word.raw.len() > 1 {
                    return Err("a redirection that shells read in different ways");
                }
                self.word = None;
            }
            _ => self.end_word(),
        }
        let copies = match self.peek() {
            Some('(') => return Err("a process substitution"),
            Some('<') => return Err("a here-document"),
            Some('&') => self.next().is_some(),
            _ => false,
        };
        if sign == '>' && !copies && self.peek() == Some('>') {
            self.next();
        }
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.next();
        }
        let mut target = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || "/-_.".contains(*c)) {
            target.push(c);
            self.next();
        }
        let is_whole = matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ';' | '&' | '|'));
        let is_copy = target == "-" || (target.len() == 1 && target.chars().all(|c| c.is_ascii_digit()));
        if is_whole && if copies { is_copy } else { target == "/dev/null" } {
            return Ok(());
        }
        Err("a redirection to or from a file")
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self) -> Result<(), Unclear> {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(command(&words)?);
        }
        Ok(())
    }
}

fn command(words: &[Word]) -> Result<SimpleCommand, Unclear> {
    let assignments = words.iter().take_while(|word| word.is_assignment()).count();
    let named = &words[assignments..];
    let plain = joined(named, |word| &word.plain);
    let mut may_run = None;
    if let Some(name) = named.first() {
        let program = name.plain.rsplit('/').next().unwrap_or_default();
        if KEYWORDS.contains(&name.plain.as_str()) {
            return Err("a compound command");
        }
        // A lone bracket is the command for tests, not a pattern.
        let expands = name.expands && name.plain != "[";
        if expands || name.plain.is_empty() || name.plain.contains([' ', '\t', '\n']) {
            return Err(UNNAMED);
        }
        if READS_TEXT.contains(&program) {
            return Err("a command that runs a text");
        }
        may_run = RUNS_ARGUMENTS.contains(&program).then(|| flat(&plain));
    }
    Ok(SimpleCommand {
        raw: joined(words, |word| &word.raw),
        is_exact: assignments == 0 && named.iter().all(|word| !word.needs_quotes && !word.plain.is_empty()),
        shape: shape(named),
        plain,
        may_run,
    })
}

/// The name is plain text by then, also where it is a bracket.
fn shape(named: &[Word]) -> Option<String> {
    let (name, arguments) = named.split_first()?;
    arguments.iter().any(|word| word.expands).then(|| {
        let open = |word: &'_ Word| if word.expands { ANY.to_owned() } else { word.plain.clone() };
        let words = std::iter::once(name.plain.clone()).chain(arguments.iter().map(open));
        words.collect::<Vec<_>>().join(" ")
    })
}

fn joined<'w>(words: &'w [Word], text: impl Fn(&'w Word) -> &'w String) -> String {
    words.iter().map(|word| text(word).as_str()).collect::<Vec<_>>().join(" ")
}
