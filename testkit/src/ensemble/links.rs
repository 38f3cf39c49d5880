//! Which servers hear of each other, when they notice that they do not, and whom they elect.
//!
//! A follower gives its leader up when it has heard nothing for `sync_limit` ticks, and a leader
//! gives up a tick later if it has not heard from a majority (`Learner`, `Leader.lead`).

use std::time::Duration;

use tokio::time::Instant;

use super::lag::Hold;
use super::observer::EnsembleEvent;
use super::settings::Elections;
use super::state::{Member, Role, State};
use super::tracker::Tracker;

/// How long an election takes, in milliseconds.
const ELECTION_MS: std::ops::Range<u64> = 50..1_000;

impl State {
    /// Whether a test lets a member stand still.
    pub(super) fn is_frozen(&self, member: usize) -> bool {
        self.members[member].hooks.as_ref().is_some_and(|hooks| hooks.is_server_frozen())
    }

    fn is_running(&self, member: usize) -> bool {
        self.members[member].role != Role::Stopped && !self.is_frozen(member)
    }

    /// Whether messages of one member arrive at another.
    fn is_linked(&self, one: usize, other: usize) -> bool {
        let is_same_side = self.members[one].side == self.members[other].side;
        one == other || (is_same_side && self.is_running(one) && self.is_running(other))
    }

    fn is_held(&self, member: usize) -> bool {
        match self.members[member].lag.link {
            Hold::No => false,
            Hold::Until(until) => until > self.now,
            Hold::Released => true,
        }
    }

    /// Whether a member believes that it leads, also when it is cut off and has not noticed.
    pub(super) fn believes_to_lead(&self, member: usize) -> bool {
        self.members[member].role == Role::Leading
    }

    /// Whether a member has looked for a leader for so long that it serves clients that only read.
    pub(super) fn is_read_only(&self, member: usize) -> bool {
        let since = self.members[member].looks_since;
        self.law.has_read_only_mode
            && self.members[member].role == Role::Looking
            && since + self.law.read_only_delay() <= self.now
    }

    /// Whether the process of a member has ended.
    pub(super) fn is_stopped(&self, member: usize) -> bool {
        self.members[member].role == Role::Stopped
    }

    /// Whether a member has a leader, or believes that it leads.
    pub(super) fn serves_writes(&self, member: usize) -> bool {
        matches!(self.members[member].role, Role::Leading | Role::Following)
    }

    /// Whether messages of a member arrive at the leader.
    pub(super) fn reaches_leader(&self, member: usize) -> bool {
        self.leader.is_some_and(|leader| {
            let Self { members, epoch, .. } = self;
            let is_follower =
                members[member].role == Role::Following && members[member].epoch == *epoch;
            leader == member || (is_follower && self.is_linked(member, leader))
        })
    }

    /// Whether messages of the leader arrive at a member.
    pub(super) fn hears_leader(&self, member: usize) -> bool {
        self.reaches_leader(member) && (self.leader == Some(member) || !self.is_held(member))
    }

    /// Whether enough followers answer the leader, so that it can commit.
    pub(super) fn has_quorum(&self) -> bool {
        let Some(leader) = self.leader.filter(|leader| self.is_running(*leader)) else {
            return false;
        };
        let followers = (0..self.members.len()).filter(|member| *member != leader);
        self.is_majority(1 + followers.filter(|member| self.hears_leader(*member)).count())
    }

    fn is_majority(&self, servers: usize) -> bool {
        servers > self.members.len() / 2
    }

    /// The leader has sent a ping to its followers, and those that received it have answered.
    pub(super) fn hear(&mut self, at: Instant) {
        let has_quorum = self.has_quorum();
        for member in 0..self.members.len() {
            let hears = match self.leader == Some(member) {
                true => has_quorum,
                false => self.hears_leader(member),
            };
            if hears {
                self.members[member].heard = at;
            }
        }
    }

    /// When a member gives its leader or its leadership up, unless it hears from the others before.
    fn gives_up_at(&self, member: usize) -> Option<Instant> {
        let (role, heard) = (self.members[member].role, self.members[member].heard);
        let is_leader = self.leader == Some(member);
        match role {
            _ if self.is_frozen(member) => None,
            Role::Following if !self.hears_leader(member) => Some(heard + self.law.patience()),
            Role::Leading if !is_leader || !self.has_quorum() => match self.has_lost(member) {
                true => Some(heard + self.law.tick),
                false => Some(heard + self.law.patience() + self.law.tick),
            },
            _ => None,
        }
    }

    /// Whether so many followers have closed their connections to a leader that it leads no
    /// majority. It looks at each tick.
    fn has_lost(&self, leader: usize) -> bool {
        let Member { epoch, side, .. } = self.members[leader];
        let follows = |member: &&Member| member.role == Role::Following && member.epoch == epoch;
        // The end of a connection that is cut is not heard of.
        let is_out_of_reach = |member: &&Member| member.side != side;
        let left = self.members.iter().filter(|it| follows(it) || is_out_of_reach(it)).count();
        !self.is_majority(1 + left)
    }

    /// When the state between the members changes next.
    pub(super) fn link_deadlines(&self) -> impl Iterator<Item = Instant> {
        let members = 0..self.members.len();
        let given_up = members.filter_map(|member| self.gives_up_at(member));
        let held = self.members.iter().filter_map(|member| match member.lag.link {
            Hold::Until(until) => Some(until),
            Hold::No | Hold::Released => None,
        });
        let cut = self.timed_cut.iter().map(|cut| cut.ends);
        given_up.chain(held).chain(cut).chain(self.election).filter(|time| *time > self.now)
    }

    /// Continues with what follows from links that were lost or restored.
    pub(super) fn advance_links(&mut self) {
        for member in 0..self.members.len() {
            let is_due = self.gives_up_at(member).is_some_and(|time| time <= self.now);
            if is_due || self.is_superseded(member) {
                self.give_up(member);
            }
        }
        self.schedule_election();
        if self.election.is_some_and(|election| election <= self.now) {
            self.election = None;
            if let Some(electors) = self.electors() {
                let leader = electors[self.rng.usize(..electors.len())];
                self.elect(leader, &electors);
            }
        }
        self.end_timed_cut();
        for member in 0..self.members.len() {
            let leader = self.leader.filter(|leader| self.is_linked(member, *leader));
            let looks = self.members[member].role == Role::Looking;
            // A hold that ends by itself is too short to keep a server away.
            let is_held = self.members[member].lag.link == Hold::Released;
            if looks && leader.is_some() && !is_held {
                self.join(member);
            }
        }
    }

    /// Whether a member learns that its leader was replaced, or that its followers have left it.
    fn is_superseded(&self, member: usize) -> bool {
        let Self { members, leader, epoch, .. } = self;
        if !self.is_running(member) || *leader == Some(member) {
            return false;
        }
        match members[member].role {
            Role::Following => {
                members[member].epoch != *epoch
                    && leader.is_some_and(|leader| self.is_linked(member, leader))
            }
            Role::Leading => (0..members.len()).any(|other| {
                let knows_better = members[other].epoch > members[member].epoch
                    || members[other].role == Role::Looking;
                other != member && knows_better && self.is_linked(member, other)
            }),
            Role::Looking | Role::Stopped => false,
        }
    }

    /// A member has lost its leader, and serves no client. The followers of a leader that gives up
    /// lose their connections to it.
    pub(super) fn give_up(&mut self, member: usize) {
        self.observer.happened(EnsembleEvent::LooksForLeader(member));
        let was_leading = self.believes_to_lead(member);
        self.members[member].role = Role::Looking;
        self.members[member].looks_since = self.now;
        self.members[member].touched.clear();
        if self.leader == Some(member) {
            self.leader = None;
        }
        self.ids_of(member).into_iter().for_each(|id| self.close(id));
        self.members[member].left_behind.clear();
        if was_leading {
            self.abandon_followers(member);
        }
    }

    /// The followers that a leader reaches lose their connections to it.
    pub(super) fn abandon_followers(&mut self, leader: usize) {
        let epoch = self.members[leader].epoch;
        for member in 0..self.members.len() {
            let is_follower =
                self.members[member].role == Role::Following && self.members[member].epoch == epoch;
            if is_follower && self.members[member].side == self.members[leader].side {
                self.give_up(member);
            }
        }
    }

    /// The members that can elect a leader: a majority that looks for one.
    pub(super) fn electors(&self) -> Option<Vec<usize>> {
        let looks = |member: &usize| {
            self.members[*member].role == Role::Looking && self.is_running(*member)
        };
        let looking: Vec<_> = (0..self.members.len()).filter(looks).collect();
        let side = |first: &usize| {
            let linked = looking.iter().filter(|other| self.is_linked(*first, **other));
            linked.copied().collect::<Vec<_>>()
        };
        looking.iter().map(side).find(|side| self.is_majority(side.len()))
    }

    /// The members that run and reach a member, itself included.
    pub(super) fn side_of(&self, member: usize) -> Vec<usize> {
        let members = 0..self.members.len();
        members.filter(|other| self.is_running(*other) && self.is_linked(member, *other)).collect()
    }

    fn schedule_election(&mut self) {
        if self.election.is_some() || self.electors().is_none() {
            return;
        }
        self.leader = None;
        if self.law.elections == Elections::Drawn {
            let time = Duration::from_millis(self.rng.u64(ELECTION_MS));
            self.election = Some(self.now + time);
        }
    }

    /// A member leads and the others follow. It regards all sessions as alive.
    pub(super) fn elect(&mut self, leader: usize, electors: &[usize]) {
        self.observer.happened(EnsembleEvent::Leads(leader));
        self.epoch += 1;
        electors.iter().for_each(|member| self.join(*member));
        self.members[leader].role = Role::Leading;
        (self.leader, self.election) = (Some(leader), None);
        self.tracker = Tracker::new(self.start, self.law.tick);
        let now = self.session_time();
        for (session, timeout_ms) in self.head().sessions() {
            self.tracker.begin(session, timeout_ms, None, now);
        }
        self.condemned.iter().for_each(|session| self.tracker.close(*session));
        self.begin_epoch(leader);
    }

    /// A member follows, once it has applied all committed transactions.
    fn join(&mut self, member: usize) {
        // Clients that it served without a leader.
        self.ids_of(member).into_iter().for_each(|id| self.close(id));
        while self.members[member].applied < self.log.len() {
            self.apply_next(member);
        }
        let (epoch, now) = (self.epoch, self.now);
        let member = &mut self.members[member];
        member.local_sessions.clear();
        (member.role, member.epoch, member.heard) = (Role::Following, epoch, now);
    }

    fn end_timed_cut(&mut self) {
        let Some(cut) = self.timed_cut.as_ref().filter(|cut| cut.ends <= self.now) else { return };
        let member = cut.member;
        match self.members[member].role {
            // It has not noticed that another member leads.
            Role::Leading if self.leader != Some(member) => {}
            // The others elect a leader first.
            Role::Looking if self.leader.is_none() => {}
            _ => {
                self.timed_cut = None;
                self.members[member].side = 0;
                self.hear_until_now();
            }
        }
    }
}
