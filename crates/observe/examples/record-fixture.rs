//! Records this machine into a folder during a short window: `tools/record-fixture` makes the fixture
//! host of the tests with it.

use std::time::Duration;

use observe::Window;
use sys::real::RealMachine;
use sys::replay::Recorder;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let recorder = Recorder::new(RealMachine::new(), folder)?;
    let mut window = Window::begin(&recorder, &model::Focus::default(), None);
    while window.elapsed() < Duration::from_millis(600) {
        window.step();
    }
    window.end(false);
    recorder.finish()
}
