//! UDP datagrams without any rights: a socket for each, as the kernel then tells which of them an
//! error is for. Their local ports differ, and so may the ways that they go.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use model::ReplyKind;
use rustix::io::Errno;
use sys::probe_socket::{ErrorQueueEvent, ProbeSocket, SocketKind};
use wire::packet::build;
use wire::packet::icmp::error_kind;

use super::Settings;
use super::way::{Answer, News, Unsent, Way, Which};
use crate::Error;
use crate::numbered::{Moment, failed, unsent};

/// Most datagrams that are waited for at once.
const MOST: usize = 512;
/// Room for a datagram.
const ROOM: usize = 65_536;
/// Things that a socket is asked for at once: a time, an error, an answer.
const AT_ONCE: usize = 4;

/// A socket for each datagram.
pub(super) struct PlainWay {
    settings: Settings,
    open: VecDeque<(u64, ProbeSocket)>,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

impl PlainWay {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        crate::ping::raw::source(settings.to, &settings.ping())?;
        let settings = settings.clone();
        Ok(PlainWay { settings, open: VecDeque::new(), buffer: vec![0; ROOM], payload: Vec::new() })
    }

    fn headers(&self) -> usize {
        let ip = if self.settings.to.is_ipv6() {
            build::V6_HEADER_BYTES
        } else {
            build::V4_HEADER_BYTES
        };
        ip + build::UDP_HEADER_BYTES
    }

    fn socket(&self, hops: u8) -> Result<ProbeSocket, Unsent> {
        let to = self.settings.to;
        let mut settings = self.settings.ping().socket(to.ip());
        settings.dont_fragment = self.settings.mtu;
        let words = |error: sys::Error| Unsent::Other(error.to_string());
        let socket = ProbeSocket::open(SocketKind::Udp, &settings).map_err(words)?;
        socket.set_ttl(hops).map_err(words)?;
        socket.connect(to).map_err(|errno| Unsent::Other(unsent(errno, to.ip())))?;
        Ok(socket)
    }
}

impl Way for PlainWay {
    fn send(&mut self, number: u64, hops: u8, length: usize) -> Result<(), Unsent> {
        let socket = self.socket(hops)?;
        let size = length.saturating_sub(self.headers());
        build::probe_payload(&mut self.payload, number as u16, size);
        match socket.send(&self.payload, None) {
            Ok(()) => {}
            Err(Errno::MSGSIZE) => return Err(Unsent::TooLarge),
            Err(errno) => return Err(Unsent::Other(unsent(errno, self.settings.to.ip()))),
        }
        self.open.push_back((number, socket));
        if self.open.len() > MOST {
            self.open.pop_front();
        }
        Ok(())
    }

    fn take(&mut self, tell: &mut dyn FnMut(News)) -> Result<(), Error> {
        let v6 = self.settings.to.is_ipv6();
        let answer = |number: u64, kind, from, kernel, mtu| {
            News::Came(Answer {
                which: Which::Low(number as u16),
                kind,
                from,
                at: Moment { process: Instant::now(), kernel },
                mtu,
                mpls: Vec::new(),
                changes: Vec::new(),
            })
        };
        for (number, socket) in &self.open {
            for _ in 0..AT_ONCE {
                match socket.read_error_queue(&mut self.buffer).map_err(failed)? {
                    None => break,
                    Some(ErrorQueueEvent::Sent { at, .. }) => tell(News::Left(*number, at)),
                    Some(ErrorQueueEvent::Error(error)) => {
                        let (Some((kind, code)), Some(from)) = (error.icmp, error.offender) else {
                            continue;
                        };
                        if let Some(kind) = error_kind(v6, kind, code) {
                            let mtu = Some(error.info).filter(|_| kind == ReplyKind::TooBig);
                            tell(answer(*number, kind, from, error.at, mtu));
                        }
                    }
                    Some(ErrorQueueEvent::Other) => {}
                }
            }
            if let Some(received) = socket.receive(&mut self.buffer).map_err(failed)? {
                tell(answer(*number, ReplyKind::Datagram, received.from, received.at, None));
            }
        }
        Ok(())
    }

    fn sockets<'a>(&'a self, into: &mut Vec<(BorrowedFd<'a>, bool)>) {
        into.extend(self.open.iter().map(|(_, socket)| (socket.as_fd(), false)));
    }

    fn forget(&mut self, before: u64) {
        while self.open.front().is_some_and(|(number, _)| *number < before) {
            self.open.pop_front();
        }
    }

    fn is_one_flow(&self) -> bool {
        false
    }

    fn usual(&self) -> usize {
        super::LENGTH.max(self.headers() + build::MIN_PAYLOAD_BYTES)
    }

    fn known_mtu(&self) -> Option<u32> {
        self.socket(64).ok()?.path_mtu()
    }
}
