//! What `make install` installs, and the version that the build names.

use std::path::Path;
use std::process::Command;

use terminal::{netwhy, output, text};

#[path = "command_line/terminal.rs"]
mod terminal;

#[test]
fn the_version_names_commit_target_and_features() {
    let version = env!("CARGO_PKG_VERSION");
    let short = text(&output(netwhy(&["-V"])).stdout);
    assert_eq!(short, format!("netwhy {version}\n"));
    let long = text(&output(netwhy(&["--version"])).stdout);
    let rest = long.strip_prefix(&format!("netwhy {version} (")).expect("the version");
    let (commit, build) = rest.split_once(") ").expect("the commit");
    let is_date = |date: &str| date.len() == 10 && date.matches('-').count() == 2;
    let is_known = commit.split_once(' ').is_some_and(|(hash, date)| {
        hash.len() >= 9 && hash.chars().all(|c| c.is_ascii_hexdigit()) && is_date(date)
    });
    assert!(is_known || commit == "commit unknown", "{long}");
    let (target, features) = build.trim_end().split_once(", features: ").expect("features");
    assert!(target.contains("-linux-"), "{long}");
    assert_eq!(features, if cfg!(feature = "parquet") { "parquet" } else { "none" });
}

/// The files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(folder).expect("below it").to_path_buf();
                all.push(path.to_str().expect("a name").to_string());
            }
        }
    }
    all.sort();
    all
}

#[test]
fn make_install_installs_pages_and_completions_and_uninstall_removes_them() {
    if !test_support::are_installed(&["make", "bash"]) {
        let programs = ["make", "bash"].map(str::to_string).into();
        return test_support::skip(&test_support::Reason::MissingPrograms(programs));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.arg("-C").arg(&root).args(["-s", target, "PREFIX=/usr"]);
        make.arg(format!("DESTDIR={}", folder.path().display()));
        make.arg(concat!("BINARY=", env!("CARGO_BIN_EXE_netwhy")));
        // This runs in a build, whose make must not be asked for jobs.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        let ran = output(make);
        assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    };
    make("install");
    let installed = files(folder.path());
    for file in [
        "usr/bin/netwhy",
        "usr/share/bash-completion/completions/netwhy",
        "usr/share/zsh/site-functions/_netwhy",
        "usr/share/fish/vendor_completions.d/netwhy.fish",
        "usr/share/man/man1/netwhy.1",
        "usr/share/man/man1/netwhy-lab-run.1",
    ] {
        assert!(installed.iter().any(|one| one == file), "no {file} in {installed:#?}");
    }
    // A page for each command, with what pages have.
    let share = folder.path().join("usr/share");
    let help = text(&output(netwhy(&["--help"])).stdout);
    let commands = help.split("Commands:\n").nth(1).expect("commands").split("\n\n").next();
    for line in commands.expect("commands").lines().filter(|line| !line.starts_with("   ")) {
        let command = line.split_whitespace().next().expect("a command");
        if command == "help" {
            continue;
        }
        let page = share.join(format!("man/man1/netwhy-{command}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("no {page:?}"));
        for heading in
            ["NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "\"EXIT STATUS\"", "\"SEE ALSO\""]
        {
            assert!(page.contains(&format!(".SH {heading}\n")), "{command} has no {heading}");
        }
        assert!(page.is_ascii() && !page.contains("generate"), "{command}");
    }
    if test_support::are_installed(&["groff"]) {
        for page in files(&share.join("man/man1")) {
            let mut groff = Command::new("groff");
            groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(share.join("man/man1").join(&page));
            assert_eq!(text(&output(groff).stderr), "", "{page}");
        }
    }
    // The completion of a command and of a cause, as bash asks for it.
    let script = "source \"$1\"; complete -p netwhy; \
                  COMP_WORDS=(netwhy explain accept); COMP_CWORD=2; \
                  _netwhy netwhy accept explain; echo \"${COMPREPLY[*]}\"; \
                  COMP_WORDS=(netwhy so); COMP_CWORD=1; _netwhy netwhy so netwhy; \
                  echo \"${COMPREPLY[*]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]);
    bash.arg(share.join("bash-completion/completions/netwhy"));
    let ran = output(bash);
    let shown = text(&ran.stdout);
    assert!(shown.contains("-F _netwhy") && shown.contains("accept-queue-overflow"), "{ran:?}");
    assert!(shown.ends_with("sockets\n"), "{ran:?}");
    for file in ["zsh/site-functions/_netwhy", "fish/vendor_completions.d/netwhy.fish"] {
        let completions = std::fs::read_to_string(share.join(file)).expect("completions");
        assert!(completions.contains("accept-queue-overflow"), "{file}");
        assert!(!completions.contains("generate"), "{file}");
    }
    make("uninstall");
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn the_commit_is_known_in_a_checkout_and_unknown_in_an_archive() {
    if !test_support::are_installed(&["git"]) {
        let programs = vec!["git".to_string()];
        return test_support::skip(&test_support::Reason::MissingPrograms(programs));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("build-script");
    // The one that compiled this: under sudo it may not be in PATH.
    let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
    rustc.args(["--edition=2024", concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"), "-o"]);
    let compiled = output({
        rustc.arg(&script);
        rustc
    });
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    let git = |at: &Path, line: &str| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-C"]).arg(at);
        git.args(line.split(' ')).env_remove("GIT_DIR").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let ran = output(git);
        assert!(ran.status.success(), "git {line}: {}", text(&ran.stderr));
        text(&ran.stdout).trim().to_string()
    };
    let build = |root: &Path, path: &str| {
        let manifest = root.join("crates/netwhy");
        std::fs::create_dir_all(&manifest).expect("a folder");
        let mut build = Command::new(&script);
        build.env_clear().env("PATH", path).env("CARGO_MANIFEST_DIR", &manifest);
        build.env("CARGO_PKG_VERSION", "1.2.3").env("TARGET", "x86_64-unknown-linux-musl");
        text(&output(build).stdout)
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let checkout = folder.path().join("checkout");
    std::fs::create_dir_all(&checkout).expect("a folder");
    git(&checkout, "init -q -b main");
    git(&checkout, "commit -q --allow-empty -m one");
    let version = |at: &Path| {
        let (hash, date) =
            (git(at, "rev-parse --short=9 HEAD"), git(at, "show -s --format=%cs HEAD"));
        format!("=1.2.3 ({hash} {date}) x86_64-unknown-linux-musl, features: none\n")
    };
    let watched = |printed: &str| {
        let files =
            printed.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
        let files: Vec<String> = files.skip(1).map(str::to_string).collect();
        assert!(files.iter().all(|file| Path::new(file).exists()), "{files:?}");
        files
    };
    let loose = build(&checkout, &path);
    assert!(loose.contains(&version(&checkout)), "{loose}");
    assert!(watched(&loose).iter().any(|file| file.ends_with("refs/heads/main")), "{loose}");
    git(&checkout, "pack-refs --all");
    let packed = build(&checkout, &path);
    assert!(packed.contains(&version(&checkout)), "{packed}");
    assert!(watched(&packed).iter().any(|file| file.ends_with("packed-refs")), "{packed}");
    // What a commit changes is watched.
    let before = std::fs::read(checkout.join(".git/logs/HEAD")).expect("the log");
    git(&checkout, "commit -q --allow-empty -m two");
    assert_ne!(std::fs::read(checkout.join(".git/logs/HEAD")).expect("the log"), before);
    assert!(watched(&packed).iter().any(|file| file.ends_with("logs/HEAD")), "{packed}");
    git(&checkout, "worktree add -q --detach ../linked HEAD~1");
    let linked = folder.path().join("linked");
    let printed = build(&linked, &path);
    assert!(printed.contains(&version(&linked)) && version(&linked) != version(&checkout));
    assert!(watched(&printed).iter().any(|file| file.ends_with("worktrees/linked/HEAD")));

    let unknown = "=1.2.3 (commit unknown) x86_64-unknown-linux-musl, features: none\n";
    let archive = checkout.join("vendor/netwhy");
    for (root, path) in [(&archive, path.as_str()), (&checkout, "/nowhere")] {
        let printed = build(root, path);
        assert!(printed.contains(unknown), "{printed}");
    }
}
