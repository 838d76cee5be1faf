//! Bytes of a stream with the time at which the kernel received them (`SO_TIMESTAMPNS`).
//!
//! A program that is busy, or does not run, reads late; the kernel's time stamp of the packet does not
//! depend on that.

use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use rustix::io::Errno;

/// Room for control messages: one time stamp, and some that were not asked for.
const CONTROL_BYTES: usize = 128;

/// From now on [`receive`] returns when bytes arrived; the kernel may begin a little later.
///
/// # Errors
///
/// It is not a socket.
#[allow(unsafe_code)]
pub fn enable_receive_timestamps(socket: &impl AsFd) -> Result<(), Errno> {
    let yes: libc::c_int = 1;
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads one int.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const yes).cast::<libc::c_void>(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Receives bytes: how many, 0 at the end, and when the last packet among them arrived, as time since
/// 1970 by the machine's clock. No time when the kernel did not stamp the packet.
///
/// # Errors
///
/// As `recv` has them; [`Errno::AGAIN`] when there is nothing to read now.
#[allow(unsafe_code)]
pub fn receive(socket: &impl AsFd, into: &mut [u8]) -> Result<(usize, Option<Duration>), Errno> {
    let mut control = [0_u64; CONTROL_BYTES / 8];
    let mut piece =
        libc::iovec { iov_base: into.as_mut_ptr().cast::<libc::c_void>(), iov_len: into.len() };
    // SAFETY: all zeros is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast::<libc::c_void>();
    message.msg_controllen = CONTROL_BYTES;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes into `into` and
    // `control`, which outlive the call, at most as much as their lengths say.
    let read = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
    let Ok(read) = usize::try_from(read) else {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    };
    // SAFETY: the message is as the kernel left it: its first header lies in `control`, or is none.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let mut arrived = None;
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers that lie wholly in `control`.
        let (level, kind, length) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        // SAFETY: computes a length and reads nothing.
        let whole = unsafe { libc::CMSG_LEN(size_of::<libc::timespec>() as u32) } as usize;
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS && length >= whole {
            // SAFETY: the message is long enough for a timespec, which may lie unaligned.
            let stamp: libc::timespec =
                unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let seconds = u64::try_from(stamp.tv_sec).ok();
            let nanos = u32::try_from(stamp.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000);
            arrived = seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos));
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok((read, arrived))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn bytes_have_their_arrival_time_even_when_they_are_read_late() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        enable_receive_timestamps(&other).unwrap();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut bytes = [0; 64];
        // The kernel begins to stamp a little after it is asked to.
        let stamped = (0..20).find_map(|_| {
            let before = now();
            one.write_all(b"hello").unwrap();
            let after = now();
            std::thread::sleep(Duration::from_millis(200));
            let (read, arrived) = receive(&other, &mut bytes).unwrap();
            assert_eq!(&bytes[..read], b"hello");
            Some((before, arrived?, after))
        });
        let (before, arrived, after) = stamped.unwrap();
        let slack = Duration::from_millis(20);
        assert!(before <= arrived + slack && arrived <= after + slack, "{arrived:?}");
        drop(one);
        assert_eq!(receive(&other, &mut bytes).unwrap().0, 0, "end of the stream");
    }

    #[test]
    fn nothing_to_read_is_eagain() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        one.set_nonblocking(true).unwrap();
        assert_eq!(receive(&one, &mut [0; 8]), Err(Errno::AGAIN));
    }
}
