//! The page in a browser without a window: it loads without a message on the console, in light and dark, on narrow and
//! wide screens, and on paper.

use super::{assert_harmless, assert_links_lead_somewhere, nights, page as page_of};
use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A run of the browser on a page, in a network namespace without any network.
#[track_caller]
fn browse(fs: &Filesystem, page: &Path, options: &[&str]) -> Run {
    let profile = fs.dir("browser");
    let mut browser = Command::new("timeout");
    browser.args(["120", "unshare", "--net", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    browser.args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"]);
    browser.args(["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--log-level=0"]);
    browser.arg(format!("--user-data-dir={}", profile.display())).args(options);
    browser.arg(format!("file://{}", page.display())).env("HOME", &profile);
    finish(&mut browser).expect(0)
}

/// Asserts that the page loads, and that the browser reports nothing about it: no error, no refused script, no request.
#[track_caller]
pub(super) fn assert_silent(fs: &Filesystem, page: &Path) -> String {
    let log = fs.join("net.json");
    let run = browse(fs, page, &[&format!("--log-net-log={}", log.display()), "--dump-dom"]);
    let console: Vec<_> = run.stderr.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, [""; 0], "messages on the console");
    assert!(run.stdout.contains("<h2 id=\"problems-h\">"), "the page is complete");
    let requests = fs::read_to_string(&log).expect("the browser logs its requests");
    let of_page = requests.split("\"url\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let foreign: Vec<_> = of_page.filter(|url| !is_of_the_browser(url) && !url.starts_with("file://")).collect();
    assert_eq!(foreign, [""; 0], "requests");
    run.stdout
}

/// Whether the browser asks for this by itself, whatever the page.
fn is_of_the_browser(url: &str) -> bool {
    let host = url.split('/').nth(2).unwrap_or_default().split(':').next().unwrap_or_default();
    ["google.com", "googleapis.com", "gstatic.com", "gvt1.com"]
        .iter()
        .any(|own| host == *own || host.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
        || url.starts_with("chrome")
}

on_filesystems! {
    [xfs] fn the_page_loads_nothing_and_looks_its_part_everywhere(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        nights(&source, &repo);
        let file = fs.join("page.html");
        let page = page_of(&repo, &file, 0);
        assert_harmless(&page);
        assert_links_lead_somewhere(&page);
        let dom = assert_silent(fs, &file);
        let landmarks = ["<header", "<nav aria-label", "<main", "<footer", "<html lang=\"en\"", "class=\"skip\""];
        for landmark in landmarks {
            assert!(dom.contains(landmark), "{landmark}");
        }
        let mut pictures = Vec::new();
        for (width, scheme) in [(360, 1), (1600, 1), (1600, 0)] {
            let picture = fs.join(format!("{width}-{scheme}.png"));
            let size = format!("--window-size={width},1400");
            let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
            browse(fs, &file, &[&size, &scheme, &format!("--screenshot={}", picture.display())]);
            pictures.push(fs::read(&picture).expect("a screenshot"));
        }
        assert!(pictures.iter().all(|picture| picture.starts_with(b"\x89PNG") && picture.len() > 10_000));
        assert_ne!(pictures[1], pictures[2], "dark is not light");
        let paper = fs.join("page.pdf");
        browse(fs, &file, &["--no-pdf-header-footer", &format!("--print-to-pdf={}", paper.display())]);
        let paper = fs::read(&paper).expect("a printed page");
        assert!(paper.starts_with(b"%PDF") && paper.len() > 10_000);
    }
}
