//! What clients see of the test kit's `TestEnsemble` is what they see of three Apache servers: the
//! same scenes on both, with the same replies. Zxids are compared as what was added to the last one.

use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet::testing::TestEnsemble;
use zoolet_conformance::client::{Client, Handshake, Message};
use zoolet_conformance::ensemble::{Ensemble, MEMBERS};
use zoolet_conformance::four_letter;
use zoolet_conformance::target::TcpTarget;
use zoolet_protocol::{
    Auth, Check, ConnectRequest, CreateFlags, Expect, MultiOp, Password, RawPath, Read, Reconfig,
    Request, SessionId, SessionRequest, Write, Zxid,
};
use zoolet_test_support::{create, exists};

use super::Outcome;
use super::common::{Roles, block_on, until_within};

const TIMEOUT_MS: i32 = 30_000;

/// Longer than the timeouts of the sessions that tests leave, and some ticks.
const LEFT_SESSIONS_END_WITHIN: Duration = Duration::from_secs(90);

/// A tick of the double. Its scenes need no long ones.
const TICK_MS: u32 = 20;

/// Three servers of either kind.
enum Servers<'a> {
    Apache(&'a Ensemble),
    Double(&'a TestEnsemble),
}

/// A scene on three servers, and what clients were told so far.
struct Scene<'a> {
    servers: Servers<'a>,
    leader: usize,
    followers: [usize; 2],
    /// Distinguishes the znodes of this scene.
    prefix: String,
    told: Vec<String>,
}

pub(crate) fn sessions_move_alike(ensemble: &Ensemble) -> Outcome {
    compare(ensemble, sessions)
}

pub(crate) fn a_lagging_follower_looks_alike(ensemble: &Ensemble) -> Outcome {
    compare(ensemble, lag)
}

pub(crate) fn refusals_are_alike(ensemble: &Ensemble) -> Outcome {
    compare(ensemble, refusals)
}

pub(crate) fn elections_look_alike(ensemble: &Ensemble) -> Outcome {
    compare(ensemble, election)
}

/// Plays a scene on both. One that differs is played again once no session is left of earlier tests, whose
/// ends take zxids: what is different must be so twice.
fn compare(ensemble: &Ensemble, play: fn(&mut Scene<'_>) -> Outcome) -> Outcome {
    block_on(async { Roles::of(ensemble).await.map(drop) })?;
    let (theirs, ours) = told_by_both(ensemble, play)?;
    if theirs == ours {
        return Ok(());
    }
    println!("once they differed. Apache:\n{theirs}\n\nours:\n{ours}");
    Scene::new(Servers::Apache(ensemble))?.await_no_session()?;
    let (theirs, ours) = told_by_both(ensemble, play)?;
    match ours == theirs {
        true => Ok(()),
        false => Err(format!("Apache:\n{theirs}\n\nours:\n{ours}").into()),
    }
}

/// What clients are told in a scene by Apache, and by a double that nobody else has used.
fn told_by_both(
    ensemble: &Ensemble,
    play: fn(&mut Scene<'_>) -> Outcome,
) -> Result<(String, String), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let double = TestEnsemble::builder().tcp().configure(|config| config.tick_time_ms = TICK_MS);
    let double = runtime.block_on(double.start())?;
    let told = |servers| {
        let mut scene = Scene::new(servers)?;
        play(&mut scene)?;
        Ok::<_, Failed>(scene.told.join("\n"))
    };
    let both = (told(Servers::Apache(ensemble))?, told(Servers::Double(&double))?);
    double.check()?;
    Ok(both)
}

impl<'a> Scene<'a> {
    fn new(servers: Servers<'a>) -> Result<Self, Failed> {
        let prefix = format!("/double-{:08x}", fastrand::u32(..));
        let leader = servers.leader().ok_or("there is no leader")?;
        let followers = [(leader + 1) % MEMBERS, (leader + 2) % MEMBERS];
        Ok(Self { servers, leader, followers, prefix, told: Vec::new() })
    }

    fn address(&self, server: usize) -> SocketAddr {
        self.servers.addresses()[server]
    }

    fn path(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The last zxid of a server.
    fn zxid(&self, server: usize) -> Result<i64, Failed> {
        let said = four_letter::ask(self.address(server), "srvr")?;
        let zxid = said.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
        Ok(i64::from_str_radix(zxid.ok_or("it has no zxid")?.trim(), 16)?)
    }

    /// Waits until the leader has committed a zxid.
    fn await_zxid(&self, zxid: i64) -> Outcome {
        block_on(async {
            super::common::until("the leader commits", async || Ok(self.zxid(self.leader)? >= zxid))
                .await
        })
    }

    /// Waits until the sessions that earlier tests have left have expired: their ends take zxids.
    fn await_no_session(&self) -> Outcome {
        block_on(async {
            let is_so = async || {
                let said = four_letter::ask(self.address(self.leader), "mntr")?;
                let count = said.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t"));
                Ok(count.ok_or("it counts no sessions")?.trim() == "0")
            };
            until_within(LEFT_SESSIONS_END_WITHIN, "no session is left", is_so).await
        })
    }

    fn open(&self, server: usize) -> Result<(Client, SessionId), Failed> {
        let client = Client::open(&TcpTarget::new(self.address(server)), TIMEOUT_MS)?;
        let session = client.session.as_ref().ok_or("it has a session")?.0;
        Ok((client, session))
    }

    /// Connects with a handshake, and notes the answer.
    fn connect(
        &mut self,
        what: &str,
        server: usize,
        request: &ConnectRequest,
    ) -> Result<Client, Failed> {
        let mut client = Client::dial(&TcpTarget::new(self.address(server)))?;
        let answer = match client.shake_hands(request) {
            Handshake::Answered(response) if response.is_refused() => "refused".to_owned(),
            Handshake::Answered(response) => {
                assert_eq!(response.session, request.session);
                format!("accepted, {} ms", response.timeout_ms)
            }
            other => format!("{other:?}"),
        };
        self.told.push(format!("{what}: {answer}"));
        Ok(client)
    }

    /// Notes messages, their zxids as what was added to `base`.
    fn note(&mut self, what: &str, messages: &[Message], base: i64) {
        let line = |message: &Message| match message {
            Message::Reply { header, .. } if header.zxid.0 > 0 => {
                format!("zxid+{} {:?}", header.zxid.0 - base, header.err)
            }
            Message::Reply { header, .. } => format!("{:?} {:?}", header.zxid, header.err),
            other => format!("{other:?}"),
        };
        let lines: Vec<_> = messages.iter().map(line).collect();
        self.told.push(format!("{what}: {}", lines.join(", ")));
    }

    /// Asks, and notes the answer and how many zxids the request took.
    fn ask(&mut self, what: &str, client: &mut Client, request: &Request) -> Outcome {
        let base = self.zxid(self.leader)?;
        let messages = client.ask(request);
        // A follower may answer before its leader has applied what both commit.
        let known = messages.iter().filter_map(|message| match message {
            Message::Reply { header, .. } => Some(header.zxid.0),
            _ => None,
        });
        if let Some(known) = known.max() {
            self.await_zxid(known)?;
        }
        let taken = self.zxid(self.leader)? - base;
        self.note(&format!("{what} (takes {taken})"), &messages, base);
        Ok(())
    }
}

impl Servers<'_> {
    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Apache(ensemble) => ensemble.addresses(),
            Self::Double(ensemble) => {
                ensemble.servers().iter().filter_map(|server| server.address()).collect()
            }
        }
    }

    fn leader(&self) -> Option<usize> {
        match self {
            Self::Apache(ensemble) => ensemble.leader(),
            Self::Double(ensemble) => ensemble.leader(),
        }
    }

    /// Lets a follower apply nothing.
    fn lag(&self, follower: usize) {
        match self {
            Self::Apache(ensemble) => ensemble.network().lag(follower),
            Self::Double(ensemble) => ensemble.server(follower).hold(),
        }
    }

    fn cut_off(&self, server: usize) {
        match self {
            Self::Apache(ensemble) => ensemble.network().cut_off(server),
            Self::Double(ensemble) => ensemble.server(server).cut_off(),
        }
    }

    fn heal(&self) {
        match self {
            Self::Apache(ensemble) => ensemble.network().heal(),
            Self::Double(ensemble) => ensemble.heal(),
        }
    }

    /// Waits until a leader other than this server has a follower, or all follow one leader.
    fn await_leader(&self, but: Option<usize>) -> Outcome {
        block_on(async {
            super::common::until("a leader serves", async || {
                Ok(self.leader().is_some_and(|leader| Some(leader) != but)
                    && match self {
                        Self::Apache(ensemble) => {
                            but.is_some() || (ensemble.is_whole() && all_serve(ensemble)?)
                        }
                        Self::Double(ensemble) => ensemble.is_serving(),
                    })
            })
            .await
        })
    }
}

/// A server that its leader counts as a follower may not serve its clients yet.
fn all_serve(ensemble: &Ensemble) -> Result<bool, Failed> {
    for address in ensemble.addresses() {
        if !four_letter::ask(address, "srvr")?.contains("Mode: ") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A handshake that takes a session over.
fn resume(session: SessionId, seen: i64) -> ConnectRequest {
    let password = Password::of(session);
    let last_zxid_seen = Zxid(seen);
    ConnectRequest { session, password, last_zxid_seen, ..ConnectRequest::new(TIMEOUT_MS) }
}

fn sync() -> Request {
    Request::Read(Read::Sync("/".into()))
}

const PING: Request = Request::Session(SessionRequest::Ping);

/// Whether a request was answered with success, and with no event before.
fn is_ok(messages: &[Message]) -> bool {
    matches!(messages, [Message::Reply { header, .. }] if header.err.is_ok())
}

/// A session moves, and its client goes on over the old connection.
fn sessions(scene: &mut Scene<'_>) -> Outcome {
    let ([one, two], leader) = (scene.followers, scene.leader);
    let check = Request::Write(Write::Multi(vec![MultiOp::Check(Check {
        path: "/".into(),
        version: Expect::Any,
    })]));
    let new = |scene: &Scene<'_>| create(&scene.path("new"), CreateFlags::PERSISTENT);
    let requests: Vec<(&str, Request)> = vec![
        ("read", exists("/")),
        ("ping", PING),
        ("sync", sync()),
        ("create", new(scene)),
        ("multi", check),
        ("closeSession", Request::Write(Write::CloseSession)),
    ];
    for (from, to) in [(one, two), (one, leader), (leader, one)] {
        for (what, request) in &requests {
            let (mut old, session) = scene.open(from)?;
            let mut present = scene.connect("move", to, &resume(session, 0))?;
            scene.ask(&format!("old {what}"), &mut old, request)?;
            scene.ask("present read", &mut present, &exists("/"))?;
        }
    }
    for server in [one, leader] {
        let (mut old, session) = scene.open(server)?;
        let mut present = scene.connect("same server", server, &resume(session, 0))?;
        let end = old.receive();
        scene.note("old", &[end], 0);
        scene.ask("present", &mut present, &exists("/"))?;
    }
    Ok(())
}

/// What a server does not accept.
fn refusals(scene: &mut Scene<'_>) -> Outcome {
    let [one, two] = scene.followers;
    let (mut held, session) = scene.open(one)?;
    let wrong = ConnectRequest { password: Password::NULL, ..resume(session, 0) };
    scene.connect("wrong password", two, &wrong)?;
    scene.ask("after that", &mut held, &exists("/"))?;
    scene.connect("unknown session", two, &resume(SessionId(77), 0))?;
    let ahead = scene.zxid(scene.leader)? + 1;
    scene.connect("ahead", two, &resume(session, ahead))?;
    let reconfig = Reconfig {
        joining: Some("server.9=localhost:1:2".into()),
        leaving: None,
        new_members: None,
        current_config: -1,
    };
    let auth = |scheme: &str| {
        let (scheme, auth) = (Some(scheme.into()), Some(bytes::Bytes::from_static(b"u:p")));
        Request::Session(SessionRequest::Auth(Auth { auth_type: 0, scheme, auth }))
    };
    let relative = create("relative", CreateFlags::PERSISTENT);
    let missing = create(&format!("{}/child", scene.path("missing")), CreateFlags::PERSISTENT);
    for (what, request) in [
        ("auth", auth("digest")),
        ("reconfig", Request::Write(Write::Reconfig(reconfig))),
        ("relative path", relative),
        ("no parent", missing),
        ("null path", Request::Read(Read::GetAcl(RawPath::NULL))),
        ("whoAmI", Request::Session(SessionRequest::WhoAmI)),
        ("unknown scheme", auth("nope")),
    ] {
        scene.ask(what, &mut held, &request)?;
    }
    let (mut client, _) = scene.open(two)?;
    let op = zoolet_protocol::OpCode(999);
    scene.ask("unknown", &mut client, &Request::Unknown { op, body: bytes::Bytes::new() })
}

/// A follower receives no commits, and everything else.
fn lag(scene: &mut Scene<'_>) -> Outcome {
    let [slow, fast] = scene.followers;
    let (mut behind, _) = scene.open(slow)?;
    let (mut other, moving) = scene.open(fast)?;
    behind.ask(&sync());
    let base = scene.zxid(scene.leader)?;
    scene.servers.lag(slow);
    let (first, second) = (scene.path("first"), scene.path("second"));
    let created = other.ask(&create(&first, CreateFlags::PERSISTENT));
    scene.note("create", &created, base);
    let read = behind.ask(&exists(&first));
    scene.note("read behind", &read, base);
    let ping = behind.ask(&PING);
    scene.note("ping behind", &ping, base);
    scene.connect("ahead", slow, &resume(moving, base + 1))?;
    let mut moved = scene.connect("not ahead", slow, &resume(moving, base))?;
    let read = moved.ask(&exists(&first));
    scene.note("moved reads", &read, base);
    let write = other.ask(&exists("/"));
    scene.note("the old connection", &write, base);
    // These wait for the commits.
    let write = behind.send(&create(&second, CreateFlags::PERSISTENT));
    scene.await_zxid(base + 2)?;
    let read = behind.send(&exists(&second));
    let synced = moved.send(&sync());
    let (mut third, _) = scene.open(scene.leader)?;
    let committed = third.ask(&exists(&second));
    scene.note("committed", &committed, base);
    scene.servers.heal();
    let answers = behind.receive_until(write);
    scene.note("write", &answers, base);
    let answers = behind.receive_until(read);
    scene.told.push(format!("read after it: {}", is_ok(&answers)));
    let answers = moved.receive_until(synced);
    scene.told.push(format!("{} message to the moved one", answers.len()));
    let read = moved.ask(&exists(&first));
    scene.told.push(format!("the znode is there: {}", is_ok(&read)));
    Ok(())
}

/// A leader is cut off, and another one elected.
fn election(scene: &mut Scene<'_>) -> Outcome {
    let ([one, _], old) = (scene.followers, scene.leader);
    let (mut client, session) = scene.open(one)?;
    client.ask(&create(&scene.path("mine"), CreateFlags::EPHEMERAL));
    let seen = scene.zxid(old)?;
    scene.servers.cut_off(old);
    scene.servers.await_leader(Some(old))?;
    let end = client.receive();
    scene.note("the old connection", &[end], 0);
    let leader = scene.servers.leader().ok_or("there is one")?;
    let follower = (0..MEMBERS).find(|it| ![leader, old].contains(it)).ok_or("there is one")?;
    scene.leader = leader;
    let epoch = scene.zxid(leader)?;
    assert!(epoch >> 32 > seen >> 32, "an epoch begins");
    scene.told.push(format!(
        "leader at {}, follower at +{}",
        epoch & 0xffff_ffff,
        scene.zxid(follower)? - seen
    ));
    scene.connect("to the follower, having seen the epoch", follower, &resume(session, epoch))?;
    let mut client = scene.connect("to the follower", follower, &resume(session, seen))?;
    let mine = client.ask(&exists(&scene.path("mine")));
    scene.note("the ephemeral", &mine, seen);
    let path = scene.path("next");
    scene.ask("a write", &mut client, &create(&path, CreateFlags::PERSISTENT))?;
    scene.told.push(format!("follower at {}", scene.zxid(follower)? & 0xffff_ffff));
    scene.servers.heal();
    scene.servers.await_leader(None)?;
    let back = scene.connect("to the one that was cut off", old, &resume(session, 0));
    let mut client = back?;
    let read = client.ask(&exists(&path));
    scene.told.push(format!("the znode is there: {}", is_ok(&read)));
    Ok(())
}
