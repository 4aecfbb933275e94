//! The socket on standard input: one line in, one line out.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use crate::order::{ORDER_BYTES, Order, REPORT_BYTES, Report};

/// The socket that standard input is.
pub(crate) fn own() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Waits for an order; `None` if whoever would give it is gone.
pub(crate) fn receive(from: &UnixStream) -> io::Result<Option<Order>> {
    match line(from, ORDER_BYTES)? {
        Some(line) => serde_json::from_str(&line).map(Some).map_err(io::Error::other),
        None => Ok(None),
    }
}

/// Hands an order on.
pub(crate) fn send(to: &UnixStream, order: &Order) -> io::Result<()> {
    write_line(to, &order.to_line().map_err(io::Error::other)?)
}

/// Waits for a report; `None` if there will be none.
pub(crate) fn heard(from: &UnixStream) -> io::Result<Option<Report>> {
    Ok(line(from, REPORT_BYTES)?.as_deref().and_then(Report::from_line))
}

/// Says what became of an order. Whoever gave it may be gone.
pub(crate) fn report(to: &UnixStream, report: &Report) {
    let _ = write_line(to, &report.to_line());
}

fn write_line(mut to: &UnixStream, line: &str) -> io::Result<()> {
    to.write_all(line.as_bytes())
}

/// A whole line of at most so many bytes.
fn line(from: &UnixStream, most: usize) -> io::Result<Option<String>> {
    let mut line = String::new();
    BufReader::new(from.take(most as u64)).read_line(&mut line)?;
    Ok(line.ends_with('\n').then_some(line))
}
