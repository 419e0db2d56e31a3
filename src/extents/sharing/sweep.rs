//! The sweep of `intervals` over the pieces of all files: tracks the files at the present address, and the key of their
//! set. A visitor decides what to do at each place.

use super::holdings::{FileId, Holdings, Marked, Packed};
use super::set_key::{Keys, SetKey};
use crate::error::{Error, Result};
use crate::extents::intervals::{Bounds, Place, Sweep};
use crate::extents::ranges::Bytes;
use crate::monitor::Monitor;

/// The number of pieces between two checks of the monitor.
const BREATH: usize = 4096;

/// A place in a file that lies in a shared range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// The file.
    pub file: FileId,
    /// The offset in the file.
    pub logical: u64,
    /// The length in the file: that of the range, or for a compressed extent that of the file's piece.
    pub length: u64,
    /// Allocated there but not written: reads as zeros.
    pub is_unwritten: bool,
}

/// A stretch of addresses with the same holders from its beginning to its end, at least two; or a compressed extent.
pub(super) struct Segment<'a> {
    pub(super) physical: u64,
    /// For a compressed extent: the least that any file holds.
    pub(super) length: u64,
    pub(super) is_encoded: bool,
    /// The set of its files, and their number.
    pub(super) key: SetKey,
    pub(super) files: u32,
    /// The number of places that hold it.
    pub(super) places: usize,
    held: Held<'a>,
}

enum Held<'a> {
    Active(&'a [Active]),
    Token(&'a [Packed], u32),
}

impl Segment<'_> {
    /// The watched holders, in no particular order.
    pub(super) fn each_holder(&self, mut each: impl FnMut(Holder)) {
        let holder = |piece: &Packed, skipped: u64, length: u64| Holder {
            file: FileId(piece.by.file.number),
            logical: piece.by.logical.saturating_add(skipped),
            length,
            is_unwritten: piece.by.file.is_unwritten,
        };
        match self.held {
            Held::Active(active) => active.iter().for_each(|active| {
                each(holder(&active.piece, self.physical - active.piece.start(), self.length));
            }),
            Held::Token(pieces, watched) => {
                pieces
                    .iter()
                    .filter(|piece| piece.by.file.number < watched)
                    .for_each(|piece| each(holder(piece, 0, piece.length())));
            }
        }
    }
}

/// The actions on the way. `present` are the other files at that address, each once.
pub(super) trait Visitor {
    /// A stretch with at least two holders ends.
    fn segment(&mut self, _segment: &Segment<'_>) {}
    /// A file begins to be present.
    fn entered(&mut self, _file: u32, _at: u64, _present: &[u32]) {}
    /// A file is no longer present.
    fn left(&mut self, _file: u32, _at: u64, _present: &[u32]) {}
    /// A piece ends. `shared` is the number of its bytes that other pieces cover too.
    fn ended(&mut self, _piece: &Packed, _shared: u64) {}
    /// A file was present at several places at once, for this number of bytes.
    fn doubled(&mut self, _file: u32, _bytes: u64) {}
    /// At least two files hold pieces of a compressed extent: each file with its bytes.
    fn token(&mut self, _holders: &[(u32, u64)]) {}
}

/// Sweeps over all pieces. Only holders among the first `watched` files are reported with the segments.
pub(super) fn sweep(
    holdings: &Holdings,
    visitor: &mut impl Visitor,
    watched: u32,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut present = Present::new(&holdings.keys, holdings.file_count(), watched, visitor);
    for space in &holdings.spaces {
        let mut sweep = Sweep::new(&mut present);
        for pieces in space.plain.as_slice().chunks(BREATH) {
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            pieces.iter().for_each(|piece| sweep.begin(piece));
        }
        sweep.finish();
        present.shared = 0;
        for (n, pieces) in space.encoded.as_slice().chunk_by(|a, b| a.start() == b.start()).enumerate() {
            if n % BREATH == 0 && monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            token(pieces, &holdings.keys, watched, present.visitor);
        }
    }
    Ok(())
}

/// The pieces of one compressed extent, sorted by file.
fn token(pieces: &[Packed], keys: &Keys, watched: u32, visitor: &mut impl Visitor) {
    let of_files = pieces.chunk_by(|a, b| a.by.file.number == b.by.file.number);
    let bytes = |pieces: &[Packed]| pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.length()));
    let holders: Vec<_> = of_files.map(|pieces| (pieces[0].by.file.number, bytes(pieces))).collect();
    // Several pieces of an extent in a single file usually remain from an overwrite; they are not shared.
    if holders.len() < 2 {
        return pieces.iter().for_each(|piece| visitor.ended(piece, 0));
    }
    visitor.token(&holders);
    visitor.segment(&Segment {
        physical: pieces[0].start(),
        length: holders.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0),
        is_encoded: true,
        key: holders.iter().fold(SetKey::default(), |key, (file, _)| key.with(keys.of(*file))),
        files: holders.len() as u32,
        places: pieces.len(),
        held: Held::Token(pieces, watched),
    });
}

/// A piece that covers the present address.
#[derive(Clone, Copy)]
struct Active {
    piece: Packed,
    slot: usize,
}

/// Where to find an active piece, and the number of shared bytes when it began.
#[derive(Clone, Copy, Default)]
struct Slot {
    index: usize,
    is_watched: bool,
    shared_before: u64,
}

/// The pieces and files that cover the present address.
struct Present<'a, V> {
    keys: &'a Keys,
    watched_files: u32,
    visitor: &'a mut V,
    key: SetKey,
    places: usize,
    /// Watched pieces and others, both lists in no particular order.
    watched: Vec<Active>,
    others: Vec<Active>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The present files, in no particular order; and for each file its position in that list and the number of its
    /// present places.
    files: Vec<u32>,
    standing: Vec<(u32, u32)>,
    /// The address from which a file has been present more than once.
    doubled_since: Vec<u64>,
    /// The number of addresses passed that had at least two holders.
    shared: u64,
}

impl<'a, V: Visitor> Present<'a, V> {
    fn new(keys: &'a Keys, files: usize, watched_files: u32, visitor: &'a mut V) -> Self {
        Present {
            keys,
            watched_files,
            visitor,
            key: SetKey::default(),
            places: 0,
            watched: Vec::new(),
            others: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            files: Vec::new(),
            standing: vec![(0, 0); files],
            doubled_since: vec![0; files],
            shared: 0,
        }
    }
}

impl<V: Visitor> Bounds for Present<'_, V> {
    type Holder = Place<Marked>;
    /// The slot.
    type Open = usize;

    fn begins(&mut self, piece: &Packed) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let file = piece.by.file.number;
        let is_watched = file < self.watched_files;
        let list = if is_watched { &mut self.watched } else { &mut self.others };
        self.slots[slot] = Slot { index: list.len(), is_watched, shared_before: self.shared };
        list.push(Active { piece: *piece, slot });
        self.places += 1;
        let standing = &mut self.standing[file as usize];
        standing.1 += 1;
        match standing.1 {
            1 => {
                self.visitor.entered(file, piece.start(), &self.files);
                standing.0 = self.files.len() as u32;
                self.files.push(file);
                self.key = self.key.with(self.keys.of(file));
            }
            2 => self.doubled_since[file as usize] = piece.start(),
            _ => {}
        }
        slot
    }

    fn covers(&mut self, range: Bytes) {
        if self.places < 2 {
            return;
        }
        let length = range.end - range.start;
        self.shared = self.shared.saturating_add(length);
        self.visitor.segment(&Segment {
            physical: range.start,
            length,
            is_encoded: false,
            key: self.key,
            files: self.files.len() as u32,
            places: self.places,
            held: Held::Active(&self.watched),
        });
    }

    fn ends(&mut self, slot: usize, at: u64) {
        let Slot { index, is_watched, shared_before } = self.slots[slot];
        let list = if is_watched { &mut self.watched } else { &mut self.others };
        let piece = list.swap_remove(index).piece;
        if let Some(moved) = list.get(index) {
            self.slots[moved.slot].index = index;
        }
        self.free.push(slot);
        self.places -= 1;
        self.visitor.ended(&piece, self.shared - shared_before);
        let file = piece.by.file.number;
        let standing = &mut self.standing[file as usize];
        standing.1 -= 1;
        match standing.1 {
            0 => {
                let index = standing.0 as usize;
                self.files.swap_remove(index);
                if let Some(moved) = self.files.get(index) {
                    self.standing[*moved as usize].0 = index as u32;
                }
                self.key = self.key.without(self.keys.of(file));
                self.visitor.left(file, at, &self.files);
            }
            1 => self.visitor.doubled(file, at - self.doubled_since[file as usize]),
            _ => {}
        }
    }
}
