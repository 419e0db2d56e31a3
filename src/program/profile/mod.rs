//! Profiles: the TOML files that say what `pleach run` does.
//!
//! `find` finds and opens the file, and refuses files that others can write. `fields` reads keys with their place in
//! the file, so that each mistake is reported with its line and column. Each section has a file of its own: its keys,
//! their types and defaults, and its values for `--show`.
//!
//! To add a section, write such a file, add a line to `sections` and to `Profile::shown` below, and a step for it in
//! `commands/run/step.rs`.

mod dedupe;
mod fields;
mod find;
#[cfg(feature = "testing")]
pub(super) mod fuzz;
mod hooks;
mod metrics;
mod nearest;
mod process;
mod prune;
mod replicate;
mod show;
mod snapshot;
mod values;
mod verify;

pub(crate) use dedupe::Dedupe;
pub(crate) use find::{File, names, open};
pub(crate) use hooks::{Command, Hooks};
pub(crate) use metrics::Metrics;
pub(crate) use process::Process;
pub(crate) use prune::Prune;
pub(crate) use replicate::Replicate;
pub(crate) use snapshot::Snapshot;
pub(crate) use verify::Verify;

use crate::error::Error;
use fields::{Fields, Key, Problem, Reader};
use serde::Serialize;
use show::Shown;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// A profile with every key that it does not need explained in comments, for `pleach init-profile`.
pub(crate) const TEMPLATE: &str = include_str!("template.toml");

/// A profile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) repository: Option<PathBuf>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) verify: Option<Verify>,
    pub(crate) prune: Option<Prune>,
    pub(crate) replicate: Option<Replicate>,
    pub(crate) dedupe: Option<Dedupe>,
    pub(crate) hooks: Hooks,
    pub(crate) metrics: Metrics,
    pub(crate) process: Process,
}

impl Profile {
    /// Reads the text of a profile.
    ///
    /// # Errors
    /// All mistakes in it, each with its line and column.
    pub(crate) fn read(text: &str, name: &str, path: &Path) -> Result<Profile, Vec<Error>> {
        let refuse = |problems: Vec<Problem>| problems.iter().map(|problem| refused(text, path, problem)).collect();
        let (table, repeated) = fields::parse(text).map_err(refuse)?;
        let reader = Reader::new(repeated, all_keys());
        let mut top = Fields::new(&reader, "", table.get_ref(), 0..0);
        let profile = sections(&mut top, name, path);
        top.finish();
        match reader.into_problems() {
            problems if problems.is_empty() => Ok(profile),
            problems => Err(refuse(problems)),
        }
    }

    /// The sections of a profile with mistakes by which a failure is reported: `[hooks]` and `[metrics]`, each only if
    /// it has no mistake. The result has no step. `None` if the text is not TOML.
    pub(crate) fn without_steps(text: &str, name: &str, path: &Path) -> Option<Profile> {
        let (table, repeated) = fields::parse(text).ok()?;
        if !repeated.is_empty() {
            return None;
        }
        let (hooks, metrics) = (Reader::default(), Reader::default());
        let read_hooks = Fields::new(&hooks, "", table.get_ref(), 0..0).section("hooks", Hooks::read);
        let read_metrics = Fields::new(&metrics, "", table.get_ref(), 0..0).section("metrics", Metrics::read);
        Some(Profile {
            name: name.to_string(),
            path: path.to_path_buf(),
            repository: None,
            snapshot: None,
            verify: None,
            prune: None,
            replicate: None,
            dedupe: None,
            hooks: read_hooks.filter(|_| hooks.into_problems().is_empty()).unwrap_or_default(),
            metrics: read_metrics.filter(|_| metrics.into_problems().is_empty()).unwrap_or_default(),
            process: Process::default(),
        })
    }

    /// The profile with all defaults, as TOML. It has the same meaning as the profile itself.
    pub(crate) fn toml(&self) -> String {
        show::toml(&self.path, &self.top(), &self.shown())
    }

    /// The profile with all defaults, as an object.
    pub(crate) fn object(&self) -> impl Serialize + use<> {
        let path = self.path.to_string_lossy();
        show::object(&[("type", "profile"), ("name", &self.name), ("path", &path)], &self.top(), &self.shown())
    }

    /// The keys before the first section.
    fn top(&self) -> Shown {
        vec![("repository", self.repository.clone().map_or_else(show::unset, Into::into))]
    }

    /// The sections. Those of steps are shown only if the profile has them.
    fn shown(&self) -> Vec<(&'static str, Shown)> {
        let sections = [
            ("snapshot", self.snapshot.as_ref().map(Snapshot::show)),
            ("verify", self.verify.as_ref().map(Verify::show)),
            ("prune", self.prune.as_ref().map(Prune::show)),
            ("replicate", self.replicate.as_ref().map(Replicate::show)),
            ("dedupe", self.dedupe.as_ref().map(Dedupe::show)),
            ("hooks", Some(self.hooks.show())),
            ("metrics", Some(self.metrics.show())),
            ("process", Some(self.process.show())),
        ];
        sections.into_iter().filter_map(|(name, values)| Some((name, values?))).collect()
    }
}

fn sections(top: &mut Fields<'_>, name: &str, path: &Path) -> Profile {
    let profile = Profile {
        name: name.to_string(),
        path: path.to_path_buf(),
        repository: top.optional("repository", values::absolute),
        snapshot: top.section("snapshot", Snapshot::read),
        verify: top.section("verify", Verify::read),
        prune: top.section("prune", Prune::read),
        replicate: top.section("replicate", Replicate::read),
        dedupe: top.section("dedupe", Dedupe::read),
        hooks: top.section("hooks", Hooks::read).unwrap_or_default(),
        metrics: top.section("metrics", Metrics::read).unwrap_or_default(),
        process: top.section("process", Process::read).unwrap_or_default(),
    };
    if !["snapshot", "verify", "prune", "replicate", "dedupe"].iter().any(|step| top.means(step)) {
        top.refuse("it has nothing to do: add a section [snapshot], [verify], [replicate] or [dedupe]");
    }
    let of_repository = ["snapshot", "verify", "replicate"].into_iter().find(|step| top.has(step));
    if let Some(step) = of_repository.filter(|_| !top.means("repository")) {
        top.refuse(&format!("the section [{step}] needs the key 'repository', before the first section"));
    }
    if top.has("prune") && !top.means("snapshot") {
        top.refuse("the section [prune] needs a section [snapshot]: a run removes snapshots only after a new one");
    }
    profile
}

/// The keys of all sections, and those before the first one.
fn all_keys() -> Vec<Key> {
    let (reader, empty) = (Reader::default(), DeTable::default());
    let fields = |section| Fields::new(&reader, section, &empty, 0..0);
    sections(&mut fields(""), "", Path::new(""));
    Snapshot::read(&mut fields("snapshot"));
    Verify::read(&mut fields("verify"));
    Prune::read(&mut fields("prune"));
    Replicate::read(&mut fields("replicate"));
    Dedupe::read(&mut fields("dedupe"));
    Hooks::read(&mut fields("hooks"));
    Metrics::read(&mut fields("metrics"));
    Process::read(&mut fields("process"));
    reader.known()
}

/// The error for a mistake.
fn refused(text: &str, path: &Path, problem: &Problem) -> Error {
    let place = fields::Place::of(text, problem.at.start);
    let cause = format!("line {}, column {}: {}", place.line, place.column, problem.message);
    let error = find::mistake(path, cause);
    match place.text.trim() {
        "" => error,
        shown => error.hint(format!("line {} is: {shown}", place.line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "repository = \"/backup\"\n[snapshot]\nsources = [\"/home\"]\n";

    fn read(text: &str) -> Result<Profile, Vec<String>> {
        Profile::read(text, "test", Path::new("/p.toml"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// The profile has one mistake, and the message for it contains this.
    #[track_caller]
    fn assert_only_mistake(text: &str, expected: &str) {
        let found = read(text).unwrap_err();
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].contains(expected), "{text}: {found:#?}");
    }

    #[test]
    fn all_mistakes_are_reported_with_their_line_and_column() {
        let text = "repository = \"backup\"\n[snapshot]\nsources = [\"/home\", \"etc\"]\n  exlude = [\"*.iso\"]\n\
                    require_sharing = \"101%\"\n[dedupe]\npaths = []\nmin_run = \"12Q\"\nmax_time = 5\n\
                    exclude = [\"[\"]\n\
                    [hoks]\nx = 1\n[metrics]\nfile = \"/a\"\n[process]\nnice = 99\nio = \"ilde\"\n";
        let starts = [
            "line 1, column 14: it is not an absolute path",
            "line 3, column 21: it is not an absolute path",
            "line 4, column 3: unknown key 'exlude' in [snapshot]; did you mean 'exclude'? (line 4 is: exlude = [",
            "line 5, column 19: expected a percentage",
            "line 7, column 9: expected at least one",
            "line 8, column 11: expected a size",
            "line 9, column 12: expected a string, found an integer",
            "line 10, column 12: cannot understand the pattern",
            "line 11, column 2: unknown section [hoks]; did you mean [hooks]?",
            "line 14, column 8: expected a name that ends in .prom",
            "line 16, column 8: expected an integer from -20 to 19",
            "line 17, column 6: expected 'idle' or 'low'; did you mean 'idle'?",
        ];
        let found = read(text).unwrap_err();
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            let start = format!("cannot use the profile /p.toml: {start}");
            assert!(found.starts_with(&start), "{start}\n{found}");
        }
    }

    #[test]
    fn wrong_syntax_and_missing_keys_are_reported() {
        for (text, expected) in [
            ("repository = \n", "line 1, column 14: "),
            ("repository = \"/a\"\nrepository = \"/b\"\n[verify]\n", "line 2, column 1: duplicate key"),
            ("repository = \"/b\"\n", "it has nothing to do"),
            ("", "it has nothing to do"),
            ("[snapshot]\nsources = [\"/a\"]\n", "needs the key 'repository'"),
            ("repository = \"/b\"\n[snapshot]\n", "line 2, column 1: [snapshot] needs the key 'sources'"),
            (
                "repository = \"/b\"\nsnapshot = 1\n",
                "line 2, column 12: expected a section [snapshot], found an integer",
            ),
            ("repository = \"/b\\u0000\"\n[dedupe]\npaths=[\"/a\"]", "line 1, column 14: the character NUL"),
            ("[dedupe]\npaths=[\"/a\"]\n[offsite]\nto = 1\n", "unknown section [offsite]"),
            ("[replicate]\nto = [\"/a\"]\n", "the section [replicate] needs the key 'repository'"),
            ("repository = \"/b\"\n[replicate]\n", "line 2, column 1: [replicate] needs the key 'to'"),
            ("repository = \"/b\"\n[replicate]\nto = \"/a\"\n", "line 3, column 6: expected an array"),
            ("repository = \"/b\"\n[replicate]\nto = []\n", "line 3, column 6: expected at least one"),
            ("repository = \"/b\"\n[replicate]\nto = [\"/a\", \"b\"]\n", "line 3, column 13: it is not an absolute"),
            ("repository = \"/b\"\n[replicate]\nto = [\"nas:/b\"]\n", "line 3, column 7: for another host, write"),
            ("repository = \"/b\"\n[replicate]\nto = [\"/a\"]\nlast = 0\n", "line 4, column 8: expected 1 or more"),
            ("repository = \"/b\"\n[replicate]\nto = [\"/a\"]\nfirst = 1\n", "unknown key 'first' in [replicate]"),
            ("repository = \"/b\"\n[prune]\nkeep_last = 1\n", "[prune] needs a section [snapshot]"),
            ("[verify]\n", "the section [verify] needs the key 'repository'"),
            ("repository = \"/b\"\n[verify]\nquick = true\nread = 5\n", "line 2, column 1: [verify] has 'read' and"),
            ("repository = \"/b\"\n[verify]\nread = \"0%\"\n", "line 3, column 8: expected more than 0 %"),
            ("[dedupe]\npaths=[\"/a\"]\nmin_run = 7\n", "line 3, column 11: it must be 512 or more"),
            ("[dedupe]\npaths=[\"/a\"]\nmin_run = \"99999999999T\"\n", "line 3, column 11: expected a size"),
            (
                "[dedupe]\npaths=[\"/a\"]\nmax_time = \"99999999999999999999y\"\n",
                "line 3, column 12: expected a duration",
            ),
            ("[dedupe]\npaths=[\"/a\"]\n[hooks]\nbefore = \"echo x\"\n", "line 4, column 10: expected an array"),
            ("[dedupe]\npaths=[\"/a\"]\n[hooks]\nbefore = [\"a\", [\"b\"]]\n", "line 4, column 16: expected a string"),
            ("[dedupe]\npaths=[\"/a\"]\n[hooks]\nbefore = [[]]\n", "line 4, column 11: expected a command"),
            ("[dedupe]\npaths=[\"/a\"]\n[hooks]\ntimeout = \"0s\"\n", "line 4, column 11: expected more than 0"),
        ] {
            assert_only_mistake(text, expected);
        }
        for (rules, expected) in [
            ("", "line 4, column 1: [prune] has no rule"),
            ("keep_daily = 0\nkeep_tag = []\nkeep_free = 0\n", "line 4, column 1: [prune] has no rule"),
            ("keep_daily = -1\n", "line 5, column 14: expected a whole number that is not negative"),
            ("keep_daily = \"7\"\n", "line 5, column 14: expected a whole number that is not negative, found a string"),
            ("keep_within = \"0d\"\n", "line 5, column 15: expected more than 0"),
            ("keep_tag = \"a\"\n", "line 5, column 12: expected an array, found a string"),
            ("keep_tag = [\"a,b\"]\n", "line 5, column 13: cannot use the tag 'a,b'"),
            ("keep_free = \"101%\"\n", "line 5, column 13: expected a percentage"),
        ] {
            let text = format!("{MINIMAL}[prune]\n{rules}");
            assert_only_mistake(&text, expected);
        }
    }

    #[test]
    fn only_the_first_mistake_in_the_syntax_is_reported_at_its_root() {
        for (text, expected) in [
            (
                "repository = \"/b\"\n[snapshot]\nsources = [\"/a\", \"/c\"\n\nexclude = [\"x\"]\n[prune]\n\
                 keep_last = 1\n",
                "line 3, column 22: the array is not closed: ']' is missing (line 3 is: sources = [\"/a\", \"/c\")",
            ),
            ("[dedupe]\npaths = [\"/a\"\n", "line 2, column 14: the array is not closed"),
            ("[dedupe]\npaths = [\n  \"/a\"\n  \"/b\"\n]\n", "line 4, column 3: missing comma"),
            ("[dedupe\npaths = [\"/a\"]\nmin_run = = 3\n", "line 1, column 8: unclosed table"),
            ("[dedupe]\npaths = [\"/a, \"/b\"]\nranges = \"auto\n", "line 2, column 16: missing comma"),
        ] {
            assert_only_mistake(text, expected);
        }
    }

    #[test]
    fn a_repeated_key_hides_no_other_mistake() {
        let text =
            "repository = \"/b\"\n[snapshot]\nsources = [\"/a\"]\nexlude = []\nsources = [\"/x\"]\nhash = \"newt\"\n";
        let starts = ["line 4, column 1: unknown key", "line 5, column 1: duplicate key", "line 6, column 8: expected"];
        let found = read(text).unwrap_err();
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        assert!(found.iter().zip(starts).all(|(found, start)| found.contains(start)), "{found:#?}");
    }

    #[test]
    fn a_misspelled_or_misplaced_name_is_one_mistake_with_the_right_place() {
        for (text, expected) in [
            ("repository = \"/b\"\n[Snapshot]\nsources = [\"/a\"]\n", "[Snapshot]; did you mean [snapshot]?"),
            ("repository = \"/b\"\n[Snapshot]\n[prune]\nkeep_last = 1\n", "did you mean [snapshot]?"),
            ("Repository = \"/b\"\n[verify]\n", "unknown key 'Repository'; did you mean 'repository'?"),
            ("[dedupe]\npath = [\"/a\"]\n", "unknown key 'path' in [dedupe]; did you mean 'paths'?"),
            (
                &format!("{MINIMAL}keep_daily = 7\n"),
                "unknown key 'keep_daily' in [snapshot]; it belongs in [prune] (line",
            ),
            (&format!("{MINIMAL}repository = \"/b\"\n"), "'repository' in [snapshot]; it belongs before the first"),
            (&format!("{MINIMAL}[verify]\nexclude = []\n"), "it belongs in [snapshot] or in [dedupe]"),
            (&format!("read = 5\n{MINIMAL}"), "unknown key 'read'; it belongs in [verify]"),
        ] {
            assert_only_mistake(text, expected);
        }
    }

    #[test]
    fn the_resolved_profile_is_a_profile_with_the_same_meaning() {
        let text = "repository = \"/b\\\"\\u007f\\u202e\"\n[snapshot]\nsources = [\"/home\", \"/etc\"]\n\
                    exclude = ['*.iso']\n\
                    require_sharing = 12.5\nexclude_older_than = \"10y\"\nexclude_larger_than = \"5K\"\n\
                    unchanged = \"hardlink\"\nfreeze = true\n\
                    [verify]\nread = \"2.5%\"\nsharing = true\n\
                    [prune]\nkeep_daily = 7\nkeep_within = \"36h\"\nkeep_tag = [\"a\"]\nkeep_free = \"12.5%\"\n\
                    [replicate]\nto = [\"/mnt/b\", \"ssh://ann@[::1]:22/b c\"]\nlast = 7\nskip_missing = true\n\
                    [dedupe]\npaths = [\"/srv\"]\nmax_time = \"1h30m\"\ncache = \"none\"\n\
                    [hooks]\nbefore = [[\"a\", \"b c\"], [\"d\"]]\nfailed = [\"mail\", \"root\"]\ntimeout = \"90s\"\n\
                    [metrics]\nfile = \"/m/x.prom\"\n[process]\nnice = -5\nio = \"idle\"\n";
        for text in [text, MINIMAL] {
            let profile = read(text).unwrap();
            let shown = profile.toml();
            assert_eq!(read(&shown), Ok(profile), "{shown}");
        }
        assert!(read(MINIMAL).unwrap().toml().contains("\nhash = \"new\"\n"));
        let hooks = read(text).unwrap().hooks;
        assert_eq!(hooks.before, [vec!["a", "b c"], vec!["d"]]);
        assert_eq!(hooks.failed, [vec!["mail", "root"]]);
    }

    #[test]
    fn the_template_is_a_profile_that_explains_every_key() {
        let plain = Profile::read(TEMPLATE, "template", Path::new("/t.toml")).unwrap();
        assert_eq!((plain.repository.as_deref(), plain.dedupe.is_some()), (Some(Path::new("/backup")), false));
        assert_eq!((&plain.hooks, &plain.process), (&Hooks::default(), &Process::default()));
        // With every key. A commented key begins behind the sign, prose behind a blank.
        let is_key = |line: &str| {
            line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c == '[' || c.is_ascii_lowercase()))
        };
        let full: String = TEMPLATE
            .lines()
            .map(|line| if is_key(line) { &line[1..] } else { line })
            .map(|l| format!("{l}\n"))
            .collect();
        let profile = Profile::read(&full, "template", Path::new("/t.toml"))
            .unwrap_or_else(|errors| panic!("{full}\n{errors:#?}"));
        assert!(
            profile.verify.is_some()
                && profile.prune.is_some()
                && profile.dedupe.is_some()
                && profile.replicate.is_some()
        );
        assert!(TEMPLATE.lines().all(|line| line.chars().count() <= 78));
        let reader = Reader::default();
        let (table, _) = fields::parse(&full).unwrap();
        sections(&mut Fields::new(&reader, "", table.get_ref(), 0..0), "", Path::new(""));
        let mut section = String::new();
        let mut written = Vec::new();
        for line in full.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']').to_string();
            } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
                written.push((section.clone(), key.to_string()));
            }
        }
        let known = reader.known().into_iter().map(|(section, key)| (section.to_string(), key.to_string()));
        let is_section = |(section, key): &(String, String)| section.is_empty() && key != "repository";
        for key in known.filter(|key| !is_section(key)) {
            assert_eq!(written.iter().filter(|written| **written == key).count(), 1, "{key:?} in the template");
        }
    }
}
