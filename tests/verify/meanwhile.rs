//! Other programs at the same time: snapshots that are deleted, interruptions, and the repository's lock.

use super::*;
use pleach::monitor::{Amount, Damage, Event, Monitor};
use std::sync::{Mutex, Once};

/// Deletes something when the run has begun.
struct Deletes<F> {
    once: Once,
    delete: F,
    damage: Mutex<Vec<String>>,
    events: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Monitor for Deletes<F> {
    fn advance(&self, _: Amount) {
        self.once.call_once(&self.delete);
    }

    fn damage(&self, damage: &Damage<'_>) {
        self.damage.lock().unwrap().push(format!("{damage:?}"));
    }

    fn event(&self, event: Event<'_>) {
        self.events.lock().unwrap().push(event.code().to_string());
    }
}

on_filesystems! {
    fn a_snapshot_that_is_deleted_meanwhile_is_no_damage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        (0..20).for_each(|number| {
            fs::create_dir(source.join(format!("{number}"))).unwrap();
            tree::crowded(&source.join(format!("{number}")), 100);
        });
        for name in ["one", "two", "three"] {
            take(name, &source, &repo);
        }
        // As pleach deletes, and as `rm` does.
        let renamed = || {
            tools::let_be_removed(&repo.join("two"));
            fs::rename(repo.join("two"), repo.join(".pleach/trash/two")).unwrap();
        };
        let deleted = || tools::delete_snapshot(&repo.join("three"));
        let ways: [(&str, &(dyn Fn() + Sync)); 2] = [("two", &renamed), ("three", &deleted)];
        for (name, delete) in ways {
            let monitor = Deletes { once: Once::new(), delete, damage: Mutex::default(), events: Mutex::default() };
            let stats = verify(&repo, &[], &Options { threads: Some(2), ..Options::default() }, &monitor).unwrap();
            assert_eq!((monitor.damage.into_inner().unwrap(), stats.errors), (vec![], 0), "{name}");
            assert!(stats.rows.iter().any(|row| row.name == "one"));
            if monitor.events.into_inner().unwrap() == ["snapshot-deleted"] {
                assert!(stats.rows.iter().all(|row| row.name != name));
            } else {
                // A renamed tree that is open stays readable.
                assert!(stats.rows.iter().any(|row| row.name == name && row.files == 2000));
            }
        }
        tools::let_be_removed(&repo);
        fs::remove_dir_all(repo.join(".pleach/trash/two")).unwrap();
    }

    fn an_interrupted_run_says_what_it_found_and_exits_with_130(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::crowded(&source, 2000);
        take("one", &source, &repo);
        let args = ["verify", "--json", "--read", "50%", "-j", "1"].map(OsStr::new);
        let run = tools::interrupted_at("statx", 500, args.into_iter().chain([repo.as_os_str()]));
        let run = run.expect(130).saying("no damage was found until then");
        let summary = run.summary();
        assert_eq!(summary["complete"], false, "{summary}");
        assert!(number(&summary, "files") < 2000);
        assert!(!repo.join(".pleach/verified").exists(), "the position stays");
    }

    fn a_run_needs_no_lock(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        let lock = File::open(repo.join(".pleach/lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        pleach(snapshot_named("two", &source, &repo)).expect(11);
        run(&repo, &["--read", "50%"]).expect(0);
    }
}
