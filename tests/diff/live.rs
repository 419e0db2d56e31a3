//! The live tree: the files that are read, and directories that cannot be read.

use super::*;

on_filesystems! {
    fn only_files_that_may_have_changed_under_the_same_size_are_read(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["same", "touched", "longer", "edited", "mode"] {
            write(source.join(name), &bytes(1, 50_000));
        }
        settle();
        take("one", &source, &repo);
        assert_eq!(summary(&compare(&repo, "one", "live", &["--json".as_ref()]).expect(0)).read_bytes, 0);
        tree::set_mtime(&source.join("touched"), 1_000_000_000, 0);
        write(source.join("longer"), &bytes(1, 50_001));
        write(source.join("new"), &bytes(2, 50_000));
        overwrite(&source.join("edited"), 7, b"x");
        let time = fs::metadata(source.join("same")).unwrap().modified().unwrap();
        fs::File::options().write(true).open(source.join("edited")).unwrap().set_modified(time).unwrap();
        fs::set_permissions(source.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        let run = compare(&repo, "one", "live", &["--json".as_ref()]).expect(0);
        let found = summary(&run);
        assert_eq!((found.content, found.metadata, found.added, found.errors), (2, 2, 1, 0), "{}", run.stdout);
        assert_eq!(found.read_bytes, 3 * 50_000, "touched, edited and mode");
        assert_eq!(found.new, "live");
    }

    fn renamed_files_are_read_unless_their_times_prove_that_they_are_unchanged(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("dir")).unwrap();
        for (seed, name) in ["edited", "touched", "plain", "dir/inside"].into_iter().enumerate() {
            write(source.join(name), &bytes(seed as u64, 50_000));
        }
        settle();
        take("one", &source, &repo);
        for name in ["edited", "touched", "plain", "dir"] {
            fs::rename(source.join(name), source.join(format!("{name}-2"))).unwrap();
        }
        let time = fs::metadata(source.join("edited-2")).unwrap().modified().unwrap();
        overwrite(&source.join("edited-2"), 7, b"x");
        fs::File::options().write(true).open(source.join("edited-2")).unwrap().set_modified(time).unwrap();
        tree::set_mtime(&source.join("touched-2"), 1_000_000_000, 0);
        let run = compare(&repo, "one", "live", &["--json".as_ref()]).expect(0);
        let found = summary(&run);
        assert_eq!((found.renamed, found.content, found.metadata), (4, 1, 1), "{}", run.stdout);
        assert_eq!((found.added, found.removed, found.errors), (0, 0, 0), "{}", run.stdout);
        // A rename changes the times of the file itself, but not those of files inside a renamed directory.
        assert_eq!(found.read_bytes, 3 * 50_000, "edited, touched and plain");
    }

    [xfs] fn directories_that_cannot_be_read_are_reported_and_not_removed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        fs::set_permissions(source.join("c"), fs::Permissions::from_mode(0o000)).unwrap();
        write(source.join("new"), b"new");
        let args = ["diff".as_ref(), repo.as_os_str(), "one".as_ref(), "live".as_ref(), "--json".as_ref()];
        let run = finish(&mut command_bound_by_permissions(args)).expect(3);
        let found = summary(&run);
        assert_eq!((found.removed, found.added, found.errors), (0, 1, 1), "{}", run.stdout);
    }

    [xfs] fn a_directory_that_was_unreadable_shows_what_no_snapshot_has(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        fs::create_dir(source.join("closed")).unwrap();
        write(source.join("closed/letter"), b"Dear Ann");
        fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let args = ["snapshot".as_ref(), "--name=one".as_ref(), source.as_os_str(), repo.as_os_str()];
        finish(&mut command_bound_by_permissions(args)).expect(3);
        fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
        let run = compare(&repo, "one", "live", &[]).expect(0);
        assert!(run.stdout.contains(&format!("+ {}", source.join("closed/letter").display())), "{}", run.stdout);
    }

    [xfs] fn a_source_that_is_gone_is_removed_and_one_that_became_a_link_is_not_followed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        let aside = fs.join("aside");
        fs::rename(&source, &aside).unwrap();
        let run = compare(&repo, "one", "live", &[]).expect(0);
        assert!(run.stdout.lines().all(|line| line.starts_with("- ")), "{}", run.stdout);
        assert_eq!(run.stdout.lines().count(), 8);
        symlink(&aside, &source).unwrap();
        let run = compare(&repo, "one", "live", &[]).expect(0);
        assert_eq!(run.stdout.lines().filter(|line| line.starts_with("T ")).count(), 1, "{}", run.stdout);
        assert_eq!(run.stdout.lines().count(), 8);
    }

    [xfs] fn a_mount_point_that_the_snapshot_did_not_enter_is_not_entered(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        fs::create_dir(source.join("mnt")).unwrap();
        let other = fs.elsewhere();
        write(other.join("elsewhere"), b"on another filesystem");
        let _mounted = mounted::Mounted::bind(other.path(), &source.join("mnt"));
        settle();
        let args = snapshot_named("one", &source, &repo);
        pleach(args.into_iter().chain(["--one-file-system".as_ref()])).expect(0);
        let run = compare(&repo, "one", "live", &[]).expect(0);
        assert_eq!(run.stdout, "");
    }

    [xfs] fn the_repository_below_a_source_is_skipped(fs: &Filesystem) {
        let source = fs.dir("source");
        let repo = source.join("repo");
        tree::plain(&source);
        settle();
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let run = compare(&repo, "one", "live", &[]).expect(0).saying("skipped the repository itself");
        assert_eq!(run.stdout, "");
    }
}
