//! The words for groups of shared data. The legends of pictures use them too.

use crate::extents::picture::{GROUPS, Names, shorten};
use crate::extents::sharing::{Amount, Group, Sharing};
use crate::util::text::{count, counted, size};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The sharing of files, and the names of the files.
pub(crate) struct SharingReport<'a> {
    pub(super) sharing: &'a Sharing,
    pub(super) paths: &'a [PathBuf],
    names: Names,
}

impl<'a> SharingReport<'a> {
    /// A report on the sharing of these files, in the order in which they were added.
    pub(crate) fn new(sharing: &'a Sharing, paths: &'a [PathBuf]) -> Self {
        let names = Names::of(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        SharingReport { sharing, paths, names }
    }

    pub(crate) fn sharing(&self) -> &Sharing {
        self.sharing
    }

    /// The common part of all paths.
    pub(crate) fn common(&self) -> &str {
        &self.names.common
    }

    /// A file's name, without the common part of all paths.
    pub(crate) fn name(&self, file: usize) -> &str {
        self.names.names.get(file).map_or("", String::as_str)
    }

    /// The data that the files of a group share, in words: `12.0 MiB in 3 files`.
    pub(crate) fn size_of(&self, group: &Group) -> String {
        let of = match group.file_count {
            1 => "more than once in one file".to_string(),
            files => format!("in {}", counted(u64::from(files), "file")),
        };
        format!("{} {of}", amount(group.amount))
    }

    /// The names of a group's files, as many as fit into this number of columns.
    pub(crate) fn members(&self, group: &Group, columns: usize) -> String {
        if !group.is_listed() {
            return "(not listed)".to_string();
        }
        let (mut members, mut used) = (String::new(), 0);
        for (n, file) in group.files.iter().enumerate() {
            let left = group.files.len() - n;
            let name = shorten(self.name(file.index()), columns.clamp(1, 60));
            let gap = if n == 0 { "" } else { ", " };
            let more = if left > 1 { format!(", and {} more", count(left as u64 - 1)) } else { String::new() };
            used += gap.len() + width(&name);
            if n > 0 && used + more.len() > columns {
                let _ = write!(members, ", and {} more", count(left as u64));
                break;
            }
            let _ = write!(members, "{gap}{name}");
        }
        members
    }

    /// The data shared by all groups together.
    pub(crate) fn in_common(&self) -> String {
        format!("{} in common", amount(sum(&self.sharing.groups)))
    }

    /// The data shared by the groups without a letter, and the number of these groups.
    pub(crate) fn others(&self) -> Option<String> {
        let others = self.sharing.groups.get(GROUPS..).filter(|others| !others.is_empty())?;
        Some(format!("{} in {}", amount(sum(others)), counted(others.len() as u64, "more group")))
    }
}

fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// The name of a group: its letter in pictures if it has one, else its number.
pub(crate) fn name_of(group: usize) -> String {
    match letter(group) {
        Some(letter) => letter.to_string(),
        None => (group + 1).to_string(),
    }
}

/// The letter of a group, if it has one.
pub(crate) fn letter(group: usize) -> Option<char> {
    (group < GROUPS).then(|| char::from(b'A' + group as u8))
}

/// An amount of shared data, in words.
pub(crate) fn amount(amount: Amount) -> String {
    match amount {
        Amount { bytes, encoded_bytes: 0 } => size(bytes),
        Amount { bytes: 0, encoded_bytes } => format!("up to {} (compressed)", size(encoded_bytes)),
        Amount { bytes, encoded_bytes } => format!("{} and up to {} (compressed)", size(bytes), size(encoded_bytes)),
    }
}

pub(super) fn sum(groups: &[Group]) -> Amount {
    groups.iter().fold(Amount::default(), |sum, group| Amount {
        bytes: sum.bytes.saturating_add(group.amount.bytes),
        encoded_bytes: sum.encoded_bytes.saturating_add(group.amount.encoded_bytes),
    })
}
