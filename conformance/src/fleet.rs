//! Fleets: processes that use different libraries and contend for one recipe on one path.
//!
//! There is one program for each [`Library`], with the arguments `RECIPE HOST:PORT PATH FOLDER NAME
//! CAPACITY`. A member prints `ready` when it is connected. After the line `go` it acquires and
//! releases until its standard input ends, and appends each hold to the file `entries` in the
//! folder; see [`Entry`]. While it holds the lock, it also holds a file lock of the operating
//! system on the file `inside`. It takes the file lock without waiting; if another process has it,
//! exclusion is violated, and the member prints an error and fails. With some recipes, such as
//! `barrier`, `shell` and `costs`, a member does what each line says, and prints the line when it is done. Those
//! that begin with `recorded-` are described in [`recorded`].

mod entries;
pub mod recorded;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

pub use self::entries::{Entry, Violation, check};
use crate::peers::{conformance_folder, kazoo_python};

/// The library whose recipe a member uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// zoolet.
    Zoolet,
    /// Curator, in Java.
    Curator,
    /// kazoo, in Python.
    Kazoo,
}

/// The recipe for which a fleet contends.
#[derive(Debug, Clone, Copy)]
pub struct FleetRecipe<'a> {
    /// The name of the recipe, as members know it.
    pub name: &'a str,
    /// The server's address, as `HOST:PORT`.
    pub address: &'a str,
    /// The path of the recipe.
    pub path: &'a str,
    /// The greatest sum of the weights of all holds at one time.
    pub capacity: u32,
}

/// A member does everything it is told to in less time, unless the test says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many times as long a fleet contends whose members have too little to show.
const CONTEND_TIMES_MAX: usize = 10;

/// Running members. Dropping it kills them.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    lines: Receiver<(usize, Option<String>)>,
    folder: TempDir,
    patience: Duration,
}

#[derive(Debug)]
struct Member {
    name: String,
    process: Child,
    input: Option<ChildStdin>,
    is_killed: bool,
}

impl Fleet {
    /// Starts one member for each of these libraries and waits until all are connected. `ours` is
    /// our own program.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn start(recipe: FleetRecipe<'_>, ours: &Path, libraries: &[Library]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        File::create(folder.path().join("entries"))?;
        File::create(folder.path().join("inside"))?;
        let (line_sender, lines) = mpsc::channel();
        let mut fleet = Self { members: Vec::new(), lines, folder, patience: PATIENCE };
        for (number, &library) in libraries.iter().enumerate() {
            let name = format!("{}-{number}", library.name());
            let program = library.program(ours);
            let member = fleet.spawn(program, recipe, name, number, line_sender.clone())?;
            fleet.members.push(member);
        }
        drop(line_sender);
        for _ in libraries {
            let (member, line) = fleet.hear()?;
            if line != "ready" {
                return Err(fleet.error_of(member, Some(line)));
            }
        }
        Ok(fleet)
    }

    fn spawn(
        &self,
        mut program: Command,
        recipe: FleetRecipe<'_>,
        name: String,
        number: usize,
        line_sender: Sender<(usize, Option<String>)>,
    ) -> io::Result<Member> {
        let mut process = program
            .args([recipe.name, recipe.address, recipe.path])
            .arg(self.folder.path())
            .args([&name, &recipe.capacity.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.errors(&name))?)
            .spawn()?;
        let output = process.stdout.take().expect("stdout is piped");
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok).map(Some);
            for line in lines.chain([None]) {
                // Fails after the fleet was dropped.
                let _ = line_sender.send((number, line));
            }
        });
        let input = process.stdin.take();
        Ok(Member { name, process, input, is_killed: false })
    }

    fn errors(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).with_extension("errors")
    }

    /// The same fleet, whose members may take this long for each thing that they are told to do.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends a line to a member.
    ///
    /// # Errors
    ///
    /// If the member has ended.
    pub fn tell(&mut self, member: usize, what: &str) -> io::Result<()> {
        let input = self.members[member].input.as_mut().expect("the fleet was not stopped");
        writeln!(input, "{what}")
    }

    /// Waits for the next line of any member, and returns the member and the line.
    ///
    /// # Errors
    ///
    /// If a member has ended, or no line comes in time.
    pub fn hear(&mut self) -> io::Result<(usize, String)> {
        match self.lines.recv_timeout(self.patience) {
            Ok((member, Some(line))) => Ok((member, line)),
            Ok((member, None)) => Err(self.error_of(member, None)),
            Err(error) => {
                Err(io::Error::other(format!("no member printed a line in time: {error}")))
            }
        }
    }

    /// Has a member obey a line, and returns what it answers: what it prints behind the line.
    ///
    /// # Errors
    ///
    /// If a member has ended, another one prints a line, or none comes in time.
    pub fn ask(&mut self, member: usize, line: &str) -> io::Result<String> {
        self.tell(member, line)?;
        let (answering, answer) = self.hear()?;
        match answer.strip_prefix(line).filter(|_| answering == member) {
            Some(answer) => Ok(answer.trim().to_owned()),
            None => Err(self.error_of(answering, Some(answer))),
        }
    }

    /// The name of a member.
    #[must_use]
    pub fn name(&self, member: usize) -> &str {
        &self.members[member].name
    }

    /// Kills a member, which says nothing any more: it does not end its session.
    ///
    /// # Errors
    ///
    /// If another one prints a line or ends.
    pub fn kill(&mut self, member: usize) -> io::Result<()> {
        let killed = &mut self.members[member];
        killed.process.kill()?;
        killed.process.wait()?;
        killed.is_killed = true;
        loop {
            match self.lines.recv_timeout(self.patience) {
                Ok((ended, None)) if ended == member => return Ok(()),
                Ok((late, Some(_))) if late == member => {}
                Ok((other, line)) => return Err(self.error_of(other, line)),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Waits, and checks that no member prints a line.
    ///
    /// # Errors
    ///
    /// If a member prints a line or ends.
    pub fn hear_nothing(&mut self, time: Duration) -> io::Result<()> {
        match self.lines.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok((member, line)) => Err(self.error_of(member, line)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// What the members have written down.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn written(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.path().join("entries"))
    }

    fn error_of(&self, member: usize, line: Option<String>) -> io::Error {
        let name = &self.members[member].name;
        let line = line.unwrap_or_else(|| "that it has ended".to_owned());
        let errors = fs::read_to_string(self.errors(name)).unwrap_or_default();
        io::Error::other(format!("{name} says {line}\n{errors}"))
    }

    /// Lets all members contend for some time, and on a busy machine several times as long, until their
    /// holds are enough. Returns all holds, which may be too few still.
    ///
    /// # Errors
    ///
    /// If a member fails.
    pub fn contend(
        &mut self,
        time: Duration,
        are_enough: impl Fn(&[Entry]) -> bool,
    ) -> io::Result<Vec<Entry>> {
        for member in 0..self.members.len() {
            self.tell(member, "go")?;
        }
        for _ in 0..CONTEND_TIMES_MAX {
            self.hear_nothing(time)?;
            let written = self.written()?;
            // The last line may be half written.
            let whole = written.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let entries: Vec<Entry> = whole.lines().map(str::parse).collect::<io::Result<_>>()?;
            if are_enough(&entries) {
                break;
            }
        }
        self.stop()?;
        Entry::read_all(&self.folder.path().join("entries"))
    }

    /// Stops all members. Each finishes what it is doing.
    ///
    /// # Errors
    ///
    /// If a member fails.
    pub fn stop(&mut self) -> io::Result<()> {
        for member in &mut self.members {
            member.input = None;
        }
        let is_alive = |fleet: &Self, member: &usize| !fleet.members[*member].is_killed;
        let alive: Vec<_> = (0..self.members.len()).filter(|it| is_alive(self, it)).collect();
        for _ in &alive {
            match self.lines.recv_timeout(self.patience) {
                Ok((_, None)) => {}
                Ok((member, line)) => return Err(self.error_of(member, line)),
                Err(error) => {
                    return Err(io::Error::other(format!("a member does not end: {error}")));
                }
            }
        }
        for member in alive {
            let status = self.members[member].process.wait()?;
            if !status.success() {
                return Err(self.error_of(member, Some(status.to_string())));
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
    /// The beginning of the names of its members.
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
