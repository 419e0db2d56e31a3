//! The views of several files together that `fiemap` offers: `--shared-with`, `--map`, `--svg`. Collects extents during
//! the listing, and shows the views when all files have been read.

use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::extents::extent;
use crate::extents::picture::{self, Layout, Sketch};
use crate::extents::sharing::{self, FileId, Holdings, Sharing};
use crate::fiemap::{File, Stats};
use crate::monitor::Monitor;
use crate::program::cli;
use crate::program::output::fiemap::{ExtentListing, Total};
use crate::program::output::map::{self, Columns, Look};
use crate::program::output::sharing::{self as tables, SharingReport};
use crate::program::output::{Output, svg, terminal};
use crate::util::text::{self, counted};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A listing, and the views that the user wants with it.
pub(super) struct Views<'a> {
    output: &'a Output,
    listing: Option<Box<dyn ExtentListing + 'a>>,
    wanted: Option<Wanted<'a>>,
    collected: Collected,
}

#[derive(Clone, Copy)]
struct Wanted<'a> {
    shared_with: bool,
    map: bool,
    svg: Option<&'a Path>,
}

struct Collected {
    holdings: Holdings,
    sketch: Sketch,
    paths: Vec<PathBuf>,
    sizes: Vec<u64>,
    inodes: HashSet<(u64, u64)>,
    /// The file that is being read; `None` if it was already read under another name.
    file: Option<FileId>,
    other_names: u64,
}

impl<'a> Views<'a> {
    /// The listing in this format, and the views that these arguments ask for. For people, views replace the listing;
    /// objects for scripts stay.
    ///
    /// # Errors
    /// If the picture cannot be written to the path that the user gave.
    pub(super) fn new(args: &'a cli::Fiemap, listing: Box<dyn ExtentListing + 'a>, output: &'a Output) -> Result<Self> {
        let wanted = Wanted { shared_with: args.shared_with, map: args.map, svg: args.svg.as_deref() };
        let wanted = Some(wanted).filter(|wanted| wanted.shared_with || wanted.map || wanted.svg.is_some());
        if let Some(path) = wanted.and_then(|wanted| wanted.svg).filter(|path| !is_stdout(path)) {
            svg::check(path)?;
        }
        let rows = match wanted {
            Some(Wanted { map: true, .. }) => map::ROWS,
            Some(Wanted { svg: Some(_), .. }) => svg::ROWS,
            _ => 0,
        };
        let collected = Collected {
            holdings: Holdings::default(),
            sketch: Sketch::new(rows),
            paths: Vec::new(),
            sizes: Vec::new(),
            inodes: HashSet::new(),
            file: None,
            other_names: 0,
        };
        let listing = Some(listing).filter(|_| wanted.is_none() || output.is_json());
        Ok(Views { output, listing, wanted, collected })
    }

    /// Shows the views, now that all files have been read.
    ///
    /// # Errors
    /// If the picture cannot be written, or the user asks to stop.
    pub(super) fn show(&mut self, monitor: &dyn Monitor) -> Result<()> {
        let (Some(wanted), false) = (self.wanted, self.collected.paths.is_empty()) else { return Ok(()) };
        let holdings = std::mem::take(&mut self.collected.holdings);
        let Collected { sketch, paths, sizes, other_names, .. } = &self.collected;
        if *other_names > 0 {
            let names = counted(*other_names, "other name");
            let sentence = format!("{names} of files that were named already: each file is compared once");
            self.output.notice("named-twice", None, &sentence);
        }
        let sharing = sharing::find(holdings, &sharing::Options::default(), monitor)?;
        let report = SharingReport::new(&sharing, paths);
        if wanted.map {
            self.map(&report, sketch, sizes, monitor)?;
        }
        if wanted.shared_with {
            if wanted.map {
                self.output.line("");
            }
            tables::show(self.output, &report, monitor)?;
        }
        if let Some(path) = wanted.svg {
            self.picture(path, &report, sketch, monitor)?;
        }
        Ok(())
    }

    fn map(&self, report: &SharingReport<'_>, sketch: &Sketch, sizes: &[u64], monitor: &dyn Monitor) -> Result<()> {
        let look =
            Look { width: terminal::stdout_width(), colours: self.output.colours(), unicode: terminal::is_utf8() };
        let drawn = sizes.len().min(map::ROWS);
        let columns = Columns::of((0..drawn).map(|n| report.name(n)), sizes[..drawn].iter().copied(), look.width);
        let options = picture::Options { cells: columns.bar, rows: map::ROWS, spans: 0, bands: 0 };
        let layout = picture::lay_out(sketch, report.sharing(), &options, monitor)?;
        map::lines(report, &layout, columns, look).iter().for_each(|line| self.output.line(line));
        Ok(())
    }

    fn picture(&self, path: &Path, report: &SharingReport<'_>, sketch: &Sketch, monitor: &dyn Monitor) -> Result<()> {
        let layout = svg_layout(sketch, report.sharing(), monitor)?;
        let picture = svg::render(report, &layout);
        if is_stdout(path) {
            self.output.text(picture.as_bytes());
            return Ok(());
        }
        svg::save(path, &picture)?;
        let files = counted(layout.rows.len() as u64, "file");
        self.output.info(&format!("{files} drawn in {}", text::path(path)));
        Ok(())
    }
}

fn svg_layout(sketch: &Sketch, sharing: &Sharing, monitor: &dyn Monitor) -> Result<Layout> {
    let options = picture::Options { cells: svg::CELLS, rows: svg::ROWS, spans: svg::SPANS, bands: svg::BANDS };
    picture::lay_out(sketch, sharing, &options, monitor)
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

impl ExtentListing for Views<'_> {
    fn begin(&mut self, file: &File) -> Result<()> {
        if self.wanted.is_some() {
            self.collected.begin(file)?;
        }
        self.listing.as_mut().map_or(Ok(()), |listing| listing.begin(file))
    }

    fn extent(&mut self, extent: &extent::Reported) {
        if let Some(file) = self.collected.file {
            let extent = extent.extent();
            self.collected.holdings.add(file, &extent);
            self.collected.sketch.add(&extent);
        }
        if let Some(listing) = &mut self.listing {
            listing.extent(extent);
        }
    }

    fn end(&mut self, file: &File, stats: &Stats) -> Result<()> {
        self.listing.as_mut().map_or(Ok(()), |listing| listing.end(file, stats))?;
        self.collected.file = None;
        Ok(())
    }

    fn break_off(&mut self) {
        self.collected.withdraw();
        if let Some(listing) = &mut self.listing {
            listing.break_off();
        }
    }

    fn summarize(&mut self, total: &Total) {
        if let Some(listing) = &mut self.listing {
            listing.summarize(total);
        }
    }
}

impl Collected {
    fn begin(&mut self, file: &File) -> Result<()> {
        self.file = None;
        let failed = |errno| Error::io("query the filesystem of", file.path(), errno);
        let addresses = AddressSpace::of(file).map_err(failed)?;
        let status = file.status();
        if !self.inodes.insert((status.dev, status.ino)) {
            self.other_names += 1;
            return Ok(());
        }
        self.file = Some(self.holdings.begin(addresses));
        self.sketch.begin(file.path(), file.size());
        self.paths.push(file.path().to_path_buf());
        self.sizes.push(file.size());
        Ok(())
    }

    /// Discards the data of the file that is being read.
    fn withdraw(&mut self) {
        if self.file.take().is_some() {
            self.holdings.withdraw_last();
            self.sketch.withdraw_last();
            self.paths.pop();
            self.sizes.pop();
        }
    }
}
