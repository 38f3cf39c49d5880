//! The state machine of a ZooKeeper server.
//!
//! [`Core`] is given requests, transactions and times as values, and gives back transactions,
//! replies and events as values. It reads no clock, draws no random numbers, takes no lock and
//! does no I/O: this crate's manifest has nothing to do it with.
//!
//! Its methods come in four families, to be called in this order for one request:
//!
//! - *looks*, `&self`: [`Core::read`] answers what changes nothing.
//! - *watches*, `&mut self`: [`Core::watch`] answers what leaves or takes back watches.
//! - *decisions*, `&self`: [`Core::prepare`] and its sisters decide what a write does, and put the
//!   decision into a [`Txn`]. A refusal is a `Txn` too.
//! - *changes*, `&mut self`: [`Core::apply`] carries a `Txn` out, whether it was just decided or
//!   read from a log. It obeys: whatever the `Txn` says is done, and nothing else changes what
//!   outlives a restart.
//!
//! The way of a write:
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
mod core;
mod owner;
mod prepare;
mod quota;
mod read;
mod restore;
mod sessions;
mod settings;
mod tree;
mod txn;
mod watches;

pub mod limits;

pub use self::acl::{AclList, AuthRefused, Identities, authenticate};
pub use self::apply::{Audience, Effects, Fired};
pub use self::core::{Core, Frozen, Requester, Totals};
pub use self::owner::{EphemeralOwner, Owner, TTL_MS_MAX};
pub use self::restore::{Restore, RestoreError, Restored};
pub use self::settings::{DigestAlgorithm, Settings};
pub use self::tree::{FrozenTree, Persisted, Znode};
pub use self::txn::{CreateTxn, Txn, TxnOp};
pub use self::watches::{ConnectionId, WatchKinds, WatchSummary, Watched, WatchersByPath};
