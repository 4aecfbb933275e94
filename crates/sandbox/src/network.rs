//! The loopback interface of a new network namespace, which begins without any way out and with `lo` down.

use rustix::io;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::wall::{Missing, OfWall as _};

/// `RTM_NEWLINK` of linux/rtnetlink.h: changes an interface.
const NEW_LINK: u16 = 16;
/// `NLMSG_ERROR` of linux/netlink.h: the answer, also of a success.
const ANSWER: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// `IFF_UP` of linux/if.h.
const UP: u32 = 1;
/// The loopback interface is the first of every network namespace.
const LOOPBACK: i32 = 1;
/// Bytes of a header and of what follows it, `struct nlmsghdr` and `struct ifinfomsg`.
const MESSAGE_BYTES: u32 = 16 + 16;

/// Brings `lo` up, so that a test suite can bind 127.0.0.1 and connect to it.
pub(crate) fn raise_loopback() -> Result<(), Missing> {
    ask_for(&message()).of("network namespace", "the loopback interface does not come up")
}

/// One `struct nlmsghdr` and one `struct ifinfomsg` in the machine's byte order: "set the flag UP of interface 1".
fn message() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES as usize);
    bytes.extend(MESSAGE_BYTES.to_ne_bytes());
    bytes.extend(NEW_LINK.to_ne_bytes());
    bytes.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes()); // sequence number
    bytes.extend(0_u32.to_ne_bytes()); // to the kernel
    bytes.extend([0; 4]); // family, padding, type of the device
    bytes.extend(LOOPBACK.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes()); // flags
    bytes.extend(UP.to_ne_bytes()); // which of them change
    bytes
}

fn ask_for(message: &[u8]) -> io::Result<()> {
    // No protocol stands for the first one, which is the one about interfaces and routes.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, message, SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 64];
    let (received, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    let answer = answer.get(..received).unwrap_or_default();
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, error) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(negative)) => Err(io::Errno::from_raw_os_error(negative.saturating_neg())),
        _ => Err(io::Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_as_long_as_it_says() {
        assert_eq!(message().len(), MESSAGE_BYTES as usize);
    }
}
