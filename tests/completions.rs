//! Completion in real shells: repositories, snapshots, paths in snapshots; everything else as clap completes it.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A repository with two snapshots of one source.
fn repository(fs: &Filesystem) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    for name in ["monday", "tuesday"] {
        settle();
        pleach(snapshot_named(name, &source, &repo)).expect(0);
    }
    (source, repo)
}

/// A shell that finds the command by its name.
fn shell(program: &str, args: &[&OsStr]) -> Command {
    let mut shell = Command::new(program);
    let bin = Path::new(env!("CARGO_BIN_EXE_pleach")).parent().expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths([bin.to_path_buf()].into_iter().chain(std::env::split_paths(&path))).expect("a path");
    shell.args(args).env("PATH", path).env_remove("PLEACH_REPO").stdin(Stdio::null());
    shell
}

/// bash's completions of the last of these words.
fn in_bash(words: &[&OsStr], repo: Option<&Path>) -> Vec<String> {
    let script = "source <(pleach completions bash) || exit 9; \
                  COMP_WORDS=(pleach \"$@\"); COMP_CWORD=$#; COMPREPLY=(); \
                  _pleach_words pleach \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = shell("bash", &["-c".as_ref(), script.as_ref(), "bash".as_ref()]);
    bash.args(words);
    repo.map(|repo| bash.env("PLEACH_REPO", repo));
    lines(&finish(&mut bash).expect(0).stdout)
}

/// fish's completions of a line.
fn in_fish(line: &str, repo: Option<&Path>) -> Vec<String> {
    let script = "pleach completions fish | source; complete -C $argv[1]";
    let mut fish = shell("fish", &["--no-config".as_ref(), "-c".as_ref(), script.as_ref(), line.as_ref()]);
    repo.map(|repo| fish.env("PLEACH_REPO", repo));
    let found = lines(&finish(&mut fish).expect(0).stdout);
    found.into_iter().map(|line| line.split('\t').next().unwrap_or_default().to_string()).collect()
}

/// The line in zsh, on a terminal, after pressing Tab at its end.
fn in_zsh(dir: &Path, line: &str) -> String {
    let (script, result) = (dir.join("script.zsh"), dir.join("result"));
    let text = format!(
        "zmodload zsh/zpty; zpty z zsh -f -i; zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; \
         source <(pleach completions zsh); show() {{ print -r -- $BUFFER > {result}.new; mv {result}.new {result} }}; \
         zle -N show; bindkey \"^X\" show; bindkey \"^I\" complete-word; print ready > {result}'\n\
         for i in {{1..500}}; do [[ -e {result} ]] && break; sleep 0.1; done; rm {result}\n\
         zpty -w -n z $'{line}\\t\\x18'\n\
         for i in {{1..500}}; do [[ -e {result} ]] && break; sleep 0.1; done; cat {result}; zpty -d z\n",
        result = result.display()
    );
    write(&script, text.as_bytes());
    let run = finish(&mut shell("zsh", &["-f".as_ref(), script.as_ref()])).expect(0);
    fs::remove_file(&result).expect("it has been written");
    run.stdout.trim_end_matches('\n').to_string()
}

/// The line in bash, on a terminal, after pressing Tab at its end in this directory.
fn typed_in_bash(dir: &Path, line: &str) -> String {
    let result = dir.with_extension("result");
    let setup = dir.with_extension("bashrc");
    write(
        &setup,
        format!(
            "source <(pleach completions bash); cd '{}'; show() {{ printf %s \"$READLINE_LINE\" > {result}.new; \
             mv {result}.new {result}; }}; bind -x '\"\\C-x\": show'; bind 'set enable-bracketed-paste off'\n",
            dir.display(),
            result = result.display()
        )
        .as_bytes(),
    );
    let bash = format!("bash --noprofile --rcfile '{}' -i", setup.display());
    let mut terminal = shell("script", &["-qec".as_ref(), bash.as_ref(), "/dev/null".as_ref()]);
    let mut terminal =
        terminal.env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("script starts");
    let mut keyboard = terminal.stdin.take().expect("it is piped");
    keyboard.write_all(format!("pleach {line}\t\x18").as_bytes()).expect("keys can be typed");
    for _ in 0..6000 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        if result.exists() {
            break;
        }
    }
    let completed = fs::read_to_string(&result).expect("bash has written the line");
    keyboard.write_all(b"\x15exit\n").expect("keys can be typed");
    drop(keyboard);
    terminal.wait().expect("a child can be waited for");
    fs::remove_file(&result).expect("it has been written");
    completed.trim_end().to_string()
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.is_empty()).map(String::from).collect()
}

on_filesystems! {
    [xfs] fn bash_completes_repositories_snapshots_and_paths_in_them(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let restore = |words: &[&str]| {
            let words: Vec<_> =
                [OsStr::new("restore"), repo.as_os_str()].into_iter().chain(words.iter().map(OsStr::new)).collect();
            in_bash(&words, None)
        };
        assert_eq!(restore(&[""]), ["latest", "monday", "tuesday"]);
        assert_eq!(restore(&["tu"]), ["tuesday"]);
        let inside = source.to_str().expect("a plain path");
        assert_eq!(restore(&["monday", &format!("{inside}/")]).len(), names(&source).len());
        assert_eq!(restore(&["mon", &format!("{inside}/c/o")]), [format!("{inside}/c/one")]);
        let begun = fs.join("re");
        assert_eq!(in_bash(&["list".as_ref(), begun.as_os_str()], None), [repo.to_str().expect("a plain path")]);
        assert_eq!(in_bash(&["restore".as_ref(), "mo".as_ref()], Some(&repo)), ["monday"]);
        let quoted = format!("'{}'", repo.display());
        assert_eq!(in_bash(&["restore".as_ref(), quoted.as_ref(), "mo".as_ref()], None), ["monday"]);
        assert!(in_bash(&["restore".as_ref(), "--overw".as_ref()], None).contains(&"--overwrite".to_string()));
        assert!(in_bash(&["snap".as_ref()], None).contains(&"snapshot".to_string()));
    }

    [xfs] fn the_value_of_parent_is_a_snapshot_and_never_a_file(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let words = |words: &[&str]| {
            let before = ["snapshot".as_ref(), source.as_os_str(), repo.as_os_str()];
            before.into_iter().map(OsStr::to_owned).chain(words.iter().map(Into::into)).collect::<Vec<_>>()
        };
        let bash = |last: &[&str]| {
            let words = words(last);
            in_bash(&words.iter().map(|word| word.as_os_str()).collect::<Vec<_>>(), None)
        };
        assert_eq!(bash(&["--parent", "mo"]), ["monday"]);
        assert_eq!(bash(&["--parent", "=", "mo"]), ["monday"]);
        assert_eq!(bash(&["--parent", "="]), ["latest", "monday", "tuesday"]);
        let line = format!("pleach snapshot {} {} --parent", source.display(), repo.display());
        assert_eq!(in_fish(&format!("{line} mo"), None), ["monday"]);
        assert_eq!(in_fish(&format!("{line}=mo"), None), ["--parent=monday"]);
        let dir = fs.dir("zsh");
        assert_eq!(in_zsh(&dir, &format!("{line} mo")).trim_end(), format!("{line} monday"));
        assert_eq!(in_zsh(&dir, &format!("{line}=mo")).trim_end(), format!("{line}=monday"));
        // bash itself falls back to files if a function finds nothing, unless that is turned off. So the test presses
        // Tab.
        write(fs.dir("files").join("only-file"), b"");
        for (typed, completed) in
            [("snapshot --parent only", "snapshot --parent only"), ("copy only", "copy only-file")]
        {
            assert_eq!(typed_in_bash(&fs.join("files"), typed), format!("pleach {completed}"), "{typed}");
        }
        assert_eq!(in_fish(&format!("cd {}; pleach snapshot --parent o", fs.join("files").display()), None), [""; 0]);
    }

    [xfs] fn fish_completes_repositories_snapshots_and_paths_in_them(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let begin = format!("pleach restore {}", repo.display());
        assert_eq!(in_fish(&format!("{begin} "), None), ["latest", "monday", "tuesday"]);
        assert_eq!(in_fish(&format!("{begin} tu"), None), ["tuesday"]);
        let inside = source.to_str().expect("a plain path");
        assert_eq!(in_fish(&format!("{begin} mon {inside}/c/o"), None), [format!("{inside}/c/one")]);
        assert_eq!(in_fish("pleach restore mo", Some(&repo)), ["monday"]);
        let found = in_fish(&format!("pleach list {}", fs.join("re").display()), None);
        assert_eq!(found, [format!("{}/", repo.display())]);
        assert!(in_fish("pleach restore --overw", None).contains(&"--overwrite".to_string()));
    }

    [xfs] fn zsh_completes_repositories_snapshots_and_paths_in_them(fs: &Filesystem) {
        let (source, repo) = repository(fs);
        let begin = format!("pleach restore {}", repo.display());
        let dir = fs.dir("zsh");
        assert_eq!(in_zsh(&dir, &format!("{begin} tu")).trim_end(), format!("{begin} tuesday"));
        let path = format!("{begin} monday {}/c/o", source.display());
        assert_eq!(in_zsh(&dir, &path), format!("{path}ne"));
        assert_eq!(
            in_zsh(&dir, &format!("pleach list {}", fs.join("rep").display())),
            format!("pleach list {}/", repo.display())
        );
        assert_eq!(in_zsh(&dir, "pleach restore --overw").trim_end_matches([' ', '=']), "pleach restore --overwrite");
    }
}
