//! Data as a hex dump, in the form of Netty's `ByteBufUtil.prettyHexDump`, which `zkCli.sh` prints.

use std::fmt::Write;

const ROW_BYTES: usize = 16;

/// The dump, without a line end at its end; empty for no data.
pub(super) fn hex_dump(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let line = "+--------+-------------------------------------------------+----------------+";
    let mut text = format!(
        "         +-------------------------------------------------+\n\
         \x20        |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n{line}"
    );
    for (row, bytes) in data.chunks(ROW_BYTES).enumerate() {
        let hex: String = bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, " {byte:02x}");
            hex
        });
        let shown = |byte: &u8| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        };
        let characters: String = bytes.iter().map(shown).collect();
        let _ = write!(text, "\n|{:08x}|{hex:48} |{characters:16}|", row * ROW_BYTES);
    }
    text + "\n" + line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_beside_their_characters() {
        assert_eq!(hex_dump(b""), "");
        let expected = "         \
+-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 68 65 6c 6c 6f 0a ff 00 00 00 00 00 00 00 00 00 |hello...........|
|00000010| 7e                                              |~               |
+--------+-------------------------------------------------+----------------+";
        assert_eq!(hex_dump(b"hello\n\xff\0\0\0\0\0\0\0\0\0~"), expected);
    }
}
