//! Expensive requests that any client can send.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use zoolet::protocol::{
    Acl, AddWatch, Check, Create, CreateFlags, CreateKind, Delete, Expect, Id, Lookup, MultiOp,
    MultiReadOp, Names, Permissions, Read, Request, SetAcl, SetData, SetWatches, Watch, WatchMode,
    Write, Xid, Zxid, encode_request,
};

use super::Sizes;
use super::wire::Wire;

/// One kind of attack, by several clients.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    pub(crate) kind: Kind,
}

/// What each client does in a loop.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Sends one request, with this many under way, and with this many identities.
    Ask { request: fn(&Sizes) -> Request, depth: usize, users: usize },
    /// Sends a four-letter word.
    Word { word: &'static str, is_watched: bool },
    /// Sends the requests of a round and waits for all replies.
    Rounds { once: fn(&Sizes) -> Vec<Request>, then: fn(&Sizes) -> Vec<Request> },
    /// Watches a znode with an access control list, which the first client changes, with this many identities.
    Watched { users: usize },
    /// Sends requests over a new connection in each round, and drops it.
    Drops { once: fn(&Sizes) -> Vec<Request> },
}

/// How many identities a client has.
const USERS: usize = 98;

/// All attacks. The first ones are those that once starved other clients.
pub(crate) const ATTACKS: [Attack; 18] = [
    Attack {
        name: "8 KB multiReads, 1,000 ACL entries, 98 users",
        clients: 4,
        kind: Kind::Ask { request: |_| reads("/guarded", 400), depth: 64, users: USERS },
    },
    Attack {
        name: "multiReads of 55,000 reads, 98 users",
        clients: 2,
        kind: Kind::Ask { request: |_| reads("/g", 55_000), depth: 1, users: USERS },
    },
    Attack {
        name: "getAllChildrenNumber of /",
        clients: 4,
        kind: Kind::Ask { request: |_| count("/"), depth: 64, users: 0 },
    },
    Attack {
        name: "getAllChildrenNumber of 300,000",
        clients: 4,
        kind: Kind::Ask { request: |_| count("/wide"), depth: 64, users: 0 },
    },
    Attack {
        name: "getChildren of 300,000, 100 clients",
        clients: 100,
        kind: Kind::Ask { request: |_| children("/wide"), depth: 2, users: 0 },
    },
    Attack {
        name: "wchs, 504,000 watches, 20 clients",
        clients: 20,
        kind: Kind::Word { word: "wchs", is_watched: true },
    },
    Attack {
        name: "wchp, 504,000 watches, 20 clients",
        clients: 20,
        kind: Kind::Word { word: "wchp", is_watched: true },
    },
    Attack {
        name: "wchc, 504,000 watches, 20 clients",
        clients: 20,
        kind: Kind::Word { word: "wchc", is_watched: true },
    },
    Attack {
        name: "end of a session with 200,000 ephemerals",
        clients: 1,
        kind: Kind::Rounds {
            once: ephemerals,
            then: |_| vec![Request::Write(Write::CloseSession)],
        },
    },
    Attack {
        name: "quota counters over 300,000",
        clients: 2,
        kind: Kind::Rounds { once: |_| Vec::new(), then: |_| count_quota() },
    },
    Attack {
        name: "getChildren of 300,000 that change",
        clients: 4,
        kind: Kind::Rounds { once: |_| Vec::new(), then: |_| change_and_list() },
    },
    Attack {
        name: "multis of checks, 98 users",
        clients: 4,
        kind: Kind::Ask { request: |_| checks("/g", 40_000), depth: 2, users: USERS },
    },
    Attack {
        name: "multis of 15,000 creates and deletes",
        clients: 4,
        kind: Kind::Rounds { once: |_| Vec::new(), then: |_| churn() },
    },
    Attack {
        name: "setWatches of 1 MB",
        clients: 4,
        kind: Kind::Ask { request: |_| set_watches(), depth: 2, users: 0 },
    },
    Attack {
        name: "getEphemerals of 200,000",
        clients: 2,
        kind: Kind::Rounds { once: ephemerals, then: |_| vec![all_ephemerals(); 200] },
    },
    Attack {
        name: "connections with 100,000 watches that go",
        clients: 2,
        kind: Kind::Drops { once: |sizes| watches(sizes.watches / 5) },
    },
    Attack {
        name: "multis of 15,000 changes, 40 watchers, 98 users",
        clients: 40,
        kind: Kind::Watched { users: USERS },
    },
    Attack {
        name: "dump, 200,000 ephemerals, 20 clients",
        clients: 20,
        kind: Kind::Word { word: "dump", is_watched: true },
    },
];

impl Attack {
    /// Attacks over one connection until it ends.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        sizes: &Sizes,
        keep: &dyn Fn(TcpStream),
        client: usize,
    ) -> io::Result<()> {
        match self.kind {
            Kind::Ask { request, depth, users } => {
                let mut wire = Wire::connect(address)?;
                keep(wire.handle()?);
                wire.identify(users)?;
                let frame = encode_request(Xid(1), &request(sizes));
                wire.send_all(vec![&frame; depth])?;
                loop {
                    wire.skip()?;
                    wire.send(&frame)?;
                }
            }
            Kind::Word { word, .. } => loop {
                let mut stream = TcpStream::connect(address)?;
                keep(stream.try_clone()?);
                stream.write_all(word.as_bytes())?;
                if io::copy(&mut stream.take(u64::MAX), &mut io::sink())? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            },
            Kind::Rounds { once, then } => loop {
                let mut wire = Wire::connect(address)?;
                keep(wire.handle()?);
                wire.call_all(&prefixed(once(sizes), client), 4)?;
                loop {
                    let requests = prefixed(then(sizes), client);
                    wire.call_all(&requests, 16)?;
                    if requests.last() == Some(&Request::Write(Write::CloseSession)) {
                        break;
                    }
                }
            },
            Kind::Watched { users } => {
                let mut wire = Wire::connect(address)?;
                keep(wire.handle()?);
                wire.identify(users)?;
                let change = encode_request(Xid(1), &changes(15_000));
                let watch = AddWatch { path: "/told".into(), mode: WatchMode::PERSISTENT };
                wire.call_all(&[Request::Watch(Watch::Add(watch))], 1)?;
                loop {
                    // The events arrive before the answer.
                    if client == 0 {
                        wire.send(&change)?;
                        wire.skip_until(Xid(1))?;
                    } else {
                        wire.skip()?;
                    }
                }
            }
            Kind::Drops { once } => loop {
                let mut wire = Wire::connect(address)?;
                keep(wire.handle()?);
                wire.call_all(&once(sizes), 64)?;
            },
        }
    }
}

/// Creates what the attacks need, wide directories and znodes with access control lists, and returns the
/// client that must stay connected.
pub(crate) fn prepare(address: SocketAddr, sizes: &Sizes) -> io::Result<Wire> {
    let mut wire = Wire::connect(address)?;
    wire.set_patience(std::time::Duration::from_secs(60))?;
    for path in ["/wide", "/guarded", "/g", "/told", "/held", "/churn"] {
        wire.call_all(&[create(path, CreateFlags::PERSISTENT)], 1)?;
    }
    let entry = |number: usize| Acl {
        permissions: Permissions::ALL,
        id: Id::new("digest", format!("other-{number}:AAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
    };
    let quota = ["/zookeeper/quota/wide", "/zookeeper/quota/wide/zookeeper_limits"];
    wire.call_all(&quota.map(|path| create(path, CreateFlags::PERSISTENT)), 2)?;
    for path in ["/guarded", "/g", "/told"] {
        let mut acl: Vec<_> = (0..999).map(entry).collect();
        if path == "/told" {
            let anyone = Id::new("world", "anyone");
            acl.push(Acl { permissions: Permissions::WRITE, id: anyone });
        }
        let acl = Some(acl);
        let set = SetAcl { path: path.into(), acl, version: Expect::Any };
        wire.call_all(&[Request::Write(Write::SetAcl(set))], 1)?;
    }
    let wide = |number: usize| format!("/wide/znode-{number:07}");
    wire.call_all(&creates(sizes.znodes, CreateFlags::PERSISTENT, wide), 2)?;
    Ok(wire)
}

/// Sets the watches and creates the ephemerals that the four-letter words report.
pub(crate) fn occupy(address: SocketAddr, sizes: &Sizes) -> io::Result<Vec<Wire>> {
    const WATCHERS: usize = 4;
    let mut wires = Vec::new();
    for watcher in 0..WATCHERS {
        let mut wire = Wire::connect(address)?;
        wire.call_all(&watches(sizes.watches / WATCHERS), 64)?;
        let held = |number: usize| format!("/held/of-{watcher}-{number:07}");
        wire.call_all(&creates(sizes.ephemerals / WATCHERS, CreateFlags::EPHEMERAL, held), 2)?;
        wires.push(wire);
    }
    Ok(wires)
}

/// The requests with `%` in their paths replaced by the number of the client.
fn prefixed(mut requests: Vec<Request>, client: usize) -> Vec<Request> {
    let own = |path: &mut zoolet::protocol::RawPath| {
        if let Some(text) = path.text().filter(|text| text.contains('%')) {
            *path = text.replace('%', &client.to_string()).as_str().into();
        }
    };
    for request in &mut requests {
        let ops: &mut [MultiOp] = match request {
            Request::Write(Write::Multi(ops)) => ops,
            Request::Write(Write::Op(op)) => std::slice::from_mut(op),
            _ => continue,
        };
        for op in ops {
            match op {
                MultiOp::Create(create) => own(&mut create.path),
                MultiOp::Delete(delete) => own(&mut delete.path),
                MultiOp::SetData(set) => own(&mut set.path),
                MultiOp::Check(check) => own(&mut check.path),
            }
        }
    }
    requests
}

fn reads(path: &str, count: usize) -> Request {
    Request::Read(Read::MultiRead(vec![MultiReadOp::GetData(path.into()); count]))
}

fn count(path: &str) -> Request {
    Request::Read(Read::GetAllChildrenNumber(path.into()))
}

fn children(path: &str) -> Request {
    Request::Read(Read::Lookup(Lookup::GetChildren(path.into())))
}

fn all_ephemerals() -> Request {
    Request::Read(Read::GetEphemerals("/".into()))
}

fn create_op(path: &str, flags: CreateFlags) -> MultiOp {
    MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::new()),
        acl: Some(vec![Acl::open()]),
        flags,
    })
}

fn create(path: &str, flags: CreateFlags) -> Request {
    Request::Write(Write::Op(create_op(path, flags)))
}

fn delete_op(path: &str) -> MultiOp {
    MultiOp::Delete(Delete { path: path.into(), version: Expect::Any })
}

/// Many creates, a thousand in a multi.
fn creates(count: usize, flags: CreateFlags, path: impl Fn(usize) -> String) -> Vec<Request> {
    let numbers: Vec<_> = (0..count).collect();
    let multi = |some: &[usize]| {
        let ops = some.iter().map(|&number| create_op(&path(number), flags));
        Request::Write(Write::Multi(ops.collect()))
    };
    numbers.chunks(1_000).map(multi).collect()
}

fn ephemerals(sizes: &Sizes) -> Vec<Request> {
    creates(sizes.ephemerals, CreateFlags::EPHEMERAL, |number| format!("/held/%-{number:07}"))
}

fn watches(count: usize) -> Vec<Request> {
    let watch = |number: usize| {
        let path = format!("/watched/at-{number:07}").as_str().into();
        Request::Watch(Watch::Lookup(Lookup::Exists(path)))
    };
    (0..count).map(watch).collect()
}

/// Deletes and creates the counters of a quota, which makes the server count again.
fn count_quota() -> Vec<Request> {
    const STATS: &str = "/zookeeper/quota/wide/zookeeper_stats";
    let delete = Request::Write(Write::Op(delete_op(STATS)));
    vec![delete, create(STATS, CreateFlags::PERSISTENT)]
}

/// Changes a wide directory, and lists it.
fn change_and_list() -> Vec<Request> {
    let delete = Request::Write(Write::Op(delete_op("/wide/own-%")));
    let create = create("/wide/own-%", CreateFlags::PERSISTENT);
    vec![create, children("/wide"), delete, children("/wide")]
}

fn checks(path: &str, count: usize) -> Request {
    let check = MultiOp::Check(Check { path: path.into(), version: Expect::Any });
    Request::Write(Write::Multi(vec![check; count]))
}

/// Creates and deletes as many znodes as fit into a request.
fn churn() -> Vec<Request> {
    let path = |number: usize| format!("/churn/%-{number:05}");
    let creates = (0..15_000).map(|number| create_op(&path(number), CreateFlags::PERSISTENT));
    let deletes = (0..15_000).map(|number| delete_op(&path(number)));
    let set = SetData { path: "/churn".into(), data: None, version: Expect::Any };
    vec![
        Request::Write(Write::Multi(creates.collect())),
        Request::Write(Write::Op(MultiOp::SetData(set))),
        Request::Write(Write::Multi(deletes.collect())),
    ]
}

/// Changes a znode that others watch.
fn changes(count: usize) -> Request {
    let set = SetData { path: "/told".into(), data: None, version: Expect::Any };
    Request::Write(Write::Multi(vec![MultiOp::SetData(set); count]))
}

fn set_watches() -> Request {
    let paths: Vec<_> = (0..60_000).map(|number| format!("/missing/{number}")).collect();
    let none = Names::EMPTY;
    Request::Watch(Watch::Set2(SetWatches {
        relative_zxid: Zxid(0),
        data: none.clone(),
        exist: paths.iter().map(String::as_str).collect(),
        child: none.clone(),
        persistent: none.clone(),
        persistent_recursive: none,
    }))
}
