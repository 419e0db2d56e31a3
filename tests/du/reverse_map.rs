//! An XFS with a reverse map: the same figures as from the extents of each file, without opening a file.

use super::*;
use crate::harness::own::Own;
use pleach::error::ErrorKind;
use pleach::monitor::{Amount, Monitor};
use pleach::usage::{Options, measure};
use std::sync::atomic::{AtomicBool, Ordering};

/// Empty files that make a filesystem so large that a sweep over its reverse map would not pay for a small set.
const MANY: u64 = 2000;

fn new(test: &str) -> Option<Own> {
    Own::new(Kind::Xfs, test, 1024, &["-m", "rmapbt=1,reflink=1"], "")
}

#[test]
fn figures_are_those_of_the_extents_of_each_file_to_the_block() {
    let Some(fs) = new(concat!(module_path!(), "::figures_are_those_of_the_extents_of_each_file_to_the_block")) else {
        return;
    };
    let (tree, outside) = (fs.join("tree"), fs.join("outside"));
    [&tree, &outside].into_iter().for_each(|dir| fs::create_dir(dir).expect("a directory can be made"));
    hard_shapes(&tree, &outside);
    let (dir, file, part) = (tree.join("dir"), tree.join("whole"), tree.join("shared-in-the-middle"));
    let sets: [&[&Path]; 6] =
        [&[&tree], &[&outside], &[&tree, &outside], &[&tree, &dir, &file, &tree], &[&file], &[&part, &outside]];
    let from_the_map = sets.map(du);
    assert_eq!(opened(&fs, sets[3]), 0, "everything is read from the reverse map");
    for (set, found) in sets.iter().zip(&from_the_map) {
        let run = finish(&mut unprivileged(set)).expect(0);
        let mut rows = run.json();
        let summary = rows.pop().expect("there is a summary");
        assert_eq!(found.rows, rows, "{set:?}");
        for field in ["files", "apparent_bytes", "disk_bytes", "exclusive_bytes", "shared_bytes", "references"] {
            let field = format!("set_{field}");
            assert_eq!(found.summary[&field], summary[&field], "{field} of {set:?}");
        }
        let [freed, undecided] = ["set_freed_bytes", "set_undecided_bytes"].map(|field| number(&summary, field));
        let exact = number(&found.summary, "set_freed_bytes") - number(&found.summary, "set_freed_inode_bytes");
        assert!((freed..=freed + undecided + (64 << 10)).contains(&exact), "{set:?}: {summary} {}", found.summary);
    }
    // Now the same files are few of many, so they are opened by their numbers.
    many_files(&fs);
    for (set, found) in sets.iter().zip(&from_the_map) {
        let again = du(set);
        assert_eq!(again.rows, found.rows, "{set:?}");
        assert_eq!(without_seconds(&again.summary), without_seconds(&found.summary), "{set:?}");
        assert!(opened(&fs, set) > 0, "files are mapped by their numbers");
    }
}

#[test]
fn deleting_any_of_the_hardest_files_frees_what_du_said() {
    let test = concat!(module_path!(), "::deleting_any_of_the_hardest_files_frees_what_du_said");
    for is_one_of_many in [false, true] {
        let Some(mut fs) = new(test) else { return };
        let (tree, outside) = (fs.join("tree"), fs.join("outside"));
        [&tree, &outside].into_iter().for_each(|dir| fs::create_dir(dir).expect("a directory can be made"));
        hard_shapes(&tree, &outside);
        if is_one_of_many {
            many_files(&fs);
        }
        for set in [tree.join("dir"), tree] {
            let before = fs.used();
            let said = du(&[&set]).summary;
            fs::remove_dir_all(&set).expect("a tree can be deleted");
            let freed = before - fs.used();
            // A file of many extents may change the size of XFS's own trees.
            let most = if said["set_freed_is"] == "exact" { 0 } else { 64 << 10 };
            assert!(freed.abs_diff(number(&said, "set_freed_bytes")) <= most, "{freed} {said}");
        }
        fs.assert_clean();
    }
}

#[test]
fn no_file_is_opened_or_looked_at() {
    let Some(fs) = new(concat!(module_path!(), "::no_file_is_opened_or_looked_at")) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    for number in 0..200 {
        write(tree.join(format!("file {number}")), &bytes(number, 5000));
        clone(&tree.join(format!("file {number}")), &tree.join(format!("file {number} again")));
    }
    let args = ["du".as_ref(), tree.as_os_str()];
    let calls = tools::traced_calls("%file,ioctl,%desc,open_by_handle_at", &args, &fs.join("log"));
    let is_of_a_file = |call: &&String| call.contains("\"file ") || call.contains("tree/file");
    let touched: Vec<_> = calls.iter().filter(is_of_a_file).collect();
    assert!(touched.is_empty(), "{touched:?}");
    // One, to find out whether files may be opened by their numbers.
    assert_eq!(calls.iter().filter(|call| call.starts_with("open_by_handle_at")).count(), 1, "{calls:?}");
    assert!(calls.iter().filter(|call| call.starts_with("ioctl")).count() < 60, "{calls:?}");
    assert_eq!(number(&du(&[&tree]).rows[0], "exclusive_bytes") >> 16, 0, "only the directory");
}

#[test]
fn a_few_files_of_many_cost_no_look_at_the_others() {
    let Some(fs) = new(concat!(module_path!(), "::a_few_files_of_many_cost_no_look_at_the_others")) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    write(tree.join("own"), &bytes(1, 2 * MIB));
    clone(&tree.join("own"), &tree.join("own again"));
    write(fs.join("held"), &bytes(2, MIB));
    clone(&fs.join("held"), &tree.join("held"));
    clone(&fs.join("held"), &tree.join("held again"));
    many_files(&fs);
    let found = du(&[&tree]);
    assert_eq!(whole_mebibytes(&found.summary, "set_freed_bytes"), 2);
    assert_eq!(number(&found.summary, "set_undecided_bytes"), 0);
    assert_eq!(opened(&fs, &[&tree]), 4, "each of its files, and no other");
}

#[test]
fn an_extent_may_have_thousands_of_owners_and_a_file_may_refer_to_a_block_as_often() {
    let test =
        concat!(module_path!(), "::an_extent_may_have_thousands_of_owners_and_a_file_may_refer_to_a_block_as_often");
    let Some(fs) = new(test) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    write(tree.join("0"), &bytes(1, 64 * KIB));
    let original = File::open(tree.join("0")).expect("a file can be opened");
    for number in 1..5000 {
        let clone = File::create(tree.join(number.to_string())).expect("a file can be made");
        rustix::fs::ioctl_ficlone(&clone, &original).expect("a file can be cloned");
    }
    let found = du(&[&tree]);
    assert_eq!(number(&found.summary, "set_references"), 5000);
    assert_eq!(number(&found.rows[0], "shared_bytes"), 64 << 10);
    assert_eq!(opened(&fs, &[&tree]), 0, "all owners are in the reverse map");
    let freed = |found: &Found| number(&found.summary, "set_freed_bytes");
    let all = freed(&found);
    fs::rename(tree.join("4999"), fs.join("outside")).expect("a file can be moved");
    let without = freed(&du(&[&tree]));
    assert!((64 << 10..128 << 10).contains(&(all - without)), "{all} {without}");
    let (block, often) = (tree.join("block"), made(&tree, "often"));
    write(&block, &bytes(2, 4 * KIB));
    // A clone doubles the file: these are 4096 references.
    shapes::clone_range(&block, 0, &often, 0, 4 << 10);
    (0..12).for_each(|n| shapes::clone_range(&often, 0, &often, 4096 << n, 4096 << n));
    let found = du(&[&tree]);
    assert_eq!(number(&found.summary, "set_references"), 4999 + 1 + 4096);
    assert_eq!(number(&found.rows[0], "shared_bytes"), (64 << 10) + 4096);
    assert_eq!(opened(&fs, &[&tree]), 0);
}

#[test]
fn a_file_that_is_mounted_over_another_is_the_one_that_counts() {
    let test = concat!(module_path!(), "::a_file_that_is_mounted_over_another_is_the_one_that_counts");
    let (Some(fs), Some(other)) = (new(test), new(test)) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    write(tree.join("covered"), &bytes(1, 3 * MIB));
    write(tree.join("file"), &bytes(2, MIB));
    write(other.join("instead"), &bytes(3, 5 * MIB));
    let _mounted = mounted::Mounted::bind(&other.join("instead"), &tree.join("covered"));
    let found = du(&[&tree]);
    assert_eq!(number(&found.rows[0], "apparent_bytes"), 6 << 20);
    let run = finish(&mut unprivileged(&[&tree])).expect(0);
    assert_eq!(found.rows[0], run.json()[0]);
}

#[test]
fn a_damaged_inode_hides_no_other_file() {
    let Some(mut fs) = new(concat!(module_path!(), "::a_damaged_inode_hides_no_other_file")) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    for number in 0..300 {
        write(tree.join(number.to_string()), &bytes(number, 5000));
    }
    let inode = tree.join("250").metadata().expect("it is there").ino();
    fs.edit_image(|image| {
        let find = ["-r", "-c", &format!("inode {inode}"), "-c", "daddr"];
        let shown = tools::tool("xfs_db", &find, image).stdout;
        let sector: u64 = shown.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a sector");
        let image = File::options().write(true).open(image).expect("an image can be opened");
        image.write_all_at(b"XX", sector * 512).expect("an image can be written");
    });
    let run = finish(command(["du", "--json"]).arg(&tree)).expect(3).saying("Structure needs cleaning");
    let each_file = finish(&mut unprivileged(&[&tree])).expect(3);
    assert_eq!(paths(&run), paths(&each_file));
    assert!(number(&run.summary(), "errors") > 0 && number(&paths(&run)[0], "files") > 200, "{}", run.summary());
}

#[test]
fn a_run_can_be_interrupted_in_every_phase() {
    struct StopIn(&'static str, AtomicBool);
    impl Monitor for StopIn {
        fn phase(&self, name: &str, _expected: Option<Amount>) {
            self.1.fetch_or(name == self.0, Ordering::Relaxed);
        }

        fn is_cancelled(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }
    let Some(fs) = new(concat!(module_path!(), "::a_run_can_be_interrupted_in_every_phase")) else { return };
    let tree = fs.join("tree");
    fs::create_dir(&tree).expect("a directory can be made");
    for number in 0..50 {
        write(tree.join(number.to_string()), &bytes(number, 5000));
    }
    let options = Options { sync: true, threads: Some(2) };
    let interrupted = |phase| {
        let error = measure(std::slice::from_ref(&tree), &options, &StopIn(phase, AtomicBool::new(false)));
        error.expect_err(phase).kind() == ErrorKind::Interrupted
    };
    assert!(["walking", "listing inodes", "reading the reverse map"].map(interrupted).iter().all(|is| *is));
    many_files(&fs);
    assert!(interrupted("mapping files"));
}

/// Files with all that makes extents hard to count. Some share with files in `outside`.
fn hard_shapes(tree: &Path, outside: &Path) {
    shapes(tree);
    // With attributes in blocks of their own, and a list of extents that needs blocks.
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(tree.join("whole"), "user.long", &[b'x'; 30_000], flags).expect("an attribute can be set");
    symlink("x".repeat(900), tree.join("long link")).expect("a symlink can be made");
    shapes::scattered(&tree.join("scattered"), 60);
    clone(&tree.join("scattered"), &tree.join("dir/scattered again"));
    shapes::clone_range(&tree.join("scattered"), 0, &made(tree, "a-part-of-it"), 0, 240 << 10);
    // Held outside as a whole, in part, twice, and by a name.
    clone(&tree.join("unaligned"), &outside.join("unaligned"));
    write(tree.join("shared-in-the-middle"), &bytes(8, MIB));
    shapes::clone_range(&tree.join("shared-in-the-middle"), 256 << 10, &made(outside, "middle"), 1 << 20, 128 << 10);
    shapes::clone_range(&tree.join("shared-in-the-middle"), 320 << 10, &made(outside, "again"), 0, 512 << 10);
    fs::hard_link(tree.join("dir/file"), outside.join("third name")).expect("a hard link can be made");
    clone(&tree.join("dir/file"), &tree.join("dir/clone of a file that stays"));
    // Shared within one file.
    let within = tree.join("shared-with-itself");
    write(&within, &bytes(9, 512 * KIB));
    shapes::clone_range(&within, 0, &within, 2 << 20, 256 << 10);
    shapes::clone_range(&within, 64 << 10, &within, 8 << 20, 64 << 10);
    // Reserved beyond the end, and reserved and shared.
    let beyond = File::create(tree.join("beyond")).expect("a file can be made");
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&beyond, keep, 0, 300 << 10).expect("space can be reserved");
    clone(&tree.join("reserved"), &tree.join("dir/reserved too"));
    shapes::settle(tree);
}

fn made(dir: &Path, name: &str) -> PathBuf {
    write(dir.join(name), b"");
    dir.join(name)
}

fn many_files(fs: &Own) {
    let many = fs.join("many");
    fs::create_dir(&many).expect("a directory can be made");
    (0..MANY).for_each(|number| write(many.join(number.to_string()), b""));
}

/// How many files `du` opens by their numbers, besides one to find out whether it may.
#[track_caller]
fn opened(fs: &Own, paths: &[&Path]) -> usize {
    let args: Vec<_> = [OsStr::new("du")].into_iter().chain(paths.iter().map(|path| path.as_os_str())).collect();
    let calls = tools::traced_calls("open_by_handle_at", &args, &fs.join("log"));
    calls.iter().filter(|call| call.starts_with("open_by_handle_at")).count() - 1
}

/// The command `du --json` without the right to ask the filesystem, so that it looks at each file.
fn unprivileged(paths: &[&Path]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
    command.args(["du", "--json"]).args(paths);
    command
}

fn without_seconds(summary: &Value) -> Value {
    let mut summary = summary.clone();
    summary.as_object_mut().expect("it is an object").remove("seconds");
    summary
}
