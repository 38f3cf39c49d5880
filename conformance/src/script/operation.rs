//! The operations of the protocol in scripts, and the requests that they stand for.

use clap::{Args, Subcommand};
use zoolet_protocol::{
    AddWatch, Auth, Check, CheckWatches, Create, CreateFlags, CreateKind, Delete, Expect, Lookup,
    MultiOp, MultiReadOp, OpCode, RawPath, Read, Reconfig, RemoveWatches, Request, SessionRequest,
    SetAcl, SetData, SetWatches, Watch, WatchMode, WatcherType, Write, Xid, Zxid,
};

use zoolet_testkit::script_words as words;

use super::trace::Trace;
use super::value::{self, ValueError};

/// An operation.
#[derive(Debug, Clone, Subcommand)]
#[command(rename_all = "camelCase")]
pub(super) enum Operation {
    Create(CreateArgs),
    Create2(CreateArgs),
    CreateContainer(CreateArgs),
    #[command(name = "createTTL")]
    CreateTtl {
        #[command(flatten)]
        create: CreateArgs,
        #[arg(long, allow_negative_numbers = true)]
        ttl: i64,
    },
    Delete {
        path: String,
        #[arg(default_value_t = -1, allow_negative_numbers = true)]
        version: i32,
    },
    DeleteContainer {
        path: String,
    },
    Exists(LookupArgs),
    GetData(LookupArgs),
    GetChildren(LookupArgs),
    GetChildren2(LookupArgs),
    SetData {
        path: String,
        data: String,
        #[arg(default_value_t = -1, allow_negative_numbers = true)]
        version: i32,
    },
    #[command(name = "getACL")]
    GetAcl {
        path: String,
    },
    #[command(name = "setACL")]
    SetAcl {
        path: String,
        acl: String,
        #[arg(default_value_t = -1, allow_negative_numbers = true)]
        version: i32,
    },
    Check {
        path: String,
        #[arg(default_value_t = -1, allow_negative_numbers = true)]
        version: i32,
    },
    Sync {
        path: String,
    },
    Ping,
    CloseSession,
    WhoAmI,
    Auth {
        scheme: String,
        credentials: String,
    },
    Sasl {
        token: String,
    },
    Reconfig {
        joining: String,
        leaving: String,
        members: String,
        #[arg(allow_negative_numbers = true)]
        config: i64,
    },
    AddWatch {
        path: String,
        /// `persistent`, `recursive`, or a number.
        #[arg(allow_negative_numbers = true)]
        mode: String,
    },
    CheckWatches(WatchesArgs),
    RemoveWatches(WatchesArgs),
    SetWatches(SetWatchesArgs),
    SetWatches2(SetWatchesArgs),
    GetEphemerals {
        prefix: String,
    },
    GetAllChildrenNumber {
        path: String,
    },
    /// A request with any operation code and any body.
    Raw {
        #[arg(allow_negative_numbers = true)]
        code: i32,
        body: Vec<String>,
        #[arg(long, allow_negative_numbers = true)]
        xid: Option<i32>,
    },
    /// The operations of a multi. `Command::parse` parses them, since they are operations
    /// themselves.
    #[command(skip)]
    Multi(Vec<Self>),
    /// The operations of a multiRead.
    #[command(skip)]
    MultiRead(Vec<Self>),
}

#[derive(Debug, Clone, Args)]
pub(super) struct CreateArgs {
    path: String,
    #[arg(default_value = "")]
    data: String,
    /// Ephemeral.
    #[arg(short)]
    ephemeral: bool,
    /// Sequential.
    #[arg(short)]
    sequential: bool,
    /// The flags as a number.
    #[arg(long, allow_negative_numbers = true)]
    flags: Option<i32>,
    #[arg(long, default_value = "open")]
    acl: String,
}

#[derive(Debug, Clone, Args)]
pub(super) struct LookupArgs {
    path: String,
    /// Sets a watch.
    #[arg(short)]
    watch: bool,
}

#[derive(Debug, Clone, Args)]
pub(super) struct WatchesArgs {
    path: String,
    /// `children`, `data`, `any`, `persistent`, `recursive`, or a number.
    #[arg(allow_negative_numbers = true)]
    watcher_type: String,
}

#[derive(Debug, Clone, Args)]
pub(super) struct SetWatchesArgs {
    /// `z+N` or a number.
    #[arg(allow_negative_numbers = true)]
    zxid: String,
    #[arg(long, num_args = 1..)]
    data: Vec<String>,
    #[arg(long, num_args = 1..)]
    exist: Vec<String>,
    #[arg(long, num_args = 1..)]
    child: Vec<String>,
    #[arg(long, num_args = 1..)]
    persistent: Vec<String>,
    #[arg(long, num_args = 1..)]
    recursive: Vec<String>,
}

impl CreateArgs {
    fn create(&self, kind: CreateKind) -> Result<Create, ValueError> {
        let ordinary = match (kind, self.ephemeral, self.sequential) {
            (CreateKind::Container, ..) => CreateFlags::CONTAINER,
            (CreateKind::Ttl { .. }, _, false) => CreateFlags::PERSISTENT_WITH_TTL,
            (CreateKind::Ttl { .. }, _, true) => CreateFlags::PERSISTENT_SEQUENTIAL_WITH_TTL,
            (_, false, false) => CreateFlags::PERSISTENT,
            (_, true, false) => CreateFlags::EPHEMERAL,
            (_, false, true) => CreateFlags::PERSISTENT_SEQUENTIAL,
            (_, true, true) => CreateFlags::EPHEMERAL_SEQUENTIAL,
        };
        Ok(Create {
            kind,
            path: value::path(&self.path)?,
            data: value::data(&self.data)?,
            acl: value::acl(&self.acl)?,
            flags: self.flags.map_or(ordinary, CreateFlags),
        })
    }
}

impl LookupArgs {
    fn request(&self, wrap: fn(RawPath) -> Lookup) -> Result<Request, ValueError> {
        let lookup = wrap(value::path(&self.path)?);
        Ok(if self.watch {
            Request::Watch(Watch::Lookup(lookup))
        } else {
            Request::Read(Read::Lookup(lookup))
        })
    }
}

impl WatchesArgs {
    fn watcher_type(&self) -> Result<WatcherType, ValueError> {
        let text = &self.watcher_type;
        words::parse_watcher_type(text).map_err(|error| format!("{text:?} is no type: {error}"))
    }
}

impl SetWatchesArgs {
    fn lists(&self, trace: &Trace) -> Result<SetWatches, ValueError> {
        Ok(SetWatches {
            relative_zxid: zxid(&self.zxid, trace)?,
            data: value::names(&self.data)?,
            exist: value::names(&self.exist)?,
            child: value::names(&self.child)?,
            persistent: value::names(&self.persistent)?,
            persistent_recursive: value::names(&self.recursive)?,
        })
    }
}

/// Parses a zxid: `z+N` and `z2+N` count from the begin and from that of an epoch, anything else is a
/// number.
pub(super) fn zxid(text: &str, trace: &Trace) -> Result<Zxid, ValueError> {
    trace.parse_zxid(text).ok_or_else(|| format!("{text:?} is no zxid of an epoch that has begun"))
}

fn watch_mode(mode: &str) -> Result<WatchMode, ValueError> {
    words::parse_watch_mode(mode).map_err(|error| format!("{mode:?} is no mode: {error}"))
}

impl Operation {
    /// Whether it takes a zxid, also if it is refused.
    pub(super) fn is_write(&self) -> bool {
        match self {
            Self::Multi(_) => true,
            Self::Check { .. } | Self::Raw { .. } => false,
            _ => self.write().is_ok(),
        }
    }

    /// The request, and its xid if the script gives one.
    pub(super) fn request(&self, trace: &Trace) -> Result<(Request, Option<Xid>), ValueError> {
        if let Self::Raw { code, body, xid } = self {
            let request = Request::Unknown { op: OpCode(*code), body: value::pieces(body)? };
            return Ok((request, xid.map(Xid)));
        }
        Ok((self.well_formed(trace)?, None))
    }

    fn well_formed(&self, trace: &Trace) -> Result<Request, ValueError> {
        let read = |read| Ok(Request::Read(read));
        match self {
            Self::Exists(lookup) => lookup.request(Lookup::Exists),
            Self::GetData(lookup) => lookup.request(Lookup::GetData),
            Self::GetChildren(lookup) => lookup.request(Lookup::GetChildren),
            Self::GetChildren2(lookup) => lookup.request(Lookup::GetChildren2),
            Self::GetAcl { path } => read(Read::GetAcl(value::path(path)?)),
            Self::Sync { path } => read(Read::Sync(value::path(path)?)),
            Self::GetEphemerals { prefix } => read(Read::GetEphemerals(value::path(prefix)?)),
            Self::GetAllChildrenNumber { path } => {
                read(Read::GetAllChildrenNumber(value::path(path)?))
            }
            Self::CheckWatches(watches) => read(Read::CheckWatches(CheckWatches {
                path: value::path(&watches.path)?,
                watcher_type: watches.watcher_type()?,
            })),
            Self::MultiRead(operations) => {
                let reads = operations.iter().map(Self::read_in_multi);
                read(Read::MultiRead(reads.collect::<Result<_, _>>()?))
            }
            Self::AddWatch { path, mode } => {
                let add = AddWatch { path: value::path(path)?, mode: watch_mode(mode)? };
                Ok(Request::Watch(Watch::Add(add)))
            }
            Self::RemoveWatches(watches) => Ok(Request::Watch(Watch::Remove(RemoveWatches {
                path: value::path(&watches.path)?,
                watcher_type: watches.watcher_type()?,
            }))),
            Self::SetWatches(lists) => Ok(Request::Watch(Watch::Set(lists.lists(trace)?))),
            Self::SetWatches2(lists) => Ok(Request::Watch(Watch::Set2(lists.lists(trace)?))),
            Self::Ping => Ok(Request::Session(SessionRequest::Ping)),
            Self::WhoAmI => Ok(Request::Session(SessionRequest::WhoAmI)),
            Self::Sasl { token } => Ok(Request::Session(SessionRequest::Sasl(value::data(token)?))),
            Self::Auth { scheme, credentials } => {
                Ok(Request::Session(SessionRequest::Auth(Auth {
                    auth_type: 0,
                    scheme: value::text(scheme)?,
                    auth: value::data(credentials)?,
                })))
            }
            _ => self.write().map(Request::Write),
        }
    }

    fn write(&self) -> Result<Write, ValueError> {
        Ok(match self {
            Self::SetAcl { path, acl, version } => Write::SetAcl(SetAcl {
                path: value::path(path)?,
                acl: value::acl(acl)?,
                version: Expect::from(*version),
            }),
            Self::DeleteContainer { path } => Write::DeleteContainer(value::path(path)?),
            Self::CloseSession => Write::CloseSession,
            Self::Reconfig { joining, leaving, members, config } => Write::Reconfig(Reconfig {
                joining: value::text(joining)?,
                leaving: value::text(leaving)?,
                new_members: value::text(members)?,
                current_config: *config,
            }),
            Self::Multi(operations) => {
                let ops = operations.iter().map(Self::write_in_multi);
                Write::Multi(ops.collect::<Result<_, _>>()?)
            }
            _ => Write::Op(self.write_in_multi()?),
        })
    }

    fn write_in_multi(&self) -> Result<MultiOp, ValueError> {
        Ok(match self {
            Self::Create(create) => MultiOp::Create(create.create(CreateKind::Create)?),
            Self::Create2(create) => MultiOp::Create(create.create(CreateKind::Create2)?),
            Self::CreateContainer(create) => MultiOp::Create(create.create(CreateKind::Container)?),
            Self::CreateTtl { create, ttl } => {
                MultiOp::Create(create.create(CreateKind::Ttl { ttl_ms: *ttl })?)
            }
            Self::Delete { path, version } => MultiOp::Delete(Delete {
                path: value::path(path)?,
                version: Expect::from(*version),
            }),
            Self::SetData { path, data, version } => MultiOp::SetData(SetData {
                path: value::path(path)?,
                data: value::data(data)?,
                version: Expect::from(*version),
            }),
            Self::Check { path, version } => {
                MultiOp::Check(Check { path: value::path(path)?, version: Expect::from(*version) })
            }
            other => return Err(format!("not in a multi; use raw: {other:?}")),
        })
    }

    fn read_in_multi(&self) -> Result<MultiReadOp, ValueError> {
        match self {
            Self::GetData(lookup) => Ok(MultiReadOp::GetData(value::path(&lookup.path)?)),
            Self::GetChildren(lookup) => Ok(MultiReadOp::GetChildren(value::path(&lookup.path)?)),
            other => Err(format!("not in a multiRead; use raw: {other:?}")),
        }
    }
}
