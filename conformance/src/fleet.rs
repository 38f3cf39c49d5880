//! Fleets: processes of several libraries that contend for one recipe of one path, and what they
//! did to each other.
//!
//! A member is a program of its own, one for each [`Library`], with the arguments
//! `RECIPE HOST:PORT PATH FOLDER NAME CAPACITY`. It prints `ready` once it is connected. From the
//! line `go` on it acquires and releases until its standard input ends, and notes each hold in the
//! folder's file `entries`; see [`Entry`]. While it is inside it has a lock of the operating system
//! on the folder's file `inside`, which it takes without waiting: who does not get it is beside
//! someone who must not be there, says so and fails. Of the recipes `barrier` and `shell` a member does what
//! each line says, and repeats the line when it is done.

mod entries;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

pub use self::entries::{Entry, Fault, judge};
use crate::peers::{conformance_folder, kazoo_python};

/// Whose recipe a member uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// zoolet's.
    Zoolet,
    /// Curator's, in Java.
    Curator,
    /// kazoo's, in Python.
    Kazoo,
}

/// What a fleet contends for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The recipe, as members name it.
    pub recipe: &'a str,
    /// The server's address, as `HOST:PORT`.
    pub address: &'a str,
    /// The path of the recipe.
    pub path: &'a str,
    /// How much weight there may be inside at once.
    pub capacity: u32,
}

/// Longer than a member takes for anything that it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes that contend. Those that still run when it is dropped are killed.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    said: Receiver<(usize, Option<String>)>,
    folder: TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
}

impl Fleet {
    /// Starts members of these libraries, `ours` being our own program, and waits until all are
    /// connected.
    ///
    /// # Errors
    ///
    /// When one does not come up.
    pub fn start(subject: Subject<'_>, ours: &Path, libraries: &[Library]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        File::create(folder.path().join("entries"))?;
        File::create(folder.path().join("inside"))?;
        let (saying, said) = mpsc::channel();
        let mut fleet = Self { members: Vec::new(), said, folder };
        for (number, &library) in libraries.iter().enumerate() {
            let name = format!("{}-{number}", library.name());
            let program = library.program(ours);
            let member = fleet.spawn(program, subject, name, number, saying.clone())?;
            fleet.members.push(member);
        }
        drop(saying);
        for _ in libraries {
            let (member, line) = fleet.hear()?;
            if line != "ready" {
                return Err(fleet.complaint(member, Some(line)));
            }
        }
        Ok(fleet)
    }

    fn spawn(
        &self,
        mut program: Command,
        subject: Subject<'_>,
        name: String,
        number: usize,
        saying: Sender<(usize, Option<String>)>,
    ) -> io::Result<Member> {
        let mut process = program
            .args([subject.recipe, subject.address, subject.path])
            .arg(self.folder.path())
            .args([&name, &subject.capacity.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.complaints(&name))?)
            .spawn()?;
        let output = process.stdout.take().expect("stdout is piped");
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok).map(Some);
            for line in lines.chain([None]) {
                // Nobody listens any more once the fleet is gone.
                let _ = saying.send((number, line));
            }
        });
        let input = process.stdin.take();
        Ok(Member { name, process, input })
    }

    fn complaints(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).with_extension("complaints")
    }

    /// Tells a member to do something.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn tell(&mut self, member: usize, what: &str) -> io::Result<()> {
        let input = self.members[member].input.as_mut().expect("it was not told to stop");
        writeln!(input, "{what}")
    }

    /// Waits until a member says something, and gives back which and what.
    ///
    /// # Errors
    ///
    /// When one has ended, or nothing comes.
    pub fn hear(&mut self) -> io::Result<(usize, String)> {
        match self.said.recv_timeout(PATIENCE) {
            Ok((member, Some(line))) => Ok((member, line)),
            Ok((member, None)) => Err(self.complaint(member, None)),
            Err(error) => Err(io::Error::other(format!("nothing comes: {error}"))),
        }
    }

    /// Sees to it that nobody says anything for a while.
    ///
    /// # Errors
    ///
    /// When a member does, or has ended.
    pub fn hear_nothing(&mut self, time: Duration) -> io::Result<()> {
        match self.said.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok((member, line)) => Err(self.complaint(member, line)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn complaint(&self, member: usize, line: Option<String>) -> io::Error {
        let name = &self.members[member].name;
        let line = line.unwrap_or_else(|| "nothing any more".to_owned());
        let complaints = fs::read_to_string(self.complaints(name)).unwrap_or_default();
        io::Error::other(format!("{name} says {line}\n{complaints}"))
    }

    /// Lets all contend for a while, and returns what they noted.
    ///
    /// # Errors
    ///
    /// When one fails.
    pub fn contend(&mut self, time: Duration) -> io::Result<Vec<Entry>> {
        for member in 0..self.members.len() {
            self.tell(member, "go")?;
        }
        self.hear_nothing(time)?;
        self.stop()?;
        Entry::read_all(&self.folder.path().join("entries"))
    }

    /// Ends all, each after what it is at.
    ///
    /// # Errors
    ///
    /// When one fails.
    pub fn stop(&mut self) -> io::Result<()> {
        for member in &mut self.members {
            member.input = None;
        }
        for _ in 0..self.members.len() {
            match self.said.recv_timeout(PATIENCE) {
                Ok((_, None)) => {}
                Ok((member, line)) => return Err(self.complaint(member, line)),
                Err(error) => return Err(io::Error::other(format!("{error}: one does not end"))),
            }
        }
        for member in 0..self.members.len() {
            let status = self.members[member].process.wait()?;
            if !status.success() {
                return Err(self.complaint(member, Some(status.to_string())));
            }
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

impl Library {
    /// How the names of its members begin.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zoolet => "zoolet",
            Self::Curator => "curator",
            Self::Kazoo => "kazoo",
        }
    }

    fn program(self, ours: &Path) -> Command {
        let foreign = conformance_folder().join("foreign");
        match self {
            Self::Zoolet => {
                let mut program = Command::new(ours);
                program.arg("fleet-member");
                program
            }
            Self::Curator => {
                let mut program = Command::new(foreign.join("curator/run"));
                program.arg("FleetMember");
                program
            }
            Self::Kazoo => {
                let mut program = Command::new(kazoo_python());
                program.arg(foreign.join("kazoo-member"));
                program
            }
        }
    }
}
