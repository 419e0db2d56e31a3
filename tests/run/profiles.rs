//! The files of profiles: where they are found, which are refused, and the one that `init-profile` writes.

use super::*;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};

/// `pleach run --show` with this name, in an environment with these directories.
fn show(name: &str, config: Option<&Path>, home: Option<&Path>) -> Run {
    let mut command = command(["run", "--show", "--json", name]);
    command.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
    config.map(|config| command.env("XDG_CONFIG_HOME", config));
    home.map(|home| command.env("HOME", home));
    finish(&mut command)
}

on_filesystems! {
    [xfs] fn a_profile_is_found_by_name_or_path(fs: &Filesystem) {
        let (config, home) = (fs.dir("config"), fs.dir("home"));
        let text = "[dedupe]\npaths = ['/srv']\n";
        for dir in [config.join("pleach"), home.join(".config/pleach")] {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("my.test.toml"), text).unwrap();
        }
        let path = |run: Run| run.expect(0).json()[0]["path"].as_str().expect("a path").to_string();
        let here = |dir: &Path| dir.join("pleach/my.test.toml").display().to_string();
        assert_eq!(path(show("my.test", Some(&config), Some(&home))), here(&config));
        assert_eq!(path(show("my.test", None, Some(&home))), here(&home.join(".config")));
        let file = config.join("pleach/my.test.toml");
        assert_eq!(path(show(file.to_str().unwrap(), None, None)), here(&config));
        let mut relative = command(["run", "--show", "--json", "my.test.toml"]);
        assert_eq!(path(finish(relative.current_dir(config.join("pleach")))), here(&config));
        let missing = show("other", Some(&config), None).expect(1);
        let places = ["/pleach/other.toml", "/etc/pleach/other.toml", "init-profile"];
        let missing = places.into_iter().fold(missing, Run::saying);
        assert_eq!(missing.lines::<json_lines::Problem>()[0].code, "not-found");
        show("./my.test.toml", Some(&config), None).expect(1).saying("cannot find the profile ./my.test.toml");
        // A pipe or a directory in its place neither blocks nor is read.
        tools::tool("mkfifo", &[], &fs.join("pipe.toml"));
        run(&fs.join("pipe.toml"), &[]).expect(1).saying("not a regular file");
        fs::create_dir(fs.join("dir.toml")).unwrap();
        run(&fs.join("dir.toml"), &[]).expect(1).saying("not a regular file");
        let complete = |word: &str| {
            let mut command = command(["__complete", "bash", "--", "run", word]);
            finish(command.env("XDG_CONFIG_HOME", &config)).expect(0).stdout
        };
        assert_eq!(complete("my"), "words\nmy.test\n");
        assert_eq!(complete("./my"), "static\n");
    }

    [xfs] fn root_runs_no_profile_that_others_can_write(fs: &Filesystem) {
        let mark = fs.join("mark");
        let profile = usual(fs, &format!("[hooks]\nbefore = ['touch', {mark:?}]\n"));
        let link = fs.join("link.toml");
        symlink(&profile, &link).unwrap();
        let set = |owner, mode| {
            chown(&profile, Some(owner), Some(owner)).unwrap();
            fs::set_permissions(&profile, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (owner, mode, why) in [(0, 0o602, "everybody can write it"), (1000, 0o600, "it belongs to the user 1000")] {
            set(owner, mode);
            for options in [&["--json"][..], &["--json", "--dry-run"]] {
                for path in [&profile, &link] {
                    let refused = run(path, options).expect(1).saying(why).saying("chmod go-w");
                    assert_eq!(refused.lines::<json_lines::Problem>()[0].code, "profile-not-trusted");
                }
            }
            assert!(!mark.exists() && !fs.join("repo").exists());
            run(&profile, &["--show"]).expect(0);
        }
        set(0, 0o644);
        run(&profile, &[]).expect(0);
        assert!(mark.exists());
    }

    [xfs] fn all_mistakes_in_a_profile_are_reported_and_nothing_is_done(fs: &Filesystem) {
        let mark = fs.join("mark");
        let profile = usual(fs, &format!("exlude = ['*.o']\nhash = 'all'\n[hooks]\nbefore = ['touch', {mark:?}]\n"));
        let refused = run(&profile, &["--json"]).expect(2);
        let refused = refused.saying("line 4, column 1: unknown key 'exlude' in [snapshot]; did you mean 'exclude'?");
        let refused = refused.saying("(line 4 is: exlude = ['*.o'])");
        let refused = refused.saying("line 5, column 8: expected 'new' or 'none'");
        let problems = refused.lines::<json_lines::Problem>();
        assert_eq!(problems.iter().map(|problem| problem.code.as_str()).collect::<Vec<_>>(), ["profile", "profile"]);
        assert_eq!(problems[0].path.as_deref(), profile.to_str());
        assert!(!mark.exists() && !fs.join("repo").exists());
        run(&profile, &["--show"]).expect(2);
    }

    [xfs] fn a_new_profile_works_once_it_is_edited(fs: &Filesystem) {
        let file = fs.join("new/home.toml");
        pleach([OsStr::new("init-profile"), file.as_os_str()]).expect(0).saying("edit it");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        pleach([OsStr::new("init-profile"), file.as_os_str()]).expect(1).saying("exists").saying("not changed");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let other = pleach(["init-profile".as_ref(), "--json".as_ref(), fs.join("other.toml").as_os_str()]).expect(0);
        assert_eq!(other.json()[0]["path"], fs.join("other.toml").to_str().unwrap());
        assert_eq!(other.summary()["command"], "init-profile");
        let deeper = fs.join("a/b/c.toml");
        pleach([OsStr::new("init-profile"), deeper.as_os_str()]).expect(1);
        // As a user edits it: the two paths, and every example that has no effect outside the test.
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        let edited = text.replace("\"/backup\"", &format!("{repo:?}"));
        let edited = edited.replace("[\"/etc\", \"/home\"]", &format!("[{source:?}]"));
        let edited = edited.replace("#exclude = [\"*.iso\"", "exclude = [\"*.iso\"").replace("#tags", "tags");
        let edited = edited.replace("#[process]", "[process]").replace("#nice", "nice").replace("#io = ", "io = ");
        fs::write(&file, edited).unwrap();
        run(&file, &["--dry-run"]).expect(0);
        let done = run(&file, &["--json"]).expect(0);
        assert_eq!(done.summary()["profile"], "home");
        assert_eq!(published(&repo).len(), 1);
        // The shown profile is a profile.
        let shown = run(&file, &["--show"]).expect(0).stdout;
        let copy = profile(fs, &shown);
        let settings = |run: Run| run.expect(0).json()[0]["snapshot"].clone();
        assert_eq!(settings(run(&copy, &["--show", "--json"])), settings(run(&file, &["--show", "--json"])));
        run(&copy, &[]).expect(0);
    }

    [xfs] fn a_file_that_is_no_profile_is_refused_by_its_name(fs: &Filesystem) {
        let path = fs.join("wrong.toml");
        for (content, status, why) in [
            (&b"\x7fELF\x02\x01\0"[..], 2, "line 1, column 1"),
            (b"# a comment\nrepository = '\xff'", 2, "line 2: it is not UTF-8"),
            (b"[dedupe]\npaths = ['/a']\nmin_run = 7\n", 2, "line 3, column 11: it must be 512 or more"),
        ] {
            fs::write(&path, content).unwrap();
            run(&path, &["--show"]).expect(status).saying(why).saying("wrong.toml");
        }
        // One byte more than is read, and much more.
        for length in [(1 << 20) + 1, 1 << 30] {
            File::create(&path).unwrap().set_len(length).unwrap();
            run(&path, &["--show"]).expect(1).saying("longer than 1 MiB").saying("wrong.toml");
        }
        fs::remove_file(&path).unwrap();
        symlink("wrong.toml", &path).unwrap();
        run(&path, &["--show"]).expect(1).saying("cannot read the profile").saying("wrong.toml");
        for rule in ["'100%'", "'100.0 %'"] {
            let refused = run(&usual(fs, &format!("[prune]\nkeep_free = {rule}\n")), &["--show"]).expect(2);
            refused.saying("line 5, column 13: expected less than 100 %");
        }
        run(&usual(fs, "[prune]\nkeep_free = '99.9%'\n"), &["--show"]).expect(0);
        pleach(["prune", "--keep-free", "100%", "/nowhere"]).expect(2).saying("less than 100%");
        pleach(["dedupe", "--min-run", "7", "/nowhere"]).expect(2).saying("512 or more");
    }
}
