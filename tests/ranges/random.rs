//! Reproducible pseudo-random numbers and trees.

use super::*;

/// Reproducible pseudo-random numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Files made of pieces that are unique, occur elsewhere in whole or in part, repeat, or are zeros or holes; and clones
/// of files, partly overwritten.
pub(super) fn random_tree(dir: &Path, random: &mut Random) {
    let pool: Vec<_> = (0..6).map(|_| bytes(random.below(1 << 40), (8 + random.below(300) as usize) * BLOCK)).collect();
    for number in 0..7 {
        let path = dir.join(format!("{number}"));
        if number > 2 && random.below(3) == 0 {
            clone(&dir.join(random.below(number).to_string()), &path);
        } else {
            write(&path, b"");
            for _ in 0..1 + random.below(9) {
                append_piece(&path, &pool, random);
            }
        }
        let size = fs::metadata(&path).expect("the file is there").size();
        for _ in 0..random.below(4) {
            let at = random.below(size.max(1));
            overwrite(&path, at, &bytes(random.below(1 << 40), 1 + random.below(70_000) as usize));
        }
        if random.below(3) == 0 {
            append(&path, &bytes(random.below(1 << 40), random.below(BLOCK as u64) as usize));
        }
    }
}

fn append_piece(path: &Path, pool: &[Vec<u8>], random: &mut Random) {
    let blocks = |random: &mut Random, most: u64| (1 + random.below(most) as usize) * BLOCK;
    match random.below(6) {
        0 => append(path, &bytes(random.below(1 << 40), blocks(random, 200))),
        1 => append(path, &vec![0; blocks(random, 200)]),
        2 => {
            let one = bytes(random.below(4), blocks(random, 3));
            append(path, &one.iter().copied().cycle().take(blocks(random, 300)).collect::<Vec<_>>());
        }
        3 => {
            let file = File::options().write(true).open(path).expect("the file can be opened");
            let size = file.metadata().expect("the file has a size").len();
            file.set_len(size + blocks(random, 100) as u64).expect("the file can be longer");
        }
        _ => {
            let piece = &pool[random.below(pool.len() as u64) as usize];
            let from = random.below(piece.len() as u64 / 2) as usize / BLOCK * BLOCK;
            let to = from + 1 + random.below((piece.len() - from) as u64) as usize;
            let to = if random.below(4) == 0 { to } else { to.next_multiple_of(BLOCK).min(piece.len()) };
            append(path, &piece[from..to]);
        }
    }
}
