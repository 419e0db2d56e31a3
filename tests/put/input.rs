//! The kinds of stdin: a pipe, a file here or elsewhere, from its beginning or later, a file of /proc.

use super::*;
use crate::on_filesystems;

on_filesystems! {
    [xfs, btrfs] fn a_file_on_the_same_filesystem_is_cloned_and_not_read(fs: &Filesystem) {
        let (source, dest) = (fs.join("source"), fs.join("dest"));
        let content = bytes(1, 5 * MIB + 77);
        write_synced(&source, &content);
        let before = places(&source);
        let run = in_shell(&format!("$PUT put --json \"$1\" < {}", source.display()), &dest).expect(0);
        assert_content(&dest, &content);
        assert_shared(&dest, &run.summary(), &before, content.len().div_ceil(BLOCK));
        assert_eq!(["read_bytes", "written_bytes"].map(|field| number(&run.summary(), field)), [0, 0]);
    }

    [xfs, btrfs] fn a_file_here_shares_with_the_last_version_what_is_equal(fs: &Filesystem) {
        let (source, dest) = (fs.join("source"), fs.join("dest"));
        let old = bytes(1, 5 * MIB + 77);
        write_synced(&dest, &old);
        let before = places(&dest);
        let new = with_blocks(&old, &[3, 900]);
        write_synced(&source, &new);
        let run = in_shell(&format!("$PUT put --json \"$1\" < {}", source.display()), &dest).expect(0);
        assert_content(&dest, &new);
        assert_eq!(shared(&places(&dest), &before), new.len().div_ceil(BLOCK) - 2, "{}", run.summary());
        assert_no_temporary(&dest);
    }

    fn a_file_from_elsewhere_is_read_and_what_is_equal_is_shared(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, dest) = (other.join("source"), fs.join("dest"));
        let old = bytes(1, 9 * MIB + 77);
        write_synced(&dest, &old);
        let before = places(&dest);
        let new = with_blocks(&old, &[3, 900]);
        write_synced(&source, &new);
        let hash = blake3(&new);
        let script = format!("$PUT put --json --expect-blake3 {hash} \"$1\" < {}", source.display());
        let run = in_shell(&script, &dest).expect(0);
        assert_content(&dest, &new);
        if fs.reflinks() {
            assert_shared(&dest, &run.summary(), &before, new.len().div_ceil(BLOCK) - 2);
        }
        assert_no_temporary(&dest);
    }

    fn a_file_is_taken_from_where_it_stands(fs: &Filesystem) {
        let (source, dest) = (fs.join("source"), fs.join("dest"));
        let content = bytes(1, 2 * MIB + 77);
        write_synced(&source, &content);
        for skipped in [1, 1000, BLOCK, 5 * BLOCK + 1, content.len()] {
            // The file's offset advances with the data read, as for any other reader.
            let skip = format!("dd status=none count=1 bs={skipped} > /dev/null");
            let script = format!("{{ {skip}; $PUT put --allow-empty \"$1\" && cat; }} < {}", source.display());
            let run = in_shell(&script, &dest).expect(0);
            assert_content(&dest, &content[skipped..]);
            assert!(run.stdout.starts_with("put ") && run.stdout.len() < 500, "nothing is left to read");
        }
    }

    fn files_that_tell_no_size_are_read_to_their_end(fs: &Filesystem) {
        let dest = fs.join("version");
        in_shell("$PUT put \"$1\" < /proc/version", &dest).expect(0);
        assert_content(&dest, &fs::read("/proc/version").expect("it can be read"));
    }

    fn a_slow_stream_in_little_pieces_is_taken_whole(fs: &Filesystem) {
        let dest = fs.join("slow");
        write_synced(&dest, &bytes(7, 10_000));
        in_shell("for i in {1..40}; do echo line $i; sleep 0.01; done | $PUT put \"$1\"", &dest).expect(0);
        let lines: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        assert_content(&dest, lines.as_bytes());
    }

    fn a_file_can_be_edited_in_place_through_a_pipe(fs: &Filesystem) {
        let dest = fs.join("text");
        let text: String = (0..60_000).map(|n| format!("this is line {n}\n")).collect();
        write_synced(&dest, text.as_bytes());
        in_shell("sed 's/line 5/LINE 5/' \"$1\" | $PUT put \"$1\"", &dest).expect(0);
        assert_content(&dest, text.replace("line 5", "LINE 5").as_bytes());
        in_shell("$PUT put \"$1\" < \"$1\"", &dest).expect(0);
        assert_content(&dest, text.replace("line 5", "LINE 5").as_bytes());
    }

    [xfs] fn an_input_that_nobody_can_have_meant_is_refused(fs: &Filesystem) {
        let dest = fs.join("dest");
        write(&dest, b"old");
        in_shell("$PUT put \"$1\" <&-", &dest).expect(1).saying("it is closed");
        in_shell("$PUT put \"$1\" < /", &dest).expect(2).saying("it is a directory");
        let other = fs.join("other");
        for content in [&b""[..], &bytes(1, MIB)] {
            write(&other, content);
            let run = in_shell(&format!("$PUT put \"$1\" 0>> {}", other.display()), &dest).expect(1);
            run.saying("cannot read the input: Bad file descriptor");
        }
        let said = in_shell("script -qec \"$PUT put '$1'\" /dev/null < /dev/null", &dest).expect(2).stdout;
        assert!(said.contains("cannot take the new content from a terminal"), "{said}");
        assert_content(&dest, b"old");
        in_shell("$PUT put --allow-empty \"$1\" < /dev/null", &dest).expect(0);
        assert_content(&dest, b"");
        assert_no_temporary(&dest);
    }
}

/// The hash in the form of `--expect-blake3`.
pub(super) fn blake3(content: &[u8]) -> String {
    ::blake3::hash(content).to_hex().to_string()
}
