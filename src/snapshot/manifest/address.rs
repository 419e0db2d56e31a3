//! The address of a record in a manifest, to read it again later.

/// How many bits of an address are the record's offset in its block; the block's number has the rest of the 56 bits.
const OFFSET_BITS: u32 = 28;

/// A record's block, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(super) block: usize,
    pub(super) offset: u32,
}

impl Address {
    /// The address as a number below 2⁵⁶; `None` if it is too large for that.
    pub fn number(self) -> Option<u64> {
        let block = self.block as u64;
        (block >> OFFSET_BITS == 0 && self.offset >> OFFSET_BITS == 0)
            .then_some(block << OFFSET_BITS | u64::from(self.offset))
    }

    /// The address with this number.
    pub fn of_number(number: u64) -> Address {
        Address { block: (number >> OFFSET_BITS) as usize, offset: (number & ((1 << OFFSET_BITS) - 1)) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::manifest::{Body, Directory, Entry, Header, Item, Meta, Reader, Time, Totals, Writer};
    use std::fs::File;

    #[test]
    fn every_entry_is_found_again_at_its_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("manifest");
        let header = Header {
            name: "n".into(),
            created: Time::default(),
            program: "p".into(),
            host: "h".into(),
            sources: vec![],
            tags: vec![],
            parent: None,
        };
        let mut writer = Writer::create(File::create(&path).unwrap(), &path, &header).unwrap();
        for (parent, entries) in [("", 2), ("a", 5000), ("a/b", 3), ("c", 0), ("d", 1)] {
            let directory = Directory { path: parent.into(), scaffold: false, meta: Meta::default() };
            writer.push_directory(&directory).unwrap();
            for number in 0..entries {
                let name = format!("{number:06}").into_bytes();
                writer.push_entry(&Entry { name, meta: Meta::default(), body: Body::Fifo }).unwrap();
            }
        }
        writer.finish(&Totals::default()).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!(reader.blocks() > 1);
        let mut items = reader.items();
        let mut found = 0;
        while let Some(item) = items.next() {
            let address = Address::of_number(items.address().number().unwrap());
            match item.unwrap() {
                Item::Entry(entry) => {
                    assert_eq!(reader.entry_at(address).unwrap(), Some((items.directory().to_vec(), entry)));
                    found += 1;
                }
                Item::Directory(_) => assert_eq!(reader.entry_at(address).unwrap(), None),
            }
        }
        assert_eq!(found, 5006);
        assert_eq!(reader.entry_at(Address { block: 1000, offset: 0 }).unwrap(), None);
        assert_eq!(Address { block: 1 << 28, offset: 0 }.number(), None);
    }
}
