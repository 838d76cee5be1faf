//! netwhy in a terminal: a pseudo-terminal of a given width.

// No test uses all of it.
#![allow(dead_code)]

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// What netwhy printed, and its exit code.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) code: Option<i32>,
}

/// netwhy, which is ended after a minute. What sets its width or colours is not inherited.
pub(crate) fn netwhy(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", "60", env!("CARGO_BIN_EXE_netwhy")]);
    command.args(arguments).stdin(Stdio::null()).env_remove("COLUMNS").env("NO_COLOR", "1");
    command
}

/// Runs a command whose output is no terminal.
pub(crate) fn output(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("to run it")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command in a terminal of this width.
pub(crate) fn run(mut command: Command, width: u16) -> Shown {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&controller).expect("to grant it");
    unlockpt(&controller).expect("to unlock it");
    let name = ptsname(&controller, Vec::new()).expect("its name");
    let name = name.to_str().expect("its name in UTF-8");
    let size = Winsize { ws_row: 50, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = File::options().read(true).write(true).open(name).expect("the terminal");
    tcsetwinsize(&terminal, size).expect("to set its size");
    let mut child = command
        .stdout(Stdio::from(terminal.try_clone().expect("a terminal")))
        .stderr(Stdio::from(terminal.try_clone().expect("a terminal")))
        .spawn()
        .expect("to start it");
    // The command has them too, until it is dropped: then reading ends with the program.
    drop((command, terminal));
    let (send, bytes) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut file, mut all) = (File::from(controller), Vec::new());
        // The end of a pseudo-terminal is an error (EIO).
        let _ = file.read_to_end(&mut all);
        let _ = send.send(all);
    });
    let code = child.wait().expect("to wait").code();
    reader.join().expect("the reader");
    let bytes = bytes.recv().expect("what it printed");
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    Shown { text: without_progress(&text), code }
}

/// The text without lines that were drawn over.
fn without_progress(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let last = line.rsplit('\r').next().unwrap_or_default();
        last.rsplit("\x1b[2K").next().unwrap_or_default().trim_start_matches("\x1b[H\x1b[2J")
    });
    lines.collect::<Vec<_>>().join("\n")
}
