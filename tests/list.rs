//! `pleach list`: the data that only one snapshot holds, and a table that fits the terminal.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::list::{Options, list};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

const SIZE: u64 = 1 << 20;

fn exclusive(repo: &Path) -> Vec<Option<u64>> {
    rustix::fs::syncfs(fs::File::open(repo).unwrap()).unwrap();
    let stats = list(repo, &Options { exclusive: true, threads: Some(2) }, &Silent).unwrap();
    assert_eq!(stats.errors, 0);
    stats.rows.iter().map(|row| row.exclusive_bytes).collect()
}

/// Waits until the snapshots hold this much exclusively: XFS frees deleted files in the background.
#[track_caller]
fn expect_exclusive(repo: &Path, expected: &[u64], why: &str) {
    let expected: Vec<_> = expected.iter().copied().map(Some).collect();
    for _ in 0..500 {
        if exclusive(repo) == expected {
            return;
        }
        settle();
    }
    assert_eq!(exclusive(repo), expected, "{why}");
}

on_filesystems! {
    [xfs, btrfs] fn exclusive_bytes_are_those_of_no_other_file(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("stays"), &bytes(1, SIZE as usize));
        write(source.join("goes"), &bytes(2, SIZE as usize));
        fs::hard_link(source.join("goes"), source.join("goes too")).unwrap();
        snapshot(&source, &repo);
        expect_exclusive(&repo, &[0], "the source holds all of it");
        fs::remove_file(source.join("goes")).unwrap();
        fs::remove_file(source.join("goes too")).unwrap();
        expect_exclusive(&repo, &[SIZE], "a hard link counts once");
        settle();
        snapshot(&source, &repo);
        expect_exclusive(&repo, &[SIZE, 0], "the second shares with the source");
        fs::remove_dir_all(&source).unwrap();
        expect_exclusive(&repo, &[SIZE, 0], "the snapshots hold the rest together");
    }

    [xfs] fn the_table_fits_eighty_columns_and_loses_nothing(fs: &Filesystem) {
        let (source, other, repo) = (fs.dir("source"), fs.dir("another source of this test"), fs.join("repo"));
        tree::plain(&source);
        tree::plain(&other);
        fs::set_permissions(other.join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        let long = "before-the-upgrade-of-the-database-server-to-version-17";
        let take = |options: &[&str], sources: &[&Path], status| {
            settle();
            let options = options.iter().map(OsStr::new);
            let args = [OsStr::new("snapshot")].into_iter().chain(options);
            let args = args.chain(sources.iter().map(|source| source.as_os_str())).chain([repo.as_os_str()]);
            finish(&mut command_bound_by_permissions(args)).expect(status);
        };
        take(&[], &[&source], 0);
        take(&["--name", long, "--tag", "monday", "--tag", "by-hand"], &[&source, &other], 3);
        take(&["--tag", &"a-long-tag-".repeat(6)], &[&other], 3);
        let list = |options: &[&str], columns: Option<&str>| {
            let options = options.iter().map(OsStr::new);
            let mut list = command([OsStr::new("list")].into_iter().chain(options).chain([repo.as_os_str()]));
            list.env_remove("COLUMNS");
            columns.map(|columns| list.env("COLUMNS", columns));
            finish(&mut list).expect(0).stdout
        };
        for options in [&[][..], &["--exclusive"], &["-v"]] {
            let table = list(options, None);
            // A path is never shortened; a long one has its own line.
            let is_long = |line: &&str| line.chars().count() > 80 && !line.contains('/');
            assert_eq!(table.lines().filter(is_long).collect::<Vec<_>>(), [""; 0], "{table}");
            for shown in
                [long, "monday, by-hand", "a-long-tag-a-long-tag", "source", "another source of this test'", "errors"]
            {
                assert!(table.contains(shown), "{shown}:\n{table}");
            }
            let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
            assert_eq!(words(table.lines().next().unwrap())[0], "snapshot");
        }
        // On a wide terminal each snapshot is one line.
        let wide = list(&[], Some("1000"));
        assert_eq!(wide.lines().count(), 5, "{wide}");
        let listed =
            pleach([OsStr::new("list"), "--json".as_ref(), repo.as_os_str()]).expect(0).lines_of_type("snapshot");
        assert_eq!((listed.len(), &listed[1]["tags"]), (3, &serde_json::json!(["monday", "by-hand"])));
    }

    fn a_list_without_measuring_says_nothing_of_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        snapshot(&source, &repo);
        let stats = list(&repo, &Options::default(), &Silent).unwrap();
        assert_eq!(stats.rows.len(), 1);
        assert_eq!((stats.rows[0].exclusive_bytes, stats.rows[0].totals.files), (None, 1));
    }
}

#[test]
fn exclusive_bytes_on_an_xfs_with_a_reverse_map_are_those_of_each_file_and_none_is_opened() {
    let test = concat!(
        module_path!(),
        "::exclusive_bytes_on_an_xfs_with_a_reverse_map_are_those_of_each_file_and_none_is_opened"
    );
    let Some(fs) = Own::new(Kind::Xfs, test, 1024, &["-m", "rmapbt=1,reflink=1"], "") else { return };
    let (source, repo) = (fs.join("source"), fs.join("repo"));
    fs::create_dir_all(source.join("dir")).unwrap();
    for number in 0..40 {
        write(source.join(format!("file {number}")), &bytes(number, 20_000));
        write(source.join(format!("dir/file {number}")), &bytes(100 + number, 9000));
    }
    fs::hard_link(source.join("file 0"), source.join("dir/file linked")).unwrap();
    shapes::scattered(&source.join("file of many extents"), 60);
    for (round, options) in [&[][..], &["--unchanged", "hardlink"], &[]].into_iter().enumerate() {
        settle();
        let name = format!("s{round}");
        let args = snapshot_named(&name, &source, &repo);
        finish(command(args).args(options)).expect(0);
        for number in (0..40).filter(|number| number % 3 == 0) {
            let seed = 1000 * (round as u64 + 1) + number;
            write(source.join(format!("file {number}")), &bytes(seed, 20_000));
            let part = fs::File::options().write(true).open(source.join(format!("dir/file {number}"))).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&part, &bytes(seed, 4096), 4096).unwrap();
        }
    }
    fs::remove_file(source.join("file of many extents")).unwrap();
    fs::remove_file(repo.join("s1").join(source.strip_prefix("/").unwrap()).join("dir/file 39")).unwrap();
    // A file of the last one has a name outside the repository.
    let inside = repo.join("s2").join(source.strip_prefix("/").unwrap());
    fs::hard_link(inside.join("file 3"), fs.join("outside")).unwrap();
    shapes::settle(&repo);
    let exclusive = |command: &mut std::process::Command| {
        let run = finish(command.args(["list", "--json", "--exclusive"]).arg(&repo)).expect(3).saying("dir/file 39");
        let rows = run.lines_of_type("snapshot");
        rows.iter().map(|row| number(row, "exclusive_bytes")).collect::<Vec<_>>()
    };
    let unprivileged = || {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-sys_admin"]).arg(env!("CARGO_BIN_EXE_pleach"));
        exclusive(&mut command)
    };
    let each_file = unprivileged();
    assert_eq!(exclusive(&mut command([""; 0])), each_file);
    assert!(each_file[..2].iter().all(|bytes| *bytes > 0), "the source holds what the last one does: {each_file:?}");
    fs::remove_dir_all(&source).unwrap();
    shapes::settle(&repo);
    let without_source = exclusive(&mut command([""; 0]));
    assert_eq!(without_source, unprivileged());
    assert!(without_source.iter().all(|bytes| *bytes > 0), "{without_source:?}");
    let log = fs.join("log");
    let mut strace = std::process::Command::new("strace");
    strace.args(tools::TRACE).args(["-e", "trace=%file,%desc,open_by_handle_at", "-o"]).arg(&log);
    finish(strace.arg(env!("CARGO_BIN_EXE_pleach")).args(["list", "--exclusive"]).arg(&repo)).expect(3);
    let calls = tools::take_trace(&log);
    let touched: Vec<_> = calls.iter().filter(|call| call.contains("\"file ") || call.contains("/file ")).collect();
    assert!(touched.is_empty(), "{touched:?}");
}
