//! The memory of this process: how much each thread holds, and what happens when there is no more.
//!
//! Stable Rust aborts where an allocation fails. This allocator says so in one line and ends the process
//! as any other error does, so that a script sees an exit code and not a signal.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that gets no memory: that of a source that cannot be read.
const EXIT_CODE: i32 = 3;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated, less those that it has freed; 0 where [`Allocator`] is not the
/// global allocator. Memory that one thread allocates and another frees makes it negative there.
#[inline]
pub fn bytes_of_this_thread() -> isize {
    HELD.get()
}

/// The system's allocator, with a count for each thread and an error of one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

#[inline]
fn count(bytes: isize) {
    HELD.set(HELD.get().wrapping_add(bytes));
}

// SAFETY: every call goes to the system's allocator as it is. A count is a cell of the thread, without a
// destructor: it allocates nothing and can be reached as long as the thread runs.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            out_of_memory(layout.size());
        }
        count(layout.size() as isize);
        memory
    }

    // SAFETY: the caller keeps what `GlobalAlloc` asks for.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() {
            out_of_memory(layout.size());
        }
        count(layout.size() as isize);
        memory
    }

    // SAFETY: the caller keeps what `GlobalAlloc` asks for.
    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.dealloc(memory, layout) };
        count(-(layout.size() as isize));
    }

    // SAFETY: the caller keeps what `GlobalAlloc` asks for.
    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator.
        let new = unsafe { System.realloc(memory, layout, size) };
        if new.is_null() {
            out_of_memory(size);
        }
        count(size as isize - layout.size() as isize);
        new
    }
}

/// Whether the system would give this much now. Nothing is kept, and the process goes on if not.
pub fn has_room_for(bytes: usize) -> bool {
    Layout::from_size_align(bytes.max(1), 1).is_ok_and(|layout| {
        // SAFETY: the size is not 0, and what was allocated is freed with the same layout.
        #[allow(unsafe_code)]
        unsafe {
            let memory = System.alloc(layout);
            if !memory.is_null() {
                System.dealloc(memory, layout);
            }
            !memory.is_null()
        }
    })
}

/// From now on, a thread that gets no memory for its signal stack ends the process in the same way: the
/// standard library panics there, before the thread begins.
pub fn report_threads_without_memory() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.contains("alternative stack") {
            end(b"the stack of a thread");
        }
        usual(panic);
    }));
}

/// Ends the process because of an allocation of this size.
#[cold]
fn out_of_memory(bytes: usize) -> ! {
    let mut digits = [0; 20];
    let mut rest = bytes;
    let mut first = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        first -= 1;
        if rest == 0 {
            break;
        }
    }
    let mut refused = [0; 32];
    let mut length = 0;
    for byte in digits.get(first..).unwrap_or_default().iter().chain(b" bytes") {
        if let Some(slot) = refused.get_mut(length) {
            *slot = *byte;
            length += 1;
        }
    }
    end(refused.get(..length).unwrap_or_default())
}

/// Ends the process, with one line, however many threads get no memory. Nothing here allocates.
#[cold]
#[allow(unsafe_code)]
fn end(refused: &[u8]) -> ! {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: it waits for a signal, or for the end of the process.
            unsafe { libc::pause() };
        }
    }
    let parts: [&[u8]; 3] = [
        b"netwhy: out of memory: the system refused ",
        refused,
        b"; raise the limit (ulimit -v, a cgroup's memory.max), or close other programs\n",
    ];
    let mut line = [0; 192];
    let mut length = 0;
    for byte in parts.into_iter().flatten() {
        if let Some(slot) = line.get_mut(length) {
            *slot = *byte;
            length += 1;
        }
    }
    // SAFETY: the bytes are those of a local array. Both calls are safe at any time; threads and
    // destructors do not matter any more.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        libc::_exit(EXIT_CODE)
    }
}
