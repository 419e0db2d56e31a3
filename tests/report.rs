//! `pleach report`: its data agrees with the other commands, and its page is safe with any name and any repository.

mod browser;
mod records;

use crate::harness::manifests::{date, manifest};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
const DAY: i64 = 86_400;
/// 2026-11-01T02:00:00Z, a Sunday.
const BEGUN: i64 = 1_793_498_400;

/// The command with these options.
fn report_command(repo: &Path, options: &[&OsStr]) -> Command {
    let mut report = command(["report".as_ref(), repo.as_os_str()].into_iter().chain(options.iter().copied()));
    report.env("TZ", "UTC");
    report
}

fn report(repo: &Path, options: &[&str]) -> Run {
    let options: Vec<&OsStr> = ["--json"].iter().chain(options).map(OsStr::new).collect();
    finish(&mut report_command(repo, &options))
}

/// The page of a repository.
#[track_caller]
fn page(repo: &Path, file: &Path, status: i32) -> String {
    let run = finish(&mut report_command(repo, &["--html".as_ref(), file.as_os_str()]));
    run.expect(status).saying("report written to");
    fs::read_to_string(file).expect("the page is there")
}

/// Takes a snapshot, and dates it this many days after the first of November.
#[track_caller]
fn night(day: i64, source: &Path, repo: &Path) -> String {
    let name = format!("night-{day:03}");
    settle();
    pleach(snapshot_named(&name, source, repo)).expect(0);
    date(repo, &name, BEGUN + day * DAY);
    name
}

/// Three nights of a source with a disk image that changes.
fn nights(source: &Path, repo: &Path) {
    let image = source.join("disk.img");
    write(&image, &bytes(1, 16 * MIB as usize));
    write(source.join("stays"), &bytes(2, 2 * MIB as usize));
    night(0, source, repo);
    overwrite(&image, 4 * MIB, &bytes(3, MIB as usize));
    write(source.join("new"), &bytes(4, 3 * MIB as usize));
    night(1, source, repo);
    overwrite(&image, 9 * MIB, &bytes(5, MIB as usize));
    fs::remove_file(source.join("stays")).unwrap();
    night(2, source, repo);
}

/// Nothing in a page runs or loads anything, and nothing from outside is markup.
#[track_caller]
fn assert_harmless(page: &str) {
    let lower = page.to_lowercase();
    for markup in ["<script", "<img", "<iframe", "<object", "<link", "<base", "<form", "javascript:", "@import"] {
        assert!(!lower.contains(markup), "{markup} is in the page");
    }
    let is_event = |tag: &str| tag.split_whitespace().any(|word| word.starts_with("on") && word.contains('='));
    let tags = || page.split('<').skip(1).map(|part| part.split('>').next().unwrap_or_default());
    // Quoted values may have any words, but no tag has a handler outside them.
    let bare = |tag: &str| tag.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    assert!(!tags().any(|tag| is_event(&bare(tag))), "an event handler");
    assert!(!tags().any(|tag| bare(tag).contains(" src=")), "something is loaded");
    for target in page.split("href=\"").skip(1) {
        assert!(target.starts_with('#'), "a link leads out: {target:.40}");
    }
    for target in page.split("url(").skip(1) {
        assert!(target.starts_with('#'), "something is loaded: {target:.40}");
    }
    let is_odd = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!page.contains(is_odd), "a control character");
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"), "a policy");
}

/// Every link of the page leads somewhere, and no two elements have the same id.
#[track_caller]
fn assert_links_lead_somewhere(page: &str) {
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "ids are unique");
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.binary_search(&target).is_ok(), "no element #{target}");
    }
}

on_filesystems! {
    [xfs, btrfs] fn its_data_is_that_of_the_other_commands(fs: &Filesystem) {
        // XFS frees inodes in chunks. On a shared filesystem other tests take inodes of the same chunks.
        let Some(mut own) = Own::new(fs.kind, "report::other_commands", 512, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        nights(&source, &repo);
        own.remount();
        let found = report(&repo, &[]).expect(0);
        let rows = found.lines_of_type("snapshot");
        let days: Vec<_> = rows.iter().map(|row| row["day"].as_str().unwrap()).collect();
        assert_eq!(days, ["2026-11-01", "2026-11-02", "2026-11-03"]);
        let listed = pleach(["list".as_ref(), "--json".as_ref(), repo.as_os_str()]).expect(0).lines_of_type("snapshot");
        for (row, listed) in rows.iter().zip(&listed) {
            for field in ["name", "created", "files", "bytes", "added_data_bytes", "added_metadata_bytes", "pinned"] {
                assert_eq!(row[field], listed[field], "{field}");
            }
        }
        let du = pleach(["du".as_ref(), "--json".as_ref(), "--snapshots".as_ref(), repo.as_os_str()]).expect(0);
        for (row, measured) in rows.iter().zip(du.lines_of_type("snapshot")) {
            assert_eq!((&row["name"], &row["freed_bytes"]), (&measured["name"], &measured["freed_bytes"]));
        }
        let rule = ["prune", "--json", "--dry-run", "--keep-last", "1"].map(OsStr::new);
        let pruned = finish(command(rule.into_iter().chain([repo.as_os_str()])).env("TZ", "UTC")).expect(0).summary();
        let summary = found.summary();
        for field in ["kept", "removed", "freed_bytes", "freed_is"] {
            assert_eq!(summary[field], pruned[field], "{field}");
        }
        assert_eq!((number(&summary, "snapshots"), number(&summary, "groups")), (3, 1));
        assert_eq!(summary["rules"], false);
    }

    [xfs, btrfs] fn the_largest_changes_count_new_blocks_only(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        let found = report(&repo, &[]).expect(0);
        let name = |row: &Value| row["path"].as_str().unwrap().rsplit('/').next().unwrap().to_string();
        let new = found.lines_of_type("new_data");
        let figures = |row: &Value| (name(row), number(row, "bytes"), number(row, "added"), number(row, "changed"));
        let figures: Vec<_> = new.iter().map(figures).collect();
        assert_eq!(figures, [("new".to_string(), 3 * MIB, 1, 0), ("disk.img".into(), 2 * MIB, 0, 2)]);
        assert!(new.iter().all(|row| row["bytes_are"] == "exact"), "{new:?}");
        let removed = found.lines_of_type("removed_data");
        assert_eq!(removed.len(), 1);
        assert_eq!((name(&removed[0]), number(&removed[0], "bytes")), ("stays".into(), 2 * MIB));
        assert_eq!((number(&found.summary(), "compared"), number(&found.summary(), "not_compared")), (2, 0));
        let less = report(&repo, &["--compare", "1"]).expect(0);
        assert_eq!((number(&less.summary(), "compared"), number(&less.summary(), "not_compared")), (1, 1));
        assert!(less.lines_of_type("new_data").iter().all(|row| name(row) != "new"));
    }

    [xfs, btrfs] fn the_largest_file_has_its_versions_and_what_they_share(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        let found = report(&repo, &["--largest", "1"]).expect(0);
        let files = found.lines_of_type("file");
        assert_eq!(files.len(), 1);
        assert_eq!((number(&files[0], "size"), number(&files[0], "all_versions")), (16 * MIB, 3));
        let versions = files[0]["versions"].as_array().unwrap();
        let first: Vec<_> = versions.iter().map(|version| version["first"].as_str().unwrap()).collect();
        assert_eq!(first, ["night-000", "night-001", "night-002"]);
        let shared: Vec<_> = versions.iter().map(|version| version["shared_bytes"].as_u64()).collect();
        assert_eq!(shared, [None, Some(15 * MIB), Some(15 * MIB)]);
        let page = page(&repo, &fs.join("page.html"), 0);
        assert_eq!(page.matches("<svg xmlns=\"http://www.w3.org/2000/svg\"").count(), 1, "only disk.img has versions");
        for svg in page.split("<svg xmlns").skip(1).map(|rest| rest.split("</svg>").next().unwrap()) {
            roxmltree::Document::parse(&format!("<svg xmlns{svg}</svg>")).expect("the picture is XML");
        }
    }

    [xfs] fn rules_show_what_prune_would_do(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        pleach(["pin".as_ref(), repo.as_os_str(), "night-000".as_ref()]).expect(0);
        let found = report(&repo, &["--keep-daily", "1"]).expect(0);
        let rows = found.lines_of_type("snapshot");
        let fates = rows.iter().map(|row| (row["kept"].as_bool().unwrap(), row["reasons"].to_string()));
        let fates: Vec<_> = fates.collect();
        let fate = |kept, reasons: &str| (kept, reasons.to_string());
        assert_eq!(fates, [fate(true, "[\"pinned\"]"), fate(false, "[]"), fate(true, "[\"daily\"]")]);
        let file = fs.join("page.html");
        let options = ["--html".as_ref(), file.as_os_str(), "--keep-daily".as_ref(), "1".as_ref()];
        finish(&mut report_command(&repo, &options)).expect(0);
        let page = fs::read_to_string(&file).unwrap();
        assert!(page.contains("By the given rules") && page.contains("would be removed"));
        assert_eq!(published(&repo).len(), 3, "nothing was removed");
    }

    [xfs] fn groups_are_shown_apart(fs: &Filesystem) {
        let (one, two, repo) = (fs.dir("one"), fs.dir("two"), fs.join("repo"));
        tree::plain(&one);
        tree::plain(&two);
        night(0, &one, &repo);
        night(1, &two, &repo);
        night(2, &one, &repo);
        let found = report(&repo, &[]).expect(0);
        let groups: Vec<_> =
            found.lines_of_type("snapshot").iter().map(|row| number(row, "group")).collect();
        assert_eq!(groups, [0, 1, 0]);
        assert_eq!(number(&found.summary(), "compared"), 1, "only snapshots of the same sources are compared");
        let page = page(&repo, &fs.join("page.html"), 0);
        assert_eq!(page.matches("<div class=\"group\">").count(), 2);
    }

    [xfs, btrfs] fn names_are_only_text(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let hostile: Vec<OsString> = [
            &b"</script><img src=x onerror=alert(1)>"[..],
            b"\"><svg onload=alert(1)>",
            b"'--><style>*{display:none}<!--",
            b"line\nbreak\x1b[31m\x07",
            b"not utf-8 \xff\xfe",
            "right\u{202e}to left\u{2066}".as_bytes(),
            b"&lt;b&gt;&#60;",
            b"]]></title><script>alert(1)",
        ]
        .into_iter()
        // `/` cannot be in a name.
        .map(|name| name.iter().map(|byte| if *byte == b'/' { b'_' } else { *byte }).collect())
        .map(OsString::from_vec)
        .collect();
        let below = source.join("<b>&\"'");
        fs::create_dir(&below).unwrap();
        for (number, name) in hostile.iter().enumerate() {
            write(below.join(name), &bytes(number as u64, 300_000 + number * 4096));
        }
        let tag = "<i onclick=alert(1)>\"'&";
        settle();
        let named = ["snapshot", "--name", "<u>one&\"'", "--tag", tag].map(OsStr::new);
        pleach(named.into_iter().chain([source.as_os_str(), repo.as_os_str()])).expect(0);
        for (number, name) in hostile.iter().enumerate() {
            write(below.join(name), &bytes(50 + number as u64, 400_000 + number * 4096));
        }
        settle();
        snapshot(&source, &repo);
        let found = report(&repo, &["--largest", "8"]).expect(0);
        let mut paths: Vec<PathBuf> = found.lines_of_type("file").iter().map(path_of).collect();
        paths.sort();
        let mut expected: Vec<_> = hostile.iter().map(|name| below.join(name)).collect();
        expected.sort();
        assert_eq!(paths, expected, "scripts get the names byte by byte");
        let file = fs.join("page.html");
        let options = ["--html".as_ref(), file.as_os_str(), "--largest".as_ref(), "8".as_ref()];
        finish(&mut report_command(&repo, &options)).expect(0);
        let page = fs::read_to_string(&file).expect("it is UTF-8");
        assert_harmless(&page);
        assert_links_lead_somewhere(&page);
        assert!(page.contains("&lt;i onclick=alert(1)&gt;&quot;&#39;&amp;"), "the tag is shown");
        browser::assert_silent(fs, &file);
    }

    [xfs] fn a_broken_manifest_hides_no_other_snapshot(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        write(manifest(&repo, "night-001"), b"nonsense");
        let found = report(&repo, &[]).expect(3);
        assert_eq!(found.lines_of_type("snapshot").len(), 2);
        let summary = found.summary();
        assert_eq!((number(&summary, "errors"), &summary["unlisted"]), (1, &serde_json::json!(["night-001"])));
        assert_eq!(found.lines_of_type("error").len(), 1, "each problem is reported once");
        let page = page(&repo, &fs.join("page.html"), 3);
        assert!(page.contains("cannot be read") && page.contains("This report: 1"), "it names the problem");
        assert_harmless(&page);
    }

    [xfs] fn a_damaged_block_of_a_manifest_is_reported(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        let path = manifest(&repo, "night-002");
        let third = fs::metadata(&path).unwrap().len() / 3;
        let mut content = fs::read(&path).unwrap();
        content[third as usize] ^= 0xff;
        write(&path, &content);
        let found = report(&repo, &[]).expect(3);
        assert_eq!(found.lines_of_type("snapshot").len(), 3);
        assert!(number(&found.summary(), "errors") > 0);
        page(&repo, &fs.join("page.html"), 3);
    }

    [xfs, btrfs] fn a_read_only_repository_will_do(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "report::read_only", 1024, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        nights(&source, &repo);
        let before = report(&repo, &[]).expect(0);
        own.remount_with("ro");
        let after = report(&repo, &[]).expect(0);
        assert_eq!(after.lines_of_type("snapshot"), before.lines_of_type("snapshot"));
        assert_eq!(after.lines_of_type("new_data"), before.lines_of_type("new_data"));
        page(&repo, &fs.join("page.html"), 0);
        own.remount_with("rw");
    }

    fn a_repository_without_snapshots_has_a_page(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let one = page(&repo, &fs.join("one.html"), 0);
        assert!(one.contains("Comparing needs at least two snapshots"));
        assert_links_lead_somewhere(&one);
        pleach(["remove".as_ref(), repo.as_os_str(), "latest".as_ref()]).expect(0);
        let none = page(&repo, &fs.join("none.html"), 0);
        assert!(none.contains("There are no snapshots yet."));
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
        assert_harmless(&none);
        assert_links_lead_somewhere(&none);
        let summary = report(&repo, &[]).expect(0).summary();
        assert_eq!((number(&summary, "snapshots"), &summary["freed_bytes"]), (0, &Value::Null));
        let lines = finish(&mut report_command(&repo, &[])).expect(0).stdout;
        assert!(lines.starts_with("0 snapshots in"), "{lines}");
    }

    [xfs] fn a_killed_run_leaves_the_old_page(fs: &Filesystem) {
        let (source, repo, out) = (fs.dir("source"), fs.join("repo"), fs.dir("out"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let file = out.join("page.html");
        let old = page(&repo, &file, 0);
        snapshot(&source, &repo);
        // Now each snapshot has a map, so no other file is synced.
        page(&repo, &out.join("other.html"), 0);
        // It is killed when it syncs the new page, which is then complete under another name.
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:signal=KILL"]);
        strace.arg(env!("CARGO_BIN_EXE_pleach")).arg("report").arg(&repo).arg("--html").arg(&file);
        assert_ne!(finish(strace.env_remove("PLEACH_REPO")).status, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), old);
        assert_eq!(names(&out).len(), 3, "it was killed while it wrote: {:?}", names(&out));
        assert_ne!(page(&repo, &file, 0), old);
    }

    [xfs] fn only_its_own_pages_are_replaced(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let file = fs.join("page.html");
        let write_page = || finish(&mut report_command(&repo, &["--html".as_ref(), file.as_os_str()]));
        for foreign in [&b"my letter"[..], b"<!DOCTYPE html>\n<html>", b"<svg xmlns=\"x\">\n"] {
            write(&file, foreign);
            write_page().expect(1).saying("pleach did not write");
            assert_eq!(fs::read(&file).unwrap(), foreign);
        }
        write(&file, b"");
        write_page().expect(0);
        write_page().expect(0);
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(source.join("a"), &file).unwrap();
        write_page().expect(1).saying("not a regular file");
        finish(&mut report_command(&repo, &["--html".as_ref(), fs.join("no/where").as_os_str()])).expect(1);
    }

    [xfs] fn it_goes_where_it_is_sent(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let run = |options: &[&str]| {
            let options: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
            finish(&mut report_command(&repo, &options))
        };
        let page = run(&["--html", "-"]).expect(0).stdout;
        assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
        assert_harmless(&page);
        let lines = run(&[]).expect(0).stdout;
        assert!(lines.starts_with("1 snapshot in") && lines.contains("newest"), "{lines}");
        run(&["--html", "-", "--json"]).expect(2);
        run(&["--no-measure", "--keep-last", "3"]).expect(2);
        let file = fs.join("page.html");
        let both = run(&["--json", "--html", &file.to_string_lossy()]).expect(0);
        assert!(file.exists() && both.summary()["command"] == "report");
        let quick = run(&["--json", "--no-measure", "--compare", "0", "--largest", "0"]).expect(0);
        assert_eq!(quick.summary()["freed_bytes"], Value::Null);
        assert_eq!(quick.lines_of_type("file").len(), 0);
        let mut named = command(["report", "--json"]);
        assert_eq!(number(&finish(named.env("PLEACH_REPO", &repo)).expect(0).summary(), "snapshots"), 1);
        pleach(["report".as_ref(), source.as_os_str()]).expect(1);
    }
}

/// The path of an object.
fn path_of(object: &Value) -> PathBuf {
    match object["path"].as_str() {
        Some(path) => path.into(),
        None => {
            let text = object["path_base64"].as_str().expect("a path");
            OsStr::from_bytes(&data_encoding::BASE64.decode(text.as_bytes()).expect("base64")).into()
        }
    }
}
