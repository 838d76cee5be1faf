//! Capture filters in tcpdump's language, compiled by libpcap to classic BPF: for the kernel, or
//! to be asked packet by packet where the kernel sees a packet otherwise than a file has it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::ptr::NonNull;

use wire::capture::LinkType;

mod error_position;

/// Most bytes of a filter: some 400 addresses, for which libpcap takes half a second. Its time grows
/// with more than the square of the length.
pub const MAX_FILTER_BYTES: usize = 8 << 10;
/// Most bytes of a filter that is optimised, which takes longer still: 0.4 s for 200 addresses.
const MAX_OPTIMISED_BYTES: usize = 4 << 10;
/// Most instructions that a kernel takes (`BPF_MAXINSNS`).
const MAX_KERNEL_INSTRUCTIONS: usize = 4096;

/// One instruction of classic BPF: `struct sock_filter`, `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to leap over when a comparison holds.
    pub if_true: u8,
    /// How many when it does not.
    pub if_false: u8,
    /// A constant, or an offset.
    pub operand: u32,
}

/// Why a filter is not taken: what libpcap says, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the filter «{filter}» does not compile: {reason}{}", word.as_deref().map(|word| format!(", at «{word}»")).unwrap_or_default())]
pub struct FilterError {
    /// The filter.
    pub filter: String,
    /// What is wrong.
    pub reason: String,
    /// The word at which nothing that could follow would make it right, where that is known.
    pub word: Option<String>,
}

impl FilterError {
    /// Whether it is not in the language at all, for whatever link type.
    pub fn is_syntax(&self) -> bool {
        self.reason.contains("syntax error")
    }
}

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct Filter {
    /// For packets as files have them.
    program: Vec<Instruction>,
    /// For packets as the kernel has them; `None`: it cannot tell.
    kernel_program: Option<Vec<Instruction>>,
}

impl Filter {
    /// Compiles a filter for packets of a link type; the empty one takes all. Packets are cut to
    /// `snap_length` bytes.
    ///
    /// The words are those of `man pcap-filter`. Names of hosts are looked up by the system.
    ///
    /// # Errors
    ///
    /// It is not in that language, or means nothing for this link type.
    pub fn compile(text: &str, link: LinkType, snap_length: u32) -> Result<Filter, FilterError> {
        let refused =
            |what: String| FilterError { filter: text.to_string(), reason: what, word: None };
        let program = match compile(text, link, snap_length) {
            Ok(program) => program,
            Err(what) => {
                let at = what
                    .contains("syntax error")
                    .then(|| {
                        error_position::first_impossible_word(text, |text| {
                            compile(text, link, snap_length).is_ok()
                        })
                    })
                    .flatten();
                return Err(FilterError { word: at, ..refused(what) });
            }
        };
        let kernel = if names_vlan(text) {
            // The kernel keeps the outermost tag beside the packet.
            None
        } else if link == LinkType::LINUX_SLL2 {
            for_packets_without_cooked_header(&program)
        } else {
            Some(program.clone())
        };
        let kernel = kernel.filter(|program| program.len() <= MAX_KERNEL_INSTRUCTIONS);
        if kernel.is_none() && program.iter().any(|one| one.reads_packet() && one.reads_ancillary())
        {
            let what = "inbound, outbound and ifindex cannot stand beside vlan, nor beside what \
                        the kernel cannot see of cooked packets";
            return Err(refused(what.to_string()));
        }
        Ok(Filter { program, kernel_program: kernel })
    }

    /// The program for the kernel. `None` when only [`Filter::matches`] can tell: the filter speaks
    /// of VLANs, or of bytes of the cooked header that the kernel has elsewhere.
    pub fn kernel_program(&self) -> Option<&[Instruction]> {
        self.kernel_program.as_deref()
    }

    /// Whether a packet passes, as a file has it: `length` is that before it was cut, bytes.
    #[allow(unsafe_code)]
    pub fn matches(&self, bytes: &[u8], length: u32) -> bool {
        let here = c_uint::try_from(bytes.len()).unwrap_or(c_uint::MAX);
        // SAFETY: libpcap's compiler made the program: it ends with a return, jumps forward only,
        // and reads scratch memory within its bounds. Reads of the packet are held against `here`,
        // which is not more than the bytes that there are.
        unsafe { bpf_filter(self.program.as_ptr(), bytes.as_ptr(), length, here) != 0 }
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
/// Offsets from here on are not of the packet, but of what the kernel knows of it (`SKF_AD_OFF`).
const ANCILLARY_OFFSET: u32 = libc::SKF_AD_OFF as u32;

impl Instruction {
    fn reads_packet(self) -> bool {
        matches!(self.code & CLASS, LOAD | LOAD_INDEX)
            && matches!(self.code & MODE, ABSOLUTE | INDIRECT | HEADER_LENGTH)
    }

    /// Whether it reads what the kernel keeps beside the packet.
    fn reads_ancillary(self) -> bool {
        self.operand >= ANCILLARY_OFFSET
    }
}

/// Bytes of the cooked header, version 2.
const COOKED_HEADER_BYTES: u32 = 20;

/// The program for packets that do not have their cooked header yet: what it says is read where
/// the kernel has it. `None` when a part of it is read that the kernel does not give.
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

/// The number that libpcap has for a link type: that of files, but for one.
fn libpcap_number(link: LinkType) -> c_int {
    match link {
        LinkType::RAW => 12,
        LinkType(number) => c_int::from(number),
    }
}

fn compile(text: &str, link: LinkType, snap_length: u32) -> Result<Vec<Instruction>, String> {
    if text.len() > MAX_FILTER_BYTES {
        return Err(format!(
            "it is longer than {MAX_FILTER_BYTES} bytes; a net holds many addresses"
        ));
    }
    let text = CString::new(text).map_err(|_| "it has a zero byte".to_string())?;
    let snap_length = c_int::try_from(snap_length).unwrap_or(c_int::MAX);
    let compiler =
        Compiler::new(libpcap_number(link), snap_length).ok_or("there is no memory for it")?;
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

// SAFETY: as in pcap/pcap.h and pcap/bpf.h of libpcap 1.x, whose interface does not change.
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
        // SAFETY: any two numbers are allowed; it gives a handle of its own, or null.
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
            // SAFETY: the handle is open, and its error is a text of its own that ends with a zero;
            // it is copied before the handle is used again.
            let what = unsafe { CStr::from_ptr(pcap_geterr(self.0.as_ptr())) };
            return Err(what.to_string_lossy().into_owned());
        }
        // SAFETY: a call that succeeded leaves so many instructions there, laid out as ours, which
        // are copied before they are freed, once.
        let instructions = unsafe {
            let made = std::slice::from_raw_parts(program.instructions, program.length as usize);
            let copied = made.to_vec();
            pcap_freecode(&raw mut program);
            copied
        };
        Ok(instructions)
    }
}

impl Drop for Compiler {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nobody has it after this.
        unsafe { pcap_close(self.0.as_ptr()) }
    }
}

/// What libpcap's table of sources names and no filter needs: D-Bus and RDMA. They stand here so
/// that the linker takes them in place of libpcap's own, which would want more libraries.
#[allow(unsafe_code)]
mod sources {
    use std::ffi::{c_char, c_int};

    use super::Handle;

    macro_rules! none {
        ($find:ident, $create:ident) => {
            // SAFETY: nothing else has this name: of two libraries' the linker takes the first.
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
                // SAFETY: libpcap passes a place for the answer; none of its callers is reached.
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
