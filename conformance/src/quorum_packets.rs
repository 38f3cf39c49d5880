//! Cuts what a leader sends to its follower into packets.

use bytes::{Buf, Bytes, BytesMut};

/// Cuts a stream into packets. It must see the stream from its beginning.
#[derive(Debug, Default)]
pub(crate) struct QuorumPackets {
    /// Whether a snapshot follows, which is not a packet.
    is_in_snapshot: bool,
}

/// A packet, or a piece of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QuorumPacket {
    pub(crate) bytes: Bytes,
    /// Whether the follower handles it in the order of commits: it is a commit, or the reply to a
    /// `sync`, which comes after all earlier commits.
    pub(crate) is_in_order_of_commits: bool,
}

const COMMIT: i32 = 4;
const SYNC: i32 = 7;
const INFORM: i32 = 8;
const COMMIT_AND_ACTIVATE: i32 = 9;
const SNAP: i32 = 15;

/// The signature that a leader writes after a snapshot: a string after its length.
const SNAPSHOT_ENDS: &[u8] = b"\0\0\0\x0aBenWasHere";

impl QuorumPackets {
    /// The next packet, if it is complete.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Option<QuorumPacket> {
        if self.is_in_snapshot {
            return self.next_of_snapshot(input);
        }
        let (packet_type, length) = packet_type_and_length(input)?;
        let bytes = input.split_to(length).freeze();
        self.is_in_snapshot = packet_type == SNAP;
        let is_in_order_of_commits =
            matches!(packet_type, COMMIT | SYNC | INFORM | COMMIT_AND_ACTIVATE);
        Some(QuorumPacket { bytes, is_in_order_of_commits })
    }

    fn next_of_snapshot(&mut self, input: &mut BytesMut) -> Option<QuorumPacket> {
        let end = input.windows(SNAPSHOT_ENDS.len()).position(|window| window == SNAPSHOT_ENDS);
        let length = match end {
            Some(end) => end + SNAPSHOT_ENDS.len(),
            // The signature may not be complete yet.
            None => input.len().saturating_sub(SNAPSHOT_ENDS.len()),
        };
        self.is_in_snapshot = end.is_none();
        let bytes = input.split_to(length).freeze();
        (!bytes.is_empty()).then_some(QuorumPacket { bytes, is_in_order_of_commits: false })
    }
}

/// The type and the length of the first packet of `input`, if it is complete.
fn packet_type_and_length(input: &[u8]) -> Option<(i32, usize)> {
    let mut rest = input;
    let packet_type = rest.try_get_i32().ok()?;
    let _zxid = rest.try_get_i64().ok()?;
    skip_buffer(&mut rest)?;
    let identities = rest.try_get_i32().ok()?;
    for _ in 0..identities {
        // The scheme and the id.
        skip_buffer(&mut rest)?;
        skip_buffer(&mut rest)?;
    }
    Some((packet_type, input.len() - rest.len()))
}

/// Skips a length and as many bytes. The length -1 stands for null.
fn skip_buffer(rest: &mut &[u8]) -> Option<()> {
    let length = usize::try_from(rest.try_get_i32().ok()?).unwrap_or(0);
    *rest = rest.get(length..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    fn packet(packet_type: i32, data: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_i32(packet_type);
        bytes.put_i64(7);
        bytes.put_i32(data.map_or(-1, |data| i32::try_from(data.len()).expect("short")));
        bytes.put_slice(data.unwrap_or_default());
        bytes.put_i32(1);
        bytes.put_slice(b"\0\0\0\x05world\0\0\0\x06anyone");
        bytes
    }

    #[test]
    fn packets_are_decoded_however_the_stream_is_cut() {
        let commit = packet(COMMIT, None);
        let sent = [packet(SNAP, Some(b"12")), b"anything".to_vec(), SNAPSHOT_ENDS.to_vec()];
        let all = [&sent.concat()[..], &commit, &packet(2, Some(b"proposal"))].concat();
        let (mut packets, mut input, mut output) =
            (QuorumPackets::default(), BytesMut::new(), Vec::new());
        let mut in_order_of_commits = Vec::new();
        for byte in &all {
            input.put_u8(*byte);
            while let Some(packet) = packets.next(&mut input) {
                output.extend_from_slice(&packet.bytes);
                if packet.is_in_order_of_commits {
                    in_order_of_commits.push(packet.bytes);
                }
            }
        }
        assert_eq!(output, all);
        assert_eq!(in_order_of_commits, [commit]);
    }
}
