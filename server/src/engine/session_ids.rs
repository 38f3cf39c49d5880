//! Where a server begins to number its sessions.

use fastrand::Rng;
use zoolet_protocol::{SessionId, Zxid};

use super::clock::Clock;

/// The server id that a standalone ZooKeeper has.
const SERVER_ID: i64 = 1;

/// The bits of a session id below those of the time.
const BELOW_MILLISECONDS: i64 = 0xffff;

/// The times that seeds give are below this, so that the ids count upwards for long.
const SEEDED_MS_MAX: i64 = 1 << 38;

/// The time from which the ids of sessions derive, in milliseconds: the wall time, or one that a
/// seed gives. As many transactions as there are ids in a millisecond then count as a millisecond,
/// so that ids differ after a restart.
pub(super) fn time_of_ids(seed: Option<u64>, clock: &Clock, last_zxid: Zxid) -> i64 {
    match seed {
        None => clock.wall_ms(),
        Some(seed) => Rng::with_seed(seed).i64(..SEEDED_MS_MAX) + (last_zxid.0 >> 16),
    }
}

/// The id before that of the server's first session. It derives from the time, so that ids differ
/// after a restart, and carries the server id in its highest byte
/// (`SessionTrackerImpl.initializeNextSessionId`).
///
/// The clock may have gone back since the newest of the `living` sessions was created, or to a
/// millisecond in which other sessions were created that have ended since. Their clients must not
/// re-attach to a new session with the same id. Each session took a zxid, so the last zxid tells
/// the ids of one millisecond apart.
pub(super) fn first_session(
    wall_ms: i64,
    last_zxid: Zxid,
    living: impl Iterator<Item = SessionId>,
) -> SessionId {
    let from_time = ((wall_ms << 24) as u64 >> 8) as i64 | (SERVER_ID << 56);
    let newest = living.map(|id| id.0).filter(|id| id >> 56 == SERVER_ID).max().unwrap_or(0);
    let begin = from_time.max(newest & !BELOW_MILLISECONDS);
    SessionId((begin | (last_zxid.0 & BELOW_MILLISECONDS)).max(newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_carry_the_server_id_and_the_time() {
        let first = |wall_ms, zxid, living| first_session(wall_ms, Zxid(zxid), living);
        let none = || Vec::new().into_iter();
        let id = first(0x0000_0198_7654_3210, 0x7_0000, none());
        assert_eq!(id, SessionId(0x0198_7654_3210_0000 & 0x00ff_ffff_ffff_ffff | (1 << 56)));
        assert_eq!(id.0 >> 56, 1);
        // Three sessions were created; the clock stands, or goes back while one of them lives.
        let again = first(0x0000_0198_7654_3210, 0x7_0003, none());
        assert_eq!(again.0 - id.0, 3);
        let living = vec![SessionId(id.0 + 1)].into_iter();
        assert_eq!(first(0x0000_0198_7654_0000, 0x7_0003, living), again);
    }
}
