//! Capture filters in tcpdump's language, compiled by libpcap to classic BPF.
//!
//! The program runs in the kernel; or here, packet by packet, where the kernel's view of a packet
//! differs from that of a capture file.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::ptr::NonNull;

use wire::capture::LinkType;

mod error_position;

/// Longest filter: some 400 addresses, which libpcap compiles in half a second. Its time grows with
/// more than the square of the length.
pub const MAX_FILTER_BYTES: usize = 8 << 10;
/// Longest filter that is optimised, which takes longer still: 0.4 s for 200 addresses.
const MAX_OPTIMISED_BYTES: usize = 4 << 10;
/// Longest program that a kernel accepts (`BPF_MAXINSNS`).
const MAX_KERNEL_INSTRUCTIONS: usize = 4096;

/// One instruction of classic BPF: `struct sock_filter`, `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub if_true: u8,
    /// Instructions to skip when it does not.
    pub if_false: u8,
    /// A constant, or an offset.
    pub operand: u32,
}

/// Why a filter does not compile: libpcap's message, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the filter «{filter}» does not compile: {reason}{}", word.as_deref().map(|word| format!(", at «{word}»")).unwrap_or_default())]
pub struct FilterError {
    /// The filter.
    pub filter: String,
    /// What is wrong with it.
    pub reason: String,
    /// The first word that cannot stand where it stands, if there is one.
    pub word: Option<String>,
}

impl FilterError {
    /// Whether it is a syntax error, for any link type.
    pub fn is_syntax(&self) -> bool {
        self.reason.contains("syntax error")
    }
}

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct Filter {
    /// For packets as capture files have them.
    program: Vec<Instruction>,
    /// For packets as the kernel has them; `None`: the kernel cannot decide.
    kernel_program: Option<Vec<Instruction>>,
}

impl Filter {
    /// Compiles a filter for packets of a link type; the empty filter accepts all. Packets are cut to
    /// `snap_length` bytes.
    ///
    /// The language is that of pcap-filter(7). The system's resolver looks up names of hosts.
    ///
    /// # Errors
    ///
    /// A syntax error, or a filter that means nothing for this link type.
    pub fn compile(text: &str, link: LinkType, snap_length: u32) -> Result<Filter, FilterError> {
        let program = compile(text, link, snap_length).map_err(|reason| {
            let error = FilterError { filter: text.to_string(), reason, word: None };
            if !error.is_syntax() {
                return error;
            }
            let compiles = |text: &str| compile(text, link, snap_length).is_ok();
            let word = error_position::first_impossible_word(text, compiles);
            FilterError { word, ..error }
        })?;
        let kernel = if names_vlan(text) {
            // The kernel stores the outermost tag apart from the packet.
            None
        } else if link == LinkType::LINUX_SLL2 {
            for_packets_without_cooked_header(&program)
        } else {
            Some(program.clone())
        };
        let kernel = kernel.filter(|program| program.len() <= MAX_KERNEL_INSTRUCTIONS);
        if kernel.is_none() && program.iter().any(|one| one.reads_packet() && one.reads_ancillary())
        {
            let reason = "inbound, outbound and ifindex cannot be combined with vlan, nor with \
                          fields of cooked packets that the kernel does not have";
            let (filter, reason) = (text.to_string(), reason.to_string());
            return Err(FilterError { filter, reason, word: None });
        }
        Ok(Filter { program, kernel_program: kernel })
    }

    /// The program for the kernel. `None` when only [`Filter::matches`] can decide: the filter names
    /// VLANs, or bytes of the cooked header that the kernel does not have.
    pub fn kernel_program(&self) -> Option<&[Instruction]> {
        self.kernel_program.as_deref()
    }

    /// Whether a packet matches, in the form that a capture file has. `length` is its length in bytes
    /// before it was cut.
    #[allow(unsafe_code)]
    pub fn matches(&self, bytes: &[u8], length: u32) -> bool {
        let captured = c_uint::try_from(bytes.len()).unwrap_or(c_uint::MAX);
        // SAFETY: libpcap's compiler made the program: it ends with a return, jumps forward only,
        // and reads scratch memory within its bounds. Reads of the packet are checked against
        // `captured`, which is at most the length of `bytes`.
        unsafe { bpf_filter(self.program.as_ptr(), bytes.as_ptr(), length, captured) != 0 }
    }
}

/// Classic BPF: class, mode, and the modes that read the packet.
const CLASS: u16 = 0x07;
const MODE: u16 = 0xe0;
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const ABSOLUTE: u16 = 0x20;
const INDIRECT: u16 = 0x40;
const HEADER_LENGTH: u16 = 0xa0;
/// Offsets from here on are not in the packet, but in the kernel's ancillary data (`SKF_AD_OFF`).
const ANCILLARY_OFFSET: u32 = libc::SKF_AD_OFF as u32;

impl Instruction {
    fn reads_packet(self) -> bool {
        matches!(self.code & CLASS, LOAD | LOAD_INDEX)
            && matches!(self.code & MODE, ABSOLUTE | INDIRECT | HEADER_LENGTH)
    }

    /// Whether it reads the kernel's ancillary data.
    fn reads_ancillary(self) -> bool {
        self.operand >= ANCILLARY_OFFSET
    }
}

/// Bytes of the cooked header, version 2 (LINUX_SLL2).
const COOKED_HEADER_BYTES: u32 = 20;

/// The program for packets that have no cooked header yet: its fields are read from the kernel's
/// ancillary data. `None` when the program reads a field that is not there.
fn for_packets_without_cooked_header(program: &[Instruction]) -> Option<Vec<Instruction>> {
    let moved = |one: &Instruction| {
        let mut one = *one;
        if one.reads_packet() && !one.reads_ancillary() {
            one.operand = match (one.operand, one.code & MODE) {
                (COOKED_HEADER_BYTES.., _) => one.operand - COOKED_HEADER_BYTES,
                (0, ABSOLUTE) => ANCILLARY_OFFSET + libc::SKF_AD_PROTOCOL as u32,
                (4, ABSOLUTE) => ANCILLARY_OFFSET + libc::SKF_AD_IFINDEX as u32,
                (8, ABSOLUTE) => ANCILLARY_OFFSET + libc::SKF_AD_HATYPE as u32,
                (10, ABSOLUTE) => ANCILLARY_OFFSET + libc::SKF_AD_PKTTYPE as u32,
                _ => return None,
            };
        }
        Some(one)
    };
    program.iter().map(moved).collect()
}

/// Whether a filter has the word `vlan`.
fn names_vlan(text: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.split(|c| !part(c)).any(|word| word == "vlan")
}

/// libpcap's number of a link type: that of capture files, with one exception.
fn libpcap_number(link: LinkType) -> c_int {
    match link {
        LinkType::RAW => 12,
        LinkType(number) => c_int::from(number),
    }
}

fn compile(text: &str, link: LinkType, snap_length: u32) -> Result<Vec<Instruction>, String> {
    if text.len() > MAX_FILTER_BYTES {
        return Err(format!(
            "it is longer than {MAX_FILTER_BYTES} bytes; a network (net 198.18.0.0/15) covers many addresses"
        ));
    }
    let text = CString::new(text).map_err(|_| "it contains a zero byte".to_string())?;
    let snap_length = c_int::try_from(snap_length).unwrap_or(c_int::MAX);
    let compiler = Compiler::new(libpcap_number(link), snap_length).ok_or("out of memory")?;
    compiler.compile(&text, text.count_bytes() <= MAX_OPTIMISED_BYTES)
}

/// libpcap's compiler, without a capture behind it.
struct Compiler(NonNull<Handle>);

/// `pcap_t`.
#[repr(C)]
struct Handle {
    _private: [u8; 0],
}

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    length: c_uint,
    instructions: *mut Instruction,
}

// SAFETY: as in pcap/pcap.h and pcap/bpf.h of libpcap 1.x, whose interface is stable.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn pcap_open_dead(link: c_int, snap_length: c_int) -> *mut Handle;
    fn pcap_close(handle: *mut Handle);
    fn pcap_compile(
        handle: *mut Handle,
        program: *mut Program,
        text: *const c_char,
        optimize: c_int,
        netmask: u32,
    ) -> c_int;
    fn pcap_freecode(program: *mut Program);
    fn pcap_geterr(handle: *mut Handle) -> *mut c_char;
    fn bpf_filter(
        program: *const Instruction,
        packet: *const u8,
        length: c_uint,
        captured: c_uint,
    ) -> c_uint;
}

impl Compiler {
    #[allow(unsafe_code)]
    fn new(link: c_int, snap_length: c_int) -> Option<Self> {
        // SAFETY: any two numbers are allowed; it returns a new handle, or null.
        NonNull::new(unsafe { pcap_open_dead(link, snap_length) }).map(Compiler)
    }

    #[allow(unsafe_code)]
    fn compile(&self, text: &CStr, optimise: bool) -> Result<Vec<Instruction>, String> {
        /// `PCAP_NETMASK_UNKNOWN`.
        const UNKNOWN: u32 = u32::MAX;
        let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
        // SAFETY: the handle is open, the text ends with a zero, and `program` outlives the call.
        let failed = unsafe {
            let (handle, optimise) = (self.0.as_ptr(), c_int::from(optimise));
            pcap_compile(handle, &raw mut program, text.as_ptr(), optimise, UNKNOWN) != 0
        };
        if failed {
            // SAFETY: the handle is open and owns its error message, which ends with a zero; the message
            // is copied before the handle is used again.
            let message = unsafe { CStr::from_ptr(pcap_geterr(self.0.as_ptr())) };
            return Err(message.to_string_lossy().into_owned());
        }
        // SAFETY: a call that succeeded leaves `length` instructions there, with the layout of ours.
        // They are copied before they are freed, once.
        let instructions = unsafe {
            let compiled =
                std::slice::from_raw_parts(program.instructions, program.length as usize).to_vec();
            pcap_freecode(&raw mut program);
            compiled
        };
        Ok(instructions)
    }
}

impl Drop for Compiler {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used after this.
        unsafe { pcap_close(self.0.as_ptr()) }
    }
}

/// Functions of libpcap's table of capture sources that no filter needs: D-Bus and RDMA. They are
/// here so that the linker uses them instead of libpcap's own, which need more libraries.
#[allow(unsafe_code)]
mod sources {
    use std::ffi::{c_char, c_int};

    use super::Handle;

    macro_rules! none {
        ($find:ident, $create:ident) => {
            // SAFETY: nothing else has this name: of two definitions the linker uses the first.
            #[unsafe(no_mangle)]
            extern "C" fn $find(_list: *mut u8, _error: *mut c_char) -> c_int {
                0
            }
            // SAFETY: as above. Null with `is_mine` 0: not a source of this kind.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $create(
                _device: *const c_char,
                _error: *mut c_char,
                is_mine: *mut c_int,
            ) -> *mut Handle {
                // SAFETY: libpcap passes a pointer for the answer; none of its callers is reached.
                if let Some(is_mine) = unsafe { is_mine.as_mut() } {
                    *is_mine = 0;
                }
                std::ptr::null_mut()
            }
        };
    }

    none!(dbus_findalldevs, dbus_create);
    none!(rdmasniff_findalldevs, rdmasniff_create);
}

#[cfg(test)]
mod tests;
