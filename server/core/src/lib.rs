//! The state machine of a ZooKeeper server.
//!
//! [`Core`] takes requests, transactions and times as values, and returns transactions, replies and
//! events as values. It reads no clock, draws no random numbers, takes no lock and does no I/O. The
//! manifest of this crate has no dependency that could do so.
//!
//! The methods that serve requests come in four families:
//!
//! - *reads*, `&self`: [`Core::read`] answers a request that changes nothing.
//! - *watches*, `&mut self`: [`Core::watch`] answers a request that sets or removes watches.
//! - *decisions*, `&self`: [`Core::prepare`] and the other `prepare_*` methods decide what a write
//!   does and return the decision as a [`Txn`]. A refused write is a `Txn` too.
//! - *changes*, `&mut self`: [`Core::apply`] carries out a `Txn`, whether it was just decided or
//!   read from a log. It does what the `Txn` says, and nothing else changes what survives a restart.
//!   [`Core::apply_decided`] does the same with what the decision has looked up, and
//!   [`Core::apply_plain`] for the plainest writes, with effects that borrow.
//!
//! [`Core::check`] compares what the state machine keeps twice: indexes and counts with the znodes.
//!
//! A write, from the request to the reply:
//!
//! ```
//! use zoolet_core::{ConnectionId, Core, Requester, Settings};
//! use zoolet_protocol::{
//!     Acl, Create, CreateFlags, CreateKind, MultiOp, Response, SessionId, Write, Xid,
//! };
//!
//! let mut core = Core::new(Settings::default());
//! let session = SessionId(1);
//! core.apply(&core.prepare_create_session(session, 30_000, 0));
//!
//! let requester = Requester::new(session, ConnectionId(1), Xid(1));
//! let create = Write::Op(MultiOp::Create(Create {
//!     kind: CreateKind::Create,
//!     path: "/lock-".into(),
//!     data: None,
//!     acl: Some(vec![Acl::open()]),
//!     flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
//! }));
//! let txn = core.prepare(&create, &requester, 0);
//! let effects = core.apply(&txn);
//! assert_eq!(effects.reply, Ok(Response::Path("/lock-0000000000".into())));
//! ```

mod acl;
mod apply;
mod by_id;
mod check;
mod core;
mod ephemeral_owner;
mod parts;
mod path_hash;
mod prepare;
mod quota;
mod read;
mod restore;
mod sessions;
mod settings;
mod shared_set;
mod sorted_paths;
mod sweep;
mod tree;
mod txn;
mod watches;

pub mod limits;

pub use self::acl::{
    AclList, AuthRefused, EnsembleName, Identities, authenticate, authenticate_certificate,
    authenticate_sasl, check_ensemble_name,
};
pub use self::apply::{Audience, Effects, FiredEvent};
pub use self::check::{Disagreement, Disagreements};
pub use self::core::{Core, Frozen, Requester, Totals};
pub use self::ephemeral_owner::{EphemeralOwner, EphemeralType, TTL_MS_MAX};
pub use self::quota::StatsTrack;
pub use self::read::PlainReader;
pub use self::restore::{Restore, RestoreError, Restored};
pub use self::settings::{DigestAlgorithm, Settings, SuperDigest};
pub use self::sweep::{SweepCursor, SweepSlice};
pub use self::tree::{Data, FrozenTree, StatPersisted, Znode};
pub use self::txn::{CreateTxn, Decided, Txn, TxnOp};
pub use self::watches::{ConnectionId, WatchModes, WatchReply, WatchSummary, WatchersByPath};
