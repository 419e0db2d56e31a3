//! The inputs of the fuzz targets, as ordinary tests: `tests/fuzz/corpus` has a directory for each target.

use pleach::testing::fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// The most inputs of a target, and the most bytes of them.
const MOST: (usize, usize) = (30, 64 << 10);

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

/// The names in a directory, without their extensions.
fn names(dir: &Path) -> BTreeSet<String> {
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    fs::read_dir(dir).unwrap().map(|entry| name(entry.unwrap().path())).collect()
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(package().join("corpus").join(target)).unwrap();
    entries.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn no_input_of_a_fuzz_target_breaks_an_invariant() {
    for (target, run) in TARGETS {
        let mut inputs = inputs(target);
        inputs.push((PathBuf::from("nothing"), Vec::new()));
        for (path, input) in inputs {
            assert!(catch_unwind(|| run(&input)).is_ok(), "{target}: {}", path.display());
        }
    }
}

#[test]
fn each_fuzz_target_has_a_binary_and_a_few_short_inputs() {
    let (binaries, corpora) = (names(&package().join("targets")), names(&package().join("corpus")));
    assert_eq!(binaries, corpora);
    assert!(TARGETS.iter().all(|(target, _)| binaries.contains(*target)));
    let manifest = fs::read_to_string(package().join("Cargo.toml")).unwrap();
    for target in &binaries {
        assert!(manifest.contains(&format!("name = \"{target}\"\npath = \"targets/{target}.rs\"")), "{target}");
        let inputs = inputs(target);
        let bytes: usize = inputs.iter().map(|(_, input)| input.len()).sum();
        assert!((1..=MOST.0).contains(&inputs.len()) && bytes <= MOST.1, "{target}: {} of {bytes}", inputs.len());
    }
}

/// `cargo xtask fuzz` builds with the locked versions only.
#[test]
fn the_lock_of_the_fuzz_targets_has_all_dependencies_of_pleach() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let (manifest, lock) = (read("Cargo.toml"), read("tests/fuzz/Cargo.lock"));
    let (_, after) = manifest.split_once("\n[dependencies]\n").unwrap();
    let dependencies = after.lines().take_while(|line| !line.starts_with('['));
    let (_, own) = lock.split_once("\nname = \"pleach\"\n").unwrap();
    let locked = own.split("[[package]]").next().unwrap();
    for line in dependencies.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(' ').next().unwrap();
        // A version follows if there are several.
        let has = locked.contains(&format!("\"{name}\"")) || locked.contains(&format!("\"{name} "));
        assert!(has, "{name}: run `cargo update --workspace --manifest-path tests/fuzz/Cargo.toml`");
    }
}
