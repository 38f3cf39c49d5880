//! The faults of an ensemble: how a member lags, how it is cut off from the others, and how those
//! elect a new leader.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use zoolet_protocol::SessionId;

use super::observer::EnsembleEvent;
use super::state::{MEMBERS, Role, State};
use super::tracker::Tracker;

/// How a follower lags.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// It applies each transaction this much later than the leader.
    delay: Duration,
    /// It applies nothing before this time, but answers the leader's pings.
    applies_from: Option<Instant>,
    /// It receives nothing from the leader before this time. What it sends arrives.
    held_until: Option<Instant>,
}

/// A cut between one member and the others, in both directions.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) member: usize,
    was_leader: bool,
    ends: Instant,
    /// When the member notices: it closes the connections of its clients.
    member_notices: Instant,
    /// When the others notice. If the member was their leader, they elect another.
    others_notice: Instant,
    have_others_noticed: bool,
}

impl State {
    fn is_cut_off(&self, member: usize) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.member == member)
    }

    fn is_held(&self, member: usize) -> bool {
        self.members[member].lag.held_until.is_some_and(|until| until > self.now)
    }

    /// Whether a member believes that it leads, also when it is cut off and has not noticed.
    pub(super) fn believes_to_lead(&self, member: usize) -> bool {
        self.members[member].role == Role::Leading
    }

    /// Whether messages of a member arrive at the leader.
    pub(super) fn reaches_leader(&self, member: usize) -> bool {
        self.leader.is_some_and(|leader| {
            let is_follower = self.members[member].role == Role::Following;
            let is_linked = !self.is_cut_off(member) && !self.is_cut_off(leader);
            leader == member || (is_follower && is_linked)
        })
    }

    /// Whether messages of the leader arrive at a member.
    pub(super) fn hears_leader(&self, member: usize) -> bool {
        self.reaches_leader(member) && (self.leader == Some(member) || !self.is_held(member))
    }

    /// Whether a follower answers the leader, so that the leader can commit.
    pub(super) fn has_quorum(&self) -> bool {
        let followers = (0..MEMBERS).filter(|member| self.leader != Some(*member));
        followers.into_iter().any(|member| self.hears_leader(member))
    }

    /// When a member applies the next transaction.
    pub(super) fn due(&self, member: usize) -> Option<Instant> {
        let Lag { delay, applies_from, held_until } = self.members[member].lag;
        let next = self.log.get(self.members[member].applied)?;
        if !self.reaches_leader(member) {
            return None;
        }
        [applies_from, held_until].into_iter().flatten().chain([next.at + delay]).max()
    }

    /// When the state between the members changes next.
    pub(super) fn fault_deadlines(&self) -> impl Iterator<Item = Instant> {
        let cut = self.cut.iter().flat_map(|cut| [cut.ends, cut.member_notices, cut.others_notice]);
        let held = self.members.iter().filter_map(|member| member.lag.held_until);
        cut.chain(held).chain(self.election).filter(|time| *time > self.now)
    }

    /// Lets a follower apply each transaction this much later.
    pub fn delay(&mut self, member: usize, delay: Duration) {
        self.members[member].lag.delay = delay;
    }

    /// Lets a follower apply nothing for a while.
    pub fn hold_applying(&mut self, member: usize, time: Duration) {
        self.members[member].lag.applies_from = Some(self.now + time);
    }

    /// Lets a follower receive nothing from its leader for a while.
    pub fn hold_link(&mut self, member: usize, time: Duration) {
        // After a longer time it would give the leader up.
        let most = self.terms.tick * self.terms.sync_limit.saturating_sub(1);
        self.members[member].lag.held_until = Some(self.now + time.min(most));
    }

    /// Cuts the leader, or one of the followers, off for a while. Unless the cut is noticed at
    /// once, each side notices after `sync_limit` ticks without a message.
    pub fn cut_off(&mut self, who: CutOff, notice: Notice, time: Duration) {
        let Some(leader) = self.leader.filter(|_| self.cut.is_none()) else { return };
        let member = match who {
            CutOff::Leader => leader,
            CutOff::Follower(member) if member == leader => (member + 1) % MEMBERS,
            CutOff::Follower(member) => member,
            CutOff::ServerOf(session) => {
                let mut connections = self.connections.values();
                let its = connections.find(|connection| connection.session == Some(session));
                let Some(member) = its.map(|connection| connection.member) else { return };
                member
            }
        };
        let was_leader = member == leader;
        // The last ping was sent at the last half of a tick.
        let patience = self.terms.tick * self.terms.sync_limit;
        let follower_notices = self.next_half_tick - self.terms.tick / 2 + patience;
        // The leader checks at each tick whether a quorum has answered within `sync_limit` ticks.
        let leader_notices = follower_notices + self.terms.tick;
        let (member_notices, others_notice) = match (notice, was_leader) {
            (Notice::AtOnce, _) => (self.now, self.now),
            (Notice::OthersAtOnce, true) => (leader_notices, self.now),
            (_, true) => (leader_notices, follower_notices),
            (_, false) => (follower_notices, self.now),
        };
        self.observer.happened(match was_leader {
            true => EnsembleEvent::LeaderCutOff(member),
            false => EnsembleEvent::FollowerCutOff(member),
        });
        let have_others_noticed = false;
        let ends = self.now + time;
        let cut =
            Cut { member, was_leader, ends, member_notices, others_notice, have_others_noticed };
        self.cut = Some(cut);
    }

    /// Whether all members serve clients and follow one leader.
    pub fn is_well(&self) -> bool {
        self.cut.is_none() && self.leader.is_some()
    }

    /// Ends all faults.
    pub fn end_faults(&mut self) {
        self.members.iter_mut().for_each(|member| member.lag = Lag::default());
        if let Some(cut) = &mut self.cut {
            cut.ends = cut.ends.min(self.now);
        }
    }

    /// Continues with a cut, and with the election that follows from it.
    pub(super) fn advance_faults(&mut self) {
        self.notice_cut();
        if self.election.is_some_and(|election| election <= self.now) {
            self.elect();
        }
        self.end_cut();
    }

    fn notice_cut(&mut self) {
        let Some(cut) = &self.cut else { return };
        let (member, was_leader) = (cut.member, cut.was_leader);
        if cut.member_notices <= self.now && self.members[member].role != Role::Looking {
            self.give_up(member);
        }
        let Some(cut) = &mut self.cut else { return };
        if was_leader && cut.others_notice <= self.now && !cut.have_others_noticed {
            cut.have_others_noticed = true;
            (0..MEMBERS).filter(|other| *other != member).for_each(|other| self.give_up(other));
            let time = Duration::from_millis(self.rng.u64(50..1_000));
            self.election = Some(self.now + time);
            self.leader = None;
        }
    }

    /// A member has lost its leader, and serves no client.
    fn give_up(&mut self, member: usize) {
        self.observer.happened(EnsembleEvent::LooksForLeader(member));
        self.members[member].role = Role::Looking;
        self.members[member].touched.clear();
        if self.leader == Some(member) {
            self.leader = None;
        }
        let is_its = |id: &_| self.connections[id].member == member;
        let ids: Vec<_> = self.connections.keys().copied().filter(is_its).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    /// The members that are not cut off elect a leader, which regards all sessions as alive.
    fn elect(&mut self) {
        let cut = self.cut.as_ref().map(|cut| cut.member);
        let electors: Vec<_> = (0..MEMBERS).filter(|member| Some(*member) != cut).collect();
        let leader = electors[self.rng.usize(..electors.len())];
        self.observer.happened(EnsembleEvent::Leads(leader));
        electors.iter().for_each(|member| self.join(*member));
        self.members[leader].role = Role::Leading;
        (self.leader, self.election) = (Some(leader), None);
        self.tracker = Tracker::new(self.start, self.terms.tick);
        for (session, timeout_ms) in self.head().sessions() {
            self.tracker.begin(session, timeout_ms, None, self.now);
        }
    }

    /// A member follows, once it has applied all committed transactions.
    fn join(&mut self, member: usize) {
        while self.members[member].applied < self.log.len() {
            self.apply_next(member);
        }
        self.members[member].role = Role::Following;
    }

    fn end_cut(&mut self) {
        let Some(cut) = self.cut.as_mut().filter(|cut| cut.ends <= self.now) else { return };
        let member = cut.member;
        match self.members[member].role {
            // It led and gave up, and the others notice.
            Role::Looking if cut.was_leader && !cut.have_others_noticed => {
                cut.others_notice = self.now;
                self.notice_cut();
            }
            Role::Looking if self.leader.is_some() => {
                self.join(member);
                self.cut = None;
            }
            // It has not noticed that another member leads.
            Role::Leading if self.leader != Some(member) => {}
            Role::Looking => {}
            Role::Leading | Role::Following => self.cut = None,
        }
    }
}

/// The member that is cut off.
#[derive(Debug, Clone, Copy)]
pub enum CutOff {
    /// The leader.
    Leader,
    /// This member, or the next one if it leads.
    Follower(usize),
    /// The member that serves a session.
    ServerOf(SessionId),
}

/// Which side notices a cut before `sync_limit` ticks.
#[derive(Debug, Clone, Copy)]
pub enum Notice {
    /// Both sides, as when a process ends.
    AtOnce,
    /// The others, as when only the connections to the leader are reset.
    OthersAtOnce,
    /// Neither side, until its time without a message has passed.
    Nobody,
}

impl Notice {
    /// One of them, at random.
    pub fn drawn(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0 => Self::AtOnce,
            1 | 2 => Self::OthersAtOnce,
            _ => Self::Nobody,
        }
    }
}
