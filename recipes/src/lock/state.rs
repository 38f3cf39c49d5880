//! The state of a lock, and when a lock counts as held.
//!
//! # The states
//!
//! A lock is [`Held`](LockState::Held) while its znode is not known to be gone and its session is
//! *proved* to be alive: the present moment is before `proven_until`, until which no server can
//! have ended the session. From `proven_until` on the lock is [`Suspect`](LockState::Suspect):
//! another client may hold it. A new proof makes it held again. It is [`Lost`](LockState::Lost) for
//! good when its znode is known to be gone or its session has ended. `state()`, `lost()`, `run()`,
//! `is_leader()`, `has_leadership()`, a selector's function, the blocking calls and `zoolet lock`
//! all follow these states. A disconnect alone changes nothing. Reads and pings prove nothing: a
//! server that is cut off from its ensemble answers them.
//!
//! # What proves a session
//!
//! An answered write proves it: the leader checks the session before it proposes the write, and
//! answers when a quorum has agreed. The create of the znode is the first such write. While a
//! client holds something, its session sends a `sync` and one multi in each third of the timeout
//! `T`. The multi checks all znodes that are held, which is the cheapest request that needs a
//! quorum. A refused multi is logged too and proves as much; if a znode is not there, its lock is
//! lost at once. A lock that is held for less than a quarter of `T` costs no request.
//!
//! # How long a proof lasts
//!
//! The leader ends a session at the first tick after `T` has passed since it last heard from it,
//! never before. A write that a follower forwards is checked, but does not count as hearing from
//! it. What counts is a handshake, which the leader answers, and what the followers report: the
//! leader pings them each half tick, and each answers with the sessions that it heard from. All
//! that two servers send to each other uses one connection, in its order.
//!
//! A leader that stands still, as in a long collection of garbage, pings nobody, while its
//! followers go on to answer reads. So time alone does not tell what was reported. An earlier reply
//! does: to a request that only the leader answers, a `sync` or a write, sent at `e`. When the
//! leader handled it, its last ping was at most half a tick old, or overdue and about to be sent.
//! The client has the reply, so the follower has what the leader sent before it, and has the overdue
//! ping a little later. A write that is sent then, at `w`, reaches the leader after the follower's
//! report. So when it is answered, the leader
//! had heard from the session as of `s`: the sending of the last request or ping that the follower
//! answered half a tick before `e`, or of the handshake, if that was later. The session lives at
//! least until `s + T`.
//!
//! A client does not know the tick. A session timeout has at least two ticks, unless an
//! administrator sets `minSessionTimeout` lower, so that half a tick is at most `T/4`. `T/24` is for
//! the threads of a leader that goes on: one of them sends the ping that is overdue, while others
//! handle requests. `T/100` is for clocks that run at different speeds:
//!
//! ```text
//! proven_until = s + T - T/100,  s = the last sending that was answered before e - T/4,
//!                                e = the last sending to the leader that was answered before w - T/24
//! ```
//!
//! What this assumes of a leader that goes on after it stood still: its overdue ping reaches the
//! follower within `T/24` of the first reply. If the ping is lost and sent again later, or the leader
//! stands still again before it pings, and the follower is cut off then before it reports, the
//! proof may last too long.
//!
//! With a round trip `r`, one check follows another after `T/3 + 2r`. Each proves the session until
//! `2T/3 - 3r` after its reply, and the next one is answered `T/3 - 5r` before the proof ends. With
//! a longer round trip the `sync` is sent sooner. Up to `r = T/9` the lock stays held; beyond `T/8` it
//! is `Suspect` for a good part of the time. From `r = T/3` on, no proof lasts until its reply comes,
//! and a lock that has to wait for one is not acquired.
//!
//! A client that has entered a line sends a `sync` in place of each ping, so that what it acquires
//! after a wait is proved by the next write. Of such a client the last request that the leader knows
//! of may be `2T/3` old, so that at least `7T/24 - r` is left. The next check is sent `T/12` before
//! that ends. What a client acquires that has been idle since it connected, for longer than `T`, is
//! proved by a check `T/24` after the create. A program that needs more to be left
//! ([`proven_ahead`](crate::client::Builder::proven_ahead), at most `T/6`) has the check sent that
//! much sooner, but not before the leader knows of a later request, since it would prove nothing
//! more.
//!
//! Where `minSessionTimeout` is below two ticks, none of this holds. Where observers connect to followers (`observerMasterPort`), a request reaches the leader
//! over two such links, in one tick and the delay between the two servers: choose a session timeout
//! of more than four ticks there, and of six to leave `T/12` for that delay. A new leader gives each session its whole timeout again: the
//! one with which the session was created. So `T` is the shortest timeout that a server has granted
//! to the session.
//!
//! Where the server is certainly the only one, as in process
//! ([`Transport::is_single_node`](zoolet_protocol::Transport::is_single_node)), each answer proves
//! the session until `T` after the request was sent. A machine that was suspended finds its locks
//! `Suspect` if that took longer than was left
//! ([`suspended_time`](crate::client::Builder::suspended_time)).
//!
//! The margin covers clocks, ticks and the network. It does not cover a program that checks the
//! state and acts later. What must not happen twice must be bound to the lock by the server
//! ([`Guard::transaction`](crate::Guard::transaction)), or be refused by whatever the program acts
//! on ([`Guard::fencing_token`](crate::Guard::fencing_token)).

/// Whether a lock is held, as far as is known at this moment.
///
/// `state()` and `lost()` of every guard, [`Guard::run`](crate::Guard::run) and the leader recipes
/// follow it. While a client holds something, the server has to prove about once in a third of the
/// session timeout that the session lives and the znodes are there, by a request that a quorum of
/// the servers must agree to. Each proof lasts for about two thirds of the timeout, so that another
/// client can hold the lock only after this one is `Suspect`: see
/// [`Client::session_valid_until`](crate::client::Client::session_valid_until). This requires that
/// the `minSessionTimeout` of an ensemble is two ticks or more, as it is by default, and that the
/// session timeout is more than four ticks where observers connect to followers
/// (`observerMasterPort`). A leader that has stood still must ping its followers within 1/24 of the
/// session timeout of its next reply, and not stand still again before. The comment at the head of this enum's source file has the calculation.
///
/// The state is true for a moment only: a program that checks it and acts later may be too late.
/// What must not happen twice must be bound to the lock by the server
/// ([`Guard::transaction`](crate::Guard::transaction)) or by a fencing token
/// ([`Guard::fencing_token`](crate::Guard::fencing_token)).
///
/// ```
/// use zoolet_recipes::LockState;
///
/// assert_ne!(LockState::Held, LockState::Suspect);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockState {
    /// The lock is held: its session was proved to be alive so recently that no server can have
    /// ended it, under the conditions above. A disconnect alone does not change that.
    Held,
    /// Another client may hold the lock: the last proof is too old. A new proof makes it held
    /// again.
    Suspect,
    /// The lock is not held any more, for good: its session has ended, or its znode is gone.
    Lost,
}
