//! Completion: what the word at the cursor names, from the words before it. No I/O.

use super::Cli;
use super::repo_first::is_path;
use clap::{Arg, CommandFactory as _};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the word at the cursor names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Something that the shell's own script knows: an option, a command, a file.
    Static,
    /// A repository.
    Repository,
    /// A snapshot of this repository.
    Id(PathBuf),
    /// A snapshot of a repository that is not known yet.
    IdOfUnknown,
    /// The value of this option, in one word with it.
    Value(String, Box<Wanted>),
    /// A repository, or a snapshot of this one, which the environment names.
    RepositoryOrId(PathBuf),
    /// A profile.
    Profile,
    /// A path in a snapshot of this repository.
    PathIn(PathBuf, OsString),
}

/// What the last of `words` is; they begin behind the program's name. `environment`: the value of `PLEACH_REPO`.
pub(crate) fn wanted(words: &[OsString], environment: Option<PathBuf>) -> Wanted {
    let Some((current, before)) = words.split_last() else { return Wanted::Static };
    let mut parsed = Parsed { command: None, paths: Vec::new(), option: None, is_literal: false, has_snapshots: false };
    before.iter().for_each(|word| parsed.take(word));
    let is_option = !parsed.is_literal && current.as_bytes().starts_with(b"-");
    // zsh and fish pass `--parent=mon` as one word.
    if let (true, None, Some((option, _))) = (is_option, &parsed.option, current.to_string_lossy().split_once('=')) {
        return match parsed.option_of(&option[1..]).map(|name| parsed.value(&name, environment)) {
            None | Some(Wanted::Static) => Wanted::Static,
            Some(value) => Wanted::Value(format!("{option}="), Box::new(value)),
        };
    }
    if let Some(option) = &parsed.option {
        return parsed.value(option, environment);
    }
    let is_repository = |path: &&PathBuf| is_path(*path) || path.join(".pleach").is_dir();
    match parsed.command.as_deref() {
        _ if is_option => Wanted::Static,
        Some("list" | "find" | "prune" | "report") if parsed.paths.is_empty() => Wanted::Repository,
        Some("run") if parsed.paths.is_empty() && !current.as_bytes().contains(&b'/') => Wanted::Profile,
        Some("log") => match (environment, &parsed.paths[..]) {
            (None, []) => Wanted::Repository,
            (Some(repo), []) => Wanted::PathIn(repo, "latest".into()),
            (_, [repo]) => Wanted::PathIn(repo.clone(), "latest".into()),
            _ => Wanted::Static,
        },
        Some("remove" | "tag" | "pin" | "unpin") => match (environment, parsed.paths.first()) {
            (None, None) => Wanted::Repository,
            (Some(repo), None) => Wanted::RepositoryOrId(repo),
            (Some(repo), Some(first)) if !is_repository(&first) => Wanted::Id(repo),
            (_, Some(repo)) => Wanted::Id(repo.clone()),
        },
        Some("restore" | "cat") => match (environment, &parsed.paths[..]) {
            (None, []) => Wanted::Repository,
            (Some(repo), []) => Wanted::RepositoryOrId(repo),
            (Some(repo), [first, ..]) if !is_repository(&first) => Wanted::PathIn(repo, first.clone().into()),
            (_, [repo]) => Wanted::Id(repo.clone()),
            (_, [repo, id, ..]) => Wanted::PathIn(repo.clone(), id.clone().into()),
        },
        Some("diff") => {
            let mut paths = parsed.paths.into_iter().peekable();
            let repo = match environment {
                Some(repo) if paths.peek().is_none_or(|first| !is_repository(&first)) => Some((repo, true)),
                _ => paths.next().map(|repo| (repo, false)),
            };
            match (repo, paths.len()) {
                (None, _) => Wanted::Repository,
                (Some((repo, true)), 0) => Wanted::RepositoryOrId(repo),
                (Some((repo, _)), 0 | 1) => Wanted::Id(repo),
                // The path may be in either snapshot.
                (Some((repo, _)), _) => paths.next().map_or(Wanted::Static, |id| Wanted::PathIn(repo, id.into())),
            }
        }
        Some("du") if !parsed.has_snapshots => Wanted::Static,
        Some("verify" | "du") => match (environment, &parsed.paths[..]) {
            (None, []) => Wanted::Repository,
            (Some(repo), []) => Wanted::RepositoryOrId(repo),
            (Some(repo), [first, ..]) if !is_repository(&first) => Wanted::Id(repo),
            (_, [repo, ..]) => Wanted::Id(repo.clone()),
        },
        _ => Wanted::Static,
    }
}

struct Parsed {
    command: Option<String>,
    paths: Vec<PathBuf>,
    /// The option that the next word is a value of.
    option: Option<String>,
    /// Behind `--`: no further word is an option.
    is_literal: bool,
    /// `--snapshots` of `du`: the words are a repository and IDs.
    has_snapshots: bool,
}

impl Parsed {
    fn take(&mut self, word: &OsStr) {
        if self.option.is_some() {
            // bash makes a word of the sign in `--name=value`.
            if word != "=" {
                self.option = None;
            }
            return;
        }
        let text = word.to_string_lossy();
        match text.strip_prefix('-') {
            Some("-") => self.is_literal = true,
            Some("-snapshots") if !self.is_literal => self.has_snapshots = true,
            Some(rest) if !self.is_literal && !rest.is_empty() => self.option = self.option_of(rest),
            _ if self.command.is_none() => self.command = Some(text.into_owned()),
            _ => self.paths.push(Path::new(word).to_path_buf()),
        }
    }

    /// What the value of an option names.
    fn value(&self, option: &str, environment: Option<PathBuf>) -> Wanted {
        match (self.command.as_deref(), option) {
            (Some("snapshot"), "parent") => {
                environment.or_else(|| self.paths.last().cloned()).map_or(Wanted::IdOfUnknown, Wanted::Id)
            }
            _ => Wanted::Static,
        }
    }

    /// The option of a word, without its first hyphen, if its value is in the next one.
    fn option_of(&self, word: &str) -> Option<String> {
        let cli = Cli::command();
        let of_command = self.command.as_ref().and_then(|name| cli.find_subcommand(name));
        let all = || of_command.into_iter().flat_map(|command| command.get_arguments()).chain(cli.get_arguments());
        let found = |is: &dyn Fn(&Arg) -> bool| {
            let option = all().find(|arg| is(arg) && arg.get_action().takes_values());
            option.map(|arg| arg.get_long().unwrap_or_default().to_string())
        };
        match word.strip_prefix('-') {
            Some(long) => found(&|arg| arg.get_long() == Some(long)),
            // Of `-vj`, the last letter; in `-j4` the value is there.
            None => word.chars().last().and_then(|letter| found(&|arg| arg.get_short() == Some(letter))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, environment: Option<&str>) -> Wanted {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        wanted(&words, environment.map(PathBuf::from))
    }

    #[test]
    fn a_restore_wants_a_repository_then_a_snapshot_then_paths_in_it() {
        assert_eq!(of("restore ", None), Wanted::Repository);
        assert_eq!(of("restore /r 20", None), Wanted::Id("/r".into()));
        assert_eq!(of("restore -v --target /t -j 4 /r ", None), Wanted::Id("/r".into()));
        assert_eq!(
            of("--json restore --overwrite = never /r latest /ho", None),
            Wanted::PathIn("/r".into(), "latest".into())
        );
        assert_eq!(of("restore -- -r ", None), Wanted::Id("-r".into()));
        assert_eq!(of("restore ", Some("/e")), Wanted::RepositoryOrId("/e".into()));
        assert_eq!(of("restore latest /h", Some("/e")), Wanted::PathIn("/e".into(), "latest".into()));
        assert_eq!(of("restore /r la", Some("/e")), Wanted::Id("/r".into()));
        assert_eq!(of("restore latest:/h /h", Some("/e")), Wanted::PathIn("/e".into(), "latest:/h".into()));
    }

    #[test]
    fn the_commands_on_snapshots_want_what_restore_wants() {
        assert_eq!((of("diff ", None), of("diff /r 2", None)), (Wanted::Repository, Wanted::Id("/r".into())));
        assert_eq!(of("diff /r a l", None), Wanted::Id("/r".into()));
        assert_eq!(of("diff /r a live /h", None), Wanted::PathIn("/r".into(), "a".into()));
        assert_eq!(of("diff ", Some("/e")), Wanted::RepositoryOrId("/e".into()));
        assert_eq!(of("diff --stat a b", Some("/e")), Wanted::Id("/e".into()));
        assert_eq!(of("diff a b /h", Some("/e")), Wanted::PathIn("/e".into(), "a".into()));
        assert_eq!(of("diff /r ", Some("/e")), Wanted::Id("/r".into()));
        assert_eq!(of("log /r /h", None), Wanted::PathIn("/r".into(), "latest".into()));
        assert_eq!(of("log /h", Some("/e")), Wanted::PathIn("/e".into(), "latest".into()));
        assert_eq!(of("cat /r a /h", None), Wanted::PathIn("/r".into(), "a".into()));
        assert_eq!((of("find ", None), of("find /r x", None)), (Wanted::Repository, Wanted::Static));
    }

    #[test]
    fn a_verification_wants_a_repository_then_snapshots() {
        assert_eq!(of("verify ", None), Wanted::Repository);
        assert_eq!(of("verify --read 5% /r 20 la", None), Wanted::Id("/r".into()));
        assert_eq!(of("verify ", Some("/e")), Wanted::RepositoryOrId("/e".into()));
        assert_eq!(of("verify latest 2", Some("/e")), Wanted::Id("/e".into()));
        assert_eq!(of("verify /r 2", Some("/e")), Wanted::Id("/r".into()));
    }

    #[test]
    fn disk_usage_wants_snapshots_only_if_asked_for_them() {
        assert_eq!((of("du /r ", None), of("du /r ", Some("/e"))), (Wanted::Static, Wanted::Static));
        assert_eq!(of("du --snapshots ", None), Wanted::Repository);
        assert_eq!(of("du /r --snapshots 2", None), Wanted::Id("/r".into()));
        assert_eq!(of("du --snapshots /r a 2", None), Wanted::Id("/r".into()));
        assert_eq!(of("du --snapshots ", Some("/e")), Wanted::RepositoryOrId("/e".into()));
    }

    #[test]
    fn the_shell_completes_everything_else() {
        for line in ["", "li", "restore --ta", "restore /r --target /t", "list /r ", "copy /a ", "snapshot --name x"] {
            assert_eq!(of(line, None), Wanted::Static, "{line}");
        }
        assert_eq!(of("list /b", None), Wanted::Repository);
        assert_eq!((of("run --dry-run ho", None), of("run ./ho", None)), (Wanted::Profile, Wanted::Static));
        assert_eq!(of("snapshot /home /r --parent 2", None), Wanted::Id("/r".into()));
        assert_eq!(of("snapshot --parent 2", Some("/e")), Wanted::Id("/e".into()));
        assert_eq!(of("snapshot --parent ", None), Wanted::IdOfUnknown);
        let value = |wanted| Wanted::Value("--parent=".into(), Box::new(wanted));
        assert_eq!(of("snapshot --parent=2", Some("/e")), value(Wanted::Id("/e".into())));
        assert_eq!(of("snapshot /home /r --parent=", None), value(Wanted::Id("/r".into())));
        assert_eq!(of("snapshot --name=2", None), Wanted::Static);
    }
}
