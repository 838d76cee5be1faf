//! Records this machine into a folder while a short window lasts: `tools/record-fixture` makes the
//! fixture host of the tests with it.

use std::ops::ControlFlow;
use std::time::Duration;

use observe::watch::{Interrupted, watch};
use sys::real::RealMachine;
use sys::replay::Recorder;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let recorder = Recorder::new(RealMachine::new(), folder)?;
    watch(&recorder, &model::Focus::default(), None, &mut |progress| {
        if progress.elapsed >= Duration::from_millis(600) {
            ControlFlow::Break(Interrupted::No)
        } else {
            ControlFlow::Continue(())
        }
    });
    recorder.finish()
}
