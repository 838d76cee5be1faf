//! Streams of real captures: every packet is compared with what tshark says of it, and some with what
//! is known of them.

mod captures;
mod classes;
mod compare;
mod facts;
mod frame;
mod known;
mod tshark;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use classes::CLASSES;
use compare::{Compared, Totals, compare};

/// Compares all captures in which `streams` finds a segment, with NETWHY_ORACLE all others too; two at
/// a time, as tshark takes most of the time.
fn all(captures: Vec<PathBuf>) -> Vec<Compared> {
    let whole = std::env::var_os("NETWHY_ORACLE").is_some();
    let (captures, done) = (Mutex::new(captures.into_iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(path) = captures.lock().expect("sound").next() else { return };
            let read = captures::read(&path);
            if read.has_segments() || whole {
                let compared = compare(&path, &read, &tshark::frames(&path));
                done.lock().expect("sound").push(compared);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    done.into_inner().expect("sound")
}

fn show(all: &[Compared]) {
    let sum = |of: fn(&Totals) -> u64| all.iter().map(|one| of(&one.totals)).sum::<u64>();
    println!("{} captures, both find:", all.len());
    println!("  {} streams, {} packets", sum(|t| t.streams), sum(|t| t.packets));
    println!("  {} segments with data, {} bytes", sum(|t| t.segments), sum(|t| t.bytes));
    println!("  {} retransmitted, {} reordered", sum(|t| t.retransmitted), sum(|t| t.reordered));
    println!("  {} duplicate acknowledgements", sum(|t| t.duplicate_acks));
    println!("  {} zero windows, {} handshakes", sum(|t| t.zero_windows), sum(|t| t.handshakes));
    println!("they disagree on:");
    for (number, class) in CLASSES.iter().enumerate() {
        let of = |one: &Compared| one.classed.iter().filter(|(class, _)| *class == number).count();
        let packets: usize = all.iter().map(of).sum();
        let captures = all.iter().filter(|one| of(one) > 0).count();
        let subject = format!("{:?}", class.subject);
        println!("  {subject:13} {:50} {:7} {packets:5} in {captures:3}", class.name, class.right);
        for one in all.iter().filter(|_| std::env::var_os("NETWHY_SHOW").is_some()) {
            let mut frames = one.classed.iter().filter(|(class, _)| *class == number);
            if let Some((_, frame)) = frames.next() {
                println!("      {} frame {frame} and {} more", one.name, frames.count());
            }
        }
    }
}

#[test]
fn every_disagreement_with_tshark_has_a_reason() {
    let folders = ["labelled", "robustness", "policing"];
    let Some(captures) = folders.into_iter().map(captures::of).collect::<Option<Vec<_>>>() else {
        return;
    };
    if !test_support::are_installed(&["tshark"]) {
        return;
    }
    let mut all = all(captures.concat());
    all.sort_by(|a, b| a.name.cmp(&b.name));
    show(&all);
    for one in &all {
        for wrong in &one.wrong {
            println!("{}: {wrong}", one.name);
        }
    }
    let wrong: BTreeSet<&str> =
        all.iter().filter(|one| !one.wrong.is_empty()).map(|one| one.name.as_str()).collect();
    assert!(wrong.is_empty(), "disagreements without a reason, see above: {wrong:?}");
    assert!(all.iter().map(|one| one.totals.packets).sum::<u64>() > 1_000, "hardly any packets");
}
