//! Draws scripts with several servers from seeds: random operations of three clients that move
//! between the servers, followers that lag, and in some scripts an election.
//!
//! A drawn script waits for everything that it causes, so that its trace is the same in each run: a
//! request that waits for a lagging follower is sent, and received when that has caught up.

use std::fmt::Write as _;

use fastrand::Rng;

/// The folders of the drawn scripts, the seeds of each, and whether a leader is lost.
const DRAWN: [(&str, std::ops::Range<u64>, bool); 2] =
    [("drawn", 0..80, false), ("drawn-elections", 1_000..1_016, true)];

const SERVERS: usize = 3;
/// The blocks of a script, and the commands of a block.
const BLOCKS: usize = 6;
const COMMANDS: usize = 6;
const PATHS: [&str; 6] = ["/p", "/q", "/p/x", "/p/y", "/q/z", "/p/x/deep"];

/// The names of all drawn scripts, and their commands without traces.
#[must_use]
pub fn drawn() -> Vec<(String, String)> {
    let scripts = DRAWN.into_iter().flat_map(|(folder, seeds, has_election)| {
        seeds.map(move |seed| (format!("{folder}/{seed:03}"), script(seed, has_election)))
    });
    scripts.collect()
}

fn script(seed: u64, has_election: bool) -> String {
    let mut draw = Draw::new(seed);
    let what = if has_election { ", and a leader that is lost" } else { "" };
    draw.line(&format!("# Drawn from seed {seed}: three clients that move{what}."));
    draw.begin();
    for block in 0..BLOCKS {
        if has_election && block == BLOCKS / 2 {
            draw.lose_leader();
        }
        let begin = draw.text.len();
        for _ in 0..COMMANDS {
            draw.command();
        }
        if draw.text.len() == begin {
            draw.line("leader: > mode");
        }
        if has_election && block == BLOCKS - 2 {
            draw.line("leader: > start");
            draw.servers.push("leader");
        }
        draw.end_block();
    }
    draw.catch_up_all();
    draw.list();
    draw.text.trim_end().to_owned() + "\n"
}

struct Draw {
    rng: Rng,
    text: String,
    /// The leader first.
    servers: Vec<&'static str>,
    clients: Vec<DrawnClient>,
    /// The zxid after which each lagging server applies nothing.
    lagging: Vec<(&'static str, u64)>,
    /// The zxids that were taken in this epoch, and how the script writes the first of it.
    taken: u64,
    epoch: &'static str,
}

struct DrawnClient {
    /// The client that created the session.
    session: String,
    name: String,
    server: &'static str,
    is_open: bool,
    /// It waits for a lagging server.
    is_blocked: bool,
    /// The lagging servers to which its session has sent requests that wait. There also later
    /// connections wait.
    waits_at: Vec<&'static str>,
    /// How many connections it has had.
    connections: u32,
}

impl Draw {
    fn new(seed: u64) -> Self {
        let (rng, servers) = (Rng::with_seed(seed), vec!["leader", "one", "two"]);
        let (clients, lagging) = (Vec::new(), Vec::new());
        Self { rng, text: String::new(), servers, clients, lagging, taken: 0, epoch: "z" }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn end_block(&mut self) {
        self.text.push_str("---\n\n");
    }

    /// A line of a client.
    fn tell(&mut self, client: usize, line: &str) {
        let name = self.clients[client].name.clone();
        let _ = writeln!(self.text, "{name}: > {line}");
    }

    fn begin(&mut self) {
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            let server = self.servers[(index + self.rng.usize(..SERVERS)) % SERVERS];
            self.clients.push(DrawnClient {
                session: name.to_owned(),
                name: name.to_owned(),
                server,
                is_open: true,
                is_blocked: false,
                waits_at: Vec::new(),
                connections: 1,
            });
            self.tell(index, &format!("connect {server}"));
        }
        for path in ["/p", "/q"] {
            self.tell(0, &format!("create {path}"));
        }
        self.taken += 5;
        self.end_block();
    }

    fn is_lagging(&self, server: &str) -> bool {
        self.lagging.iter().any(|(lagging, _)| *lagging == server)
    }

    fn command(&mut self) {
        let client = self.rng.usize(..self.clients.len());
        let is_blocked = self.clients[client].is_blocked;
        match self.rng.u32(..100) {
            0..7 => self.lag_or_catch_up(),
            7..16 => self.connect_again(client),
            _ if !self.clients[client].is_open => self.connect_again(client),
            _ if is_blocked => {}
            16..19 => self.close_session(client),
            19..22 => self.set_watches(client),
            22..58 => self.write(client),
            58..62 => self.synchronise(client),
            _ => self.read(client),
        }
    }

    fn path(&mut self) -> &'static str {
        PATHS[self.rng.usize(..PATHS.len())]
    }

    fn version(&mut self) -> i32 {
        if self.rng.bool() { -1 } else { self.rng.i32(0..3) }
    }

    fn change(&mut self) -> String {
        let (path, value) = (self.path(), self.rng.u32(..100));
        match self.rng.u32(..10) {
            0..4 => {
                let flags = ["", "", "-e ", "-s ", "-e -s "][self.rng.usize(..5)];
                // The numbers below the root depend on earlier scripts.
                let separator = if flags.contains("-s") { "/n-" } else { "" };
                format!("create {flags}{path}{separator} {value}")
            }
            4..8 => format!("setData {path} {value} {}", self.version()),
            _ => format!("delete {path} {}", self.version()),
        }
    }

    fn write(&mut self, client: usize) {
        let line = match self.rng.u32(..10) {
            0..2 => {
                let (path, version) = (self.path(), self.version());
                let changes = [self.change(), self.change()];
                format!("multi check {path} {version} , {} , {}", changes[0], changes[1])
            }
            2 => format!("setACL {} world:anyone:cdrwa {}", self.path(), self.version()),
            _ => self.change(),
        };
        self.taken += 1;
        self.ask_or_send(client, &line);
    }

    fn synchronise(&mut self, client: usize) {
        let path = self.path();
        self.ask_or_send(client, &format!("sync {path}"));
    }

    /// A request that waits until the server has applied what is committed.
    fn ask_or_send(&mut self, client: usize, line: &str) {
        if self.is_lagging(self.clients[client].server) {
            let it = &mut self.clients[client];
            it.is_blocked = true;
            it.waits_at.push(it.server);
            self.tell(client, &format!("send {line}"));
        } else {
            self.tell(client, line);
        }
    }

    fn read(&mut self, client: usize) {
        let path = self.path();
        let watch = if self.rng.bool() { "-w " } else { "" };
        let line = match self.rng.u32(..16) {
            0..4 => format!("getData {watch}{path}"),
            4..8 => format!("exists {watch}{path}"),
            8..10 => format!("getChildren {watch}{path}"),
            10 => format!("getChildren2 {watch}{path}"),
            11 => format!("addWatch {path} {}", ["persistent", "recursive"][self.rng.usize(..2)]),
            12 => format!("removeWatches {path} any"),
            13 => format!("multiRead getData {path} , getChildren /p"),
            14 => "getEphemerals /".to_owned(),
            _ => format!("getAllChildrenNumber {path}"),
        };
        self.tell(client, &line);
    }

    fn set_watches(&mut self, client: usize) {
        let zxid = format!("{}+{}", self.epoch, self.rng.u64(..=self.taken));
        let (data, exist, child) = (self.path(), self.path(), self.path());
        let line = format!("setWatches {zxid} --data {data} --exist {exist} --child {child}");
        self.tell(client, &line);
    }

    fn close_session(&mut self, client: usize) {
        if self.is_lagging(self.clients[client].server) {
            return;
        }
        self.tell(client, "closeSession");
        let free: Vec<_> =
            self.servers.iter().filter(|server| !self.is_lagging(server)).copied().collect();
        let server = free[self.rng.usize(..free.len())];
        self.taken += 2;
        let it = &mut self.clients[client];
        it.connections += 1;
        it.name = format!("{}{}", &it.name[..1], it.connections);
        (it.session, it.server) = (it.name.clone(), server);
        self.tell(client, &format!("connect {server}"));
    }

    /// The client connects to a server with its session. Its old connection is cut, or remains and
    /// is used no more.
    fn connect_again(&mut self, client: usize) {
        let server = self.servers[self.rng.usize(..self.servers.len())];
        if self.clients[client].waits_at.contains(&server) {
            return;
        }
        let seen = if self.rng.bool() { self.taken } else { 0 };
        let applied = self.lagging.iter().find(|(lagging, _)| *lagging == server);
        let is_ahead = applied.is_some_and(|(_, applied)| seen > *applied);
        // Who follows a new leader has not taken the zxid of the epoch.
        let seen = if seen == 0 { "z+0".to_owned() } else { format!("{}+{seen}", self.epoch) };
        if self.rng.bool() {
            self.tell(client, "cut");
        } else {
            let it = &mut self.clients[client];
            it.connections += 1;
            it.name = format!("{}{}", &it.name[..1], it.connections);
        }
        let it = &mut self.clients[client];
        (it.is_open, it.is_blocked, it.server) = (!is_ahead, false, server);
        let line = format!("connect {server} --session {} --seen {seen}", it.session);
        self.tell(client, &line);
    }

    fn lag_or_catch_up(&mut self) {
        let server = self.servers[self.rng.usize(1..self.servers.len())];
        match self.lagging.iter().position(|(lagging, _)| *lagging == server) {
            Some(place) => self.catch_up(place),
            // After an election there may be one follower only, which lags as well as two.
            None => {
                self.line(&format!("{server}: > lag"));
                self.lagging.push((server, self.taken));
            }
        }
    }

    fn catch_up(&mut self, place: usize) {
        let (server, _) = self.lagging.remove(place);
        self.line(&format!("{server}: > catchUp"));
        for client in 0..self.clients.len() {
            let it = &mut self.clients[client];
            it.waits_at.retain(|waits| *waits != server);
            if it.server == server && std::mem::take(&mut it.is_blocked) {
                self.tell(client, "receive");
            }
        }
    }

    fn catch_up_all(&mut self) {
        while !self.lagging.is_empty() {
            self.catch_up(0);
        }
    }

    /// The leader is lost, and every client goes to one of the others.
    fn lose_leader(&mut self) {
        self.catch_up_all();
        self.line("leader: > stop");
        self.line("servers: > awaitLeader");
        self.servers = vec!["newLeader", "newFollower"];
        (self.taken, self.epoch) = (0, "z2");
        for client in 0..self.clients.len() {
            let server = self.servers[self.rng.usize(..2)];
            let it = &mut self.clients[client];
            (it.is_open, it.is_blocked, it.server) = (true, false, server);
            it.waits_at.clear();
            let line = format!("connect {server} --session {}", it.session);
            self.tell(client, &line);
        }
        self.end_block();
    }

    /// All servers show the same.
    fn list(&mut self) {
        for (index, server) in self.servers.clone().into_iter().enumerate() {
            let name = ["x", "y", "z"][index];
            self.line(&format!("{name}: > connect {server}"));
            for path in ["/p", "/q"] {
                self.line(&format!("{name}: > getChildren2 {path}"));
                self.line(&format!("{name}: > getData {path}"));
            }
            self.line(&format!("{name}: > getEphemerals /"));
        }
        self.text.push_str("---\n");
    }
}
