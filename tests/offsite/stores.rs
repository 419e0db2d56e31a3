//! The stores: a directory, and one behind each kind of server. restic, and for Azure a copy by rclone, are the
//! witnesses.

use crate::harness::server::{Server, is_installed, until_success};
use crate::harness::sshd::Sshd;
use crate::harness::*;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The password of every store. No message and no command line may contain it.
pub(crate) const PASSWORD: &str = "Tr0ub4dor&3-password";
/// The secret key of every server that has one.
pub(super) const KEY: &str = "s3cr3tKeyThatNobodyMaySee";
/// The key of Azurite's well-known account.
const AZURE_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The kinds of stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Backend {
    Local,
    Sftp,
    Rest,
    S3,
    Azure,
}

impl Backend {
    /// The programs that serve and examine it.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Backend::Local => &["restic"],
            Backend::Sftp => &["restic", "sshd"],
            Backend::Rest => &["restic", "rclone"],
            Backend::S3 => &["restic", "rclone", "weed"],
            Backend::Azure => &["restic", "rclone", "azurite-blob"],
        }
    }
}

/// The keys and the configuration of a store: `pleach offsite init` made them, and then the master key was encrypted
/// again, by a key that scrypt derives from [`PASSWORD`] with `N` = 2. For a real store, it takes each command half a
/// second to derive its key.
fn quick() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/store")
}

/// The file with the quick key.
fn quick_key() -> PathBuf {
    tools::files(&quick().join("keys")).remove(0)
}

/// Replaces the key of an empty store in a directory by the quick one. In place, so that owner and mode stay.
pub(crate) fn take_quick_key(store: &Path) {
    let (old, quick_key) = (tools::files(&store.join("keys")).remove(0), quick_key());
    fs::write(&old, fs::read(&quick_key).unwrap()).unwrap();
    fs::write(store.join("config"), fs::read(quick().join("config")).unwrap()).unwrap();
    fs::rename(old, store.join("keys").join(quick_key.file_name().unwrap())).unwrap();
}

/// Makes an empty store in a directory, as `pleach offsite init` does, with a quick key.
fn make_quick_store(store: &Path) {
    let parts = (0..=u8::MAX).map(|part| format!("data/{part:02x}"));
    for name in parts.chain(["index", "keys", "snapshots"].map(String::from)) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(store.join(name)).unwrap();
    }
    for file in [quick().join("config"), quick_key()] {
        fs::copy(&file, store.join(file.strip_prefix(quick()).unwrap())).unwrap();
    }
}

/// A store with all that reaches it.
pub(super) struct Store {
    pub(super) url: String,
    backend: Backend,
    /// The home of the user who runs everything. Its path is short, because ssh puts a socket there.
    pub(super) home: tempfile::TempDir,
    /// The variables with the keys.
    keys: Vec<(&'static str, String)>,
    /// The words that run a program where the server is reached.
    enter: Vec<String>,
    pub(super) server: Option<Server>,
    /// Held while a SeaweedFS runs: its parts talk through sockets in `/tmp` that have the same names for each, so two
    /// at once would write into each other's stores.
    _alone: Option<MutexGuard<'static, ()>>,
    pub(super) sshd: Option<Sshd>,
}

impl Store {
    /// A store that has not been made yet. Its server's files are in the scratch directory.
    #[track_caller]
    pub(super) fn start(fs: &Filesystem, backend: Backend) -> Store {
        Store::start_in(fs, &fs.join("store"), backend)
    }

    /// The same in this directory, which may be on another filesystem.
    #[track_caller]
    pub(super) fn start_in(fs: &Filesystem, dir: &Path, backend: Backend) -> Store {
        for program in backend.programs() {
            assert!(is_installed(program) || *program == "sshd", "{program} is missing: run `cargo xtask test`");
        }
        let mut store = Store {
            url: String::new(),
            backend,
            home: tempfile::tempdir().unwrap(),
            keys: Vec::new(),
            enter: Vec::new(),
            server: None,
            _alone: None,
            sshd: None,
        };
        let shown = dir.display();
        match backend {
            Backend::Local => store.url = shown.to_string(),
            Backend::Sftp => {
                let sshd = Sshd::start(fs.join("host"));
                let keys = sshd.home().join(".ssh");
                fs::create_dir_all(&keys).unwrap();
                fs::copy(sshd.file("config"), keys.join("config")).unwrap();
                store.url = format!("sftp:nas:{shown}");
                store.enter = sshd.enter();
                store.sshd = Some(sshd);
            }
            Backend::Rest => {
                fs::create_dir_all(dir).unwrap();
                let rclone = format!(
                    "rclone --config=/dev/null serve restic --addr=127.0.0.1:8000 --user=ann --pass={KEY} {shown}"
                );
                store.serve(Server::start(fs.join("rclone.log"), 8000, &rclone));
                store.url = "rest:http://127.0.0.1:8000/".into();
                store.keys = vec![("RESTIC_REST_USERNAME", "ann".into()), ("RESTIC_REST_PASSWORD", KEY.into())];
            }
            Backend::S3 => {
                static ALONE: Mutex<()> = Mutex::new(());
                store._alone = Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
                fs::create_dir_all(dir).unwrap();
                let config = serde_json::json!({"identities": [{
                    "name": "ann",
                    "credentials": [{"accessKey": "ANNSKEY", "secretKey": KEY}],
                    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                }]});
                fs::write(fs.join("s3.json"), config.to_string()).unwrap();
                let weed = format!(
                    "weed -logtostderr=true server -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.volumeSizeLimitMB=64 \
                     -master.volumePreallocate=false -volume.max=100 -s3 -s3.port=8333 -s3.config={} -dir={shown}",
                    fs.join("s3.json").display()
                );
                store.serve(Server::start(fs.join("weed.log"), 8333, &weed));
                store.url = "s3:http://127.0.0.1:8333/bucket/some/prefix".into();
                store.keys = vec![("AWS_ACCESS_KEY_ID", "ANNSKEY".into()), ("AWS_SECRET_ACCESS_KEY", KEY.into())];
                until_success(|| finish(&mut store.rclone(&["mkdir", "server:bucket"])));
                // Only after that its volumes are ready too. An empty object would need none.
                let object = fs.join("s3.json").display().to_string();
                until_success(|| finish(&mut store.rclone(&["copyto", &object, "server:bucket/other"])));
            }
            Backend::Azure => {
                fs::create_dir_all(dir).unwrap();
                let azurite = format!(
                    "azurite-blob --silent --skipApiVersionCheck --disableTelemetry --blobHost=127.0.0.1 \
                     --blobPort=10000 --location={shown}"
                );
                store.serve(Server::start(fs.join("azurite.log"), 10_000, &azurite));
                store.url = "azure:bucket:/some/prefix".into();
                store.keys = vec![
                    ("AZURE_ACCOUNT_NAME", "devstoreaccount1".into()),
                    ("AZURE_ACCOUNT_KEY", AZURE_KEY.into()),
                    ("AZURE_ENDPOINT", "http://127.0.0.1:10000/devstoreaccount1".into()),
                ];
                until_success(|| finish(&mut store.rclone(&["mkdir", "server:bucket"])));
            }
        }
        store
    }

    /// An empty store.
    #[track_caller]
    pub(super) fn made(fs: &Filesystem, backend: Backend) -> Store {
        let store = Store::start(fs, backend);
        match backend {
            Backend::Local | Backend::Rest | Backend::Sftp => make_quick_store(&fs.join("store")),
            Backend::S3 | Backend::Azure => store.send_quick_key(),
        }
        store
    }

    /// The same as [`take_quick_key`] for a store that `init` has made.
    #[track_caller]
    pub(super) fn take_quick_key(&self, dir: &Path) {
        match self.backend {
            Backend::Local | Backend::Rest | Backend::Sftp => take_quick_key(dir),
            Backend::S3 | Backend::Azure => self.send_quick_key(),
        }
    }

    /// Replaces keys and configuration by quick ones. Makes an empty store if there is none.
    #[track_caller]
    fn send_quick_key(&self) {
        let mut send = self.rclone(&["sync", "--include=/config", "--include=/keys/**"]);
        finish(send.arg(quick()).arg("server:bucket/some/prefix")).expect(0);
    }

    /// Reaches it through another server.
    pub(super) fn serve(&mut self, server: Server) {
        self.enter = server.enter();
        self.server = Some(server);
    }

    /// A program where the server is reached, with keys and password.
    pub(super) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words: Vec<OsString> = self.enter.iter().map(OsString::from).collect();
        words.push(program.as_ref().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let is_secret = |name: &str| {
            ["AWS_", "B2_", "AZURE_", "RESTIC_", "PLEACH_", "RCLONE_"].iter().any(|start| name.starts_with(start))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_secret)) {
            command.env_remove(name);
        }
        command.env("HOME", self.home.path()).env("XDG_CACHE_HOME", self.home.path().join("cache"));
        command.env("RESTIC_PASSWORD", PASSWORD).envs(self.keys.iter().cloned());
        command
    }

    /// `pleach offsite VERB --to URL`, in JSON, with further arguments.
    pub(super) fn pleach<A: AsRef<OsStr>>(&self, verb: &str, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_pleach"));
        command.args(["offsite", verb, "--json", "--to", &self.url]).args(args);
        command
    }

    /// Runs `pleach offsite` to its end.
    pub(super) fn run(&self, verb: &str, args: &[&OsStr]) -> Run {
        finish(&mut self.pleach(verb, args))
    }

    /// Pushes all missing snapshots, successfully.
    #[track_caller]
    pub(super) fn push(&self, repo: &Path) -> Run {
        self.run("push", &[repo.as_ref()]).expect(0)
    }

    /// rclone with the server as the remote `server`.
    fn rclone(&self, args: &[&str]) -> Command {
        let mut command = self.program("rclone");
        command.args(["--config=/dev/null", "--retries=1", "--low-level-retries=1"]).args(args);
        command.envs([
            ("RCLONE_CONFIG_SERVER_TYPE", if self.backend == Backend::S3 { "s3" } else { "azureblob" }),
            ("RCLONE_CONFIG_SERVER_PROVIDER", "Other"),
            ("RCLONE_CONFIG_SERVER_ENDPOINT", if self.backend == Backend::S3 { "http://127.0.0.1:8333" } else { "" }),
            ("RCLONE_CONFIG_SERVER_ACCESS_KEY_ID", "ANNSKEY"),
            ("RCLONE_CONFIG_SERVER_SECRET_ACCESS_KEY", KEY),
            ("RCLONE_CONFIG_SERVER_USE_EMULATOR", "true"),
        ]);
        command
    }

    /// Runs restic on the store.
    #[track_caller]
    pub(super) fn restic(&self, args: &[&OsStr]) -> Run {
        let mut url = self.url.clone();
        if self.backend == Backend::Azure {
            // It does not reach Azurite. No test lets it write.
            let copy = self.home.path().join("copy");
            finish(self.rclone(&["sync", "server:bucket/some/prefix"]).arg(&copy)).expect(0);
            url = copy.display().to_string();
        }
        if self.backend == Backend::Rest {
            // restic of Debian 12 knows no variables for these.
            url = url.replace("http://", &format!("http://ann:{KEY}@"));
        }
        let mut restic = self.program("restic");
        finish(restic.args(["--no-cache", "--repo", &url]).args(args))
    }

    /// Runs restic's own check, which reads and decrypts everything, successfully.
    #[track_caller]
    pub(super) fn assert_sound(&self) {
        let run = self.restic(&["check".as_ref(), "--read-data".as_ref()]).expect(0);
        assert!(run.stdout.contains("no errors were found"), "{run:?}");
    }

    /// Restores by restic, and returns where the root of the snapshot is.
    #[track_caller]
    pub(super) fn restic_restores(&self, id: &str, to: PathBuf) -> PathBuf {
        self.restic(&["restore".as_ref(), id.as_ref(), "--target".as_ref(), to.as_ref()]).expect(0);
        to
    }

    /// Restores by pleach, and returns where the root of the snapshot is.
    #[track_caller]
    pub(super) fn restores(&self, id: &str, to: PathBuf) -> PathBuf {
        self.run("restore", &["--target".as_ref(), to.as_ref(), id.as_ref()]).expect(0);
        to
    }
}
