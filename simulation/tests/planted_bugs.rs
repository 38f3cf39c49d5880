//! Tests that the simulation finds each planted bug, and shrinks a run that fails.
//!
//! Each bug is a patch in `planted-bugs/patches`. The test copies the workspace to `target/tmp`,
//! applies all patches there, builds the simulation once, and runs it with one bug at a time. A
//! patch that does not apply fails the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use zoolet_planted_bugs::PlantedBug;

/// The crates whose code is patched.
const PATCHED: [&str; 4] = ["server/core", "server", "client", "recipes"];

/// What the copy leaves out: build output and version control.
const NOT_COPIED: [&str; 2] = ["target", ".git"];

/// The number of seeds among which each bug must be found.
const BUG_SEEDS: &str = "0..2000";

/// The number of seeds that must pass without a bug.
const CLEAN_SEEDS: &str = "0..40";

#[test]
fn each_planted_bug_is_found() {
    for bug in PlantedBug::ALL {
        let name = format!("{bug:?}");
        let output = simulate(&["--bug", &name, "--seeds", BUG_SEEDS, "--no-shrink"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name} was not found:\n{text}");
        let report = text.lines().find(|line| line.starts_with("seed ")).unwrap_or_default();
        assert!(report.contains(" fails "), "{name}:\n{text}");
        println!("{name} is found by {report}");
    }
}

#[test]
fn a_program_of_a_user_finds_a_stale_read_and_two_holders_on_an_ensemble() {
    let bugs = [
        ("EventNotReported", "the holder reads version"),
        // Two hold it at the same time, or an earlier one believes to hold it after a later one.
        ("PingsProve", "(exclusion of \"stock\""),
    ];
    for (bug, violation) in bugs {
        let output = simulate(&["--users", "--bug", bug, "--seeds", BUG_SEEDS]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{bug} was not found:\n{text}");
        assert!(text.contains(violation), "{text}");
        // Each line of the story begins with its time.
        let story = text.lines().filter(|line| line.contains(" ms  ")).count();
        assert!(text.contains("FAULT: ") && (5..30).contains(&story), "{text}");
    }
    let output = simulate(&["--users", "--seeds", CLEAN_SEEDS]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_patched_copy_without_a_bug_chosen_is_correct() {
    let output = simulate(&["--seeds", CLEAN_SEEDS]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_failing_run_is_shrunk_and_its_command_repeats_it() {
    let output = simulate(&["--bug", "EventLostOnReconnect", "--seeds", BUG_SEEDS]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports: Vec<_> = text.lines().filter(|line| line.starts_with("seed ")).collect();
    let [whole, least] = reports[..] else { panic!("there are two reports:\n{text}") };
    let command = text.lines().last().and_then(|line| line.split_once(" -- ")).expect("a command");
    let options: Vec<_> = command.1.split(' ').collect();
    let without = options.iter().position(|option| *option == "--without").expect("is smaller");
    assert!(options[without + 1].split(',').count() > 3, "{options:?}");

    let again = simulate(&options);
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.lines().any(|line| line == least), "{least}\n{again}");
    assert_eq!(last_hash(&again), last_hash(&text));
    let seed = |report: &str| report.split(' ').nth(1).map(str::to_owned);
    assert_eq!(seed(whole), seed(least));
}

/// The hash in the last report of a text.
fn last_hash(text: &str) -> Option<&str> {
    let line = text.lines().rfind(|line| line.starts_with("its trace has the hash "))?;
    line.split([' ', ';']).nth(5)
}

/// Runs the simulation of the patched copy.
fn simulate(arguments: &[&str]) -> Output {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(build_patched_copy);
    Command::new(program).args(arguments).output().expect("the program was built")
}

/// Copies the workspace, applies the patches and builds the simulation. Returns the program.
fn build_patched_copy() -> PathBuf {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("it is there");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted-bugs");
    let copy = scratch.join("workspace");
    // Unchanged files keep their times, so that a second build is fast.
    let patched = scratch.join("patched");
    let _ = fs::remove_dir_all(&patched);
    copy_tree(&source, &patched);
    depend_on_planted_bugs(&patched);
    apply_patches(&patched);
    synchronize(&patched, &copy);

    let target = scratch.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        // As it is built for the tests, so that it runs as quickly.
        .args(["build", "--offline", "--profile=test", "-p", "zoolet-simulation", "--target-dir"])
        .arg(&target)
        .current_dir(&copy)
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug").join(format!("zoolet-sim{}", std::env::consts::EXE_SUFFIX))
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target directory can be written to");
    for entry in fs::read_dir(from).expect("the workspace can be read") {
        let entry = entry.expect("the workspace can be read");
        let name = entry.file_name();
        let (from, to) = (entry.path(), to.join(&name));
        if NOT_COPIED.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if entry.file_type().expect("a file has a type").is_dir() {
            copy_tree(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        }
    }
}

/// Lets the patched crates depend on the crate that chooses the bug.
fn depend_on_planted_bugs(workspace: &Path) {
    const HEADING: &str = "\n[dependencies]\n";
    for package in PATCHED {
        let manifest = workspace.join(package).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("a package has a manifest");
        assert_eq!(text.matches(HEADING).count(), 1, "{}", manifest.display());
        let text =
            text.replace(HEADING, &format!("{HEADING}zoolet-planted-bugs.workspace = true\n"));
        fs::write(&manifest, text).expect("the copy can be written to");
    }
}

fn apply_patches(workspace: &Path) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("planted-bugs/patches");
    for bug in PlantedBug::ALL {
        let patch = directory.join(format!("{bug:?}.patch"));
        let applied = Command::new("git")
            .args(["apply", "--whitespace=nowarn", "-C1"])
            .arg(&patch)
            .current_dir(workspace)
            // The copy is inside a repository; the paths of the patches are relative to the copy.
            .env("GIT_CEILING_DIRECTORIES", workspace.parent().expect("it has a parent"))
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .output()
            .expect("the patches are applied by git, which must be installed");
        let error = String::from_utf8_lossy(&applied.stderr);
        assert!(applied.status.success(), "{} does not apply: {error}", patch.display());
    }
}

/// Makes `to` equal to `from`, without touching files that are already equal.
fn synchronize(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target directory can be written to");
    let names = |directory: &Path| -> Vec<_> {
        let entries = fs::read_dir(directory).expect("the copy can be read");
        entries.map(|entry| entry.expect("the copy can be read").file_name()).collect()
    };
    for name in names(to) {
        let (source, stale) = (from.join(&name), to.join(&name));
        // A file may have become a directory.
        if source.exists() && source.is_dir() == stale.is_dir() {
            continue;
        }
        // cargo writes the lock file of the copy.
        let _ = if stale.is_dir() { fs::remove_dir_all(&stale) } else { fs::remove_file(&stale) };
    }
    for name in names(from) {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            synchronize(&source, &target);
            continue;
        }
        let bytes = fs::read(&source).expect("the copy can be read");
        if name != "Cargo.lock" && fs::read(&target).is_ok_and(|old| old == bytes) {
            continue;
        }
        fs::write(&target, bytes).expect("the copy can be written to");
    }
}
