//! The faults between the servers, as a test or a simulation sets them.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use zoolet_core::Core;
use zoolet_protocol::SessionId;

use super::lag::{Hold, Lag, TimedCut};
use super::observer::EnsembleEvent;
use super::state::{Role, State};
use super::tracker::Tracker;

impl State {
    /// When a member applies the next transaction.
    pub(super) fn due(&self, member: usize) -> Option<Instant> {
        let Lag { delay, count, applying, link } = self.members[member].lag;
        let applied = self.members[member].applied;
        let next = self.log.get(applied)?;
        if !self.reaches_leader(member) || self.log.len() - applied <= count {
            return None;
        }
        let mut due = next.at + delay;
        for hold in [applying, link] {
            match hold {
                Hold::No => {}
                Hold::Until(until) => due = due.max(until),
                Hold::Released => return None,
            }
        }
        Some(due)
    }
}

/// The faults of a test, which last until it ends them.
impl State {
    /// Puts a member on another side. Those on one side reach each other.
    pub(super) fn put_on_side(&mut self, member: usize, side: usize) {
        let (was_leader, before) = (self.leader == Some(member), self.members[member].side);
        if before == side {
            return;
        }
        if side != 0 {
            self.observer.happened(match was_leader {
                true => EnsembleEvent::LeaderCutOff(member),
                false => EnsembleEvent::FollowerCutOff(member),
            });
        }
        self.members[member].side = side;
    }

    /// The process of a member ends. Those that it was connected to notice at once.
    pub(super) fn stop(&mut self, member: usize) {
        if self.members[member].role == Role::Stopped {
            return;
        }
        let was_leading = self.believes_to_lead(member);
        self.observer.happened(EnsembleEvent::Stopped(member));
        self.ids_of(member).into_iter().for_each(|id| self.cut(id));
        self.members[member].role = Role::Stopped;
        self.members[member].touched.clear();
        self.members[member].left_behind.clear();
        if self.leader == Some(member) {
            self.leader = None;
        }
        if was_leading {
            self.abandon_followers(member);
        }
    }

    /// The process of a member begins again, with its data.
    pub(super) fn start_again(&mut self, member: usize) {
        if self.members[member].role == Role::Stopped {
            self.members[member].role = Role::Looking;
            self.members[member].looks_since = self.now;
        }
    }

    /// Elects a member now. Returns `false` if no majority reaches it.
    pub(super) fn elect_now(&mut self, member: usize) -> bool {
        let side = self.side_of(member);
        if !side.contains(&member) || side.len() <= self.members.len() / 2 {
            return false;
        }
        for other in &side {
            if self.members[*other].role != Role::Looking {
                self.give_up(*other);
            }
        }
        self.elect(member, &side);
        true
    }

    /// The state of a new ensemble, but that zxids and ids go on. All faults between the members end,
    /// and all connections.
    pub(super) fn reset(&mut self) {
        self.ids().into_iter().for_each(|id| self.cut(id));
        let (zxid, settings) = (self.head().last_zxid(), self.law.settings.clone());
        let leader = self.law.first_leader.unwrap_or(0);
        self.epoch += 1;
        for (index, member) in self.members.iter_mut().enumerate() {
            member.core = Core::starting_after(settings.clone(), zxid);
            member.role = if index == leader { Role::Leading } else { Role::Following };
            (member.epoch, member.applied, member.side) = (self.epoch, 0, 0);
            (member.lag, member.heard, member.is_asked) = (Lag::default(), self.now, false);
            member.touched.clear();
            member.left_behind.clear();
            member.local_sessions.clear();
        }
        self.begin_history(Core::starting_after(settings, zxid));
        self.tracker = Tracker::new(self.start, self.law.tick);
        self.condemned.clear();
        (self.leader, self.election, self.timed_cut) = (Some(leader), None, None);
        self.observer.happened(EnsembleEvent::Leads(leader));
        self.begin_epoch(leader);
        self.has_sent = true;
    }

    /// The session times out at once; later, if no leader can commit that now.
    pub(super) fn expire(&mut self, session: SessionId) {
        self.tracker.close(session);
        self.condemned.insert(session);
        self.close_expired();
    }
}

/// The faults of a simulation, which end by themselves.
impl State {
    /// Whether a member leads the others.
    pub fn leads(&self, member: usize) -> bool {
        self.leader == Some(member)
    }

    /// Lets a follower apply each transaction this much later.
    pub fn delay(&mut self, member: usize, delay: Duration) {
        self.members[member].lag.delay = delay;
    }

    /// Lets a follower apply nothing for a while.
    pub fn hold_applying(&mut self, member: usize, time: Duration) {
        let until = self.now + time;
        let applying = &mut self.members[member].lag.applying;
        *applying = applying.and_until(until);
    }

    /// Lets a follower receive nothing from its leader for a while; at most for
    /// [`State::longest_hold`].
    pub fn hold_link(&mut self, member: usize, time: Duration) {
        self.hear_until_now();
        let until = self.now + time.min(self.longest_hold());
        let link = &mut self.members[member].lag.link;
        *link = link.and_until(until);
    }

    /// For how long a follower may receive nothing from its leader. After a longer time it would give
    /// the leader up.
    pub fn longest_hold(&self) -> Duration {
        self.law.tick * self.law.sync_limit.saturating_sub(1)
    }

    /// What was sent before now arrives, if late.
    pub(super) fn hear_until_now(&mut self) {
        let last = self.next_half_tick - self.law.tick / 2;
        let others = (0..self.members.len()).filter(|member| self.leader != Some(*member));
        let heard: Vec<_> = others.filter(|member| self.reaches_leader(*member)).collect();
        let leader = self.leader.filter(|_| !heard.is_empty());
        for member in heard.into_iter().chain(leader) {
            self.members[member].heard = self.members[member].heard.max(last);
        }
    }

    /// Cuts the leader, or one of the followers, off for a while. Unless the cut is noticed at
    /// once, each side notices after `sync_limit` ticks without a message.
    pub fn cut_off(&mut self, who: CutOff, notice: Notice, time: Duration) {
        let Some(leader) = self.leader.filter(|_| self.timed_cut.is_none()) else { return };
        let member = match who {
            CutOff::Leader => leader,
            CutOff::Follower(member) if member == leader => (member + 1) % self.members.len(),
            CutOff::Follower(member) => member,
            CutOff::ServerOf(session) => {
                let Some(member) = self.server_of(session) else { return };
                member
            }
        };
        self.hear_until_now();
        self.put_on_side(member, member + 1);
        self.timed_cut = Some(TimedCut { member, ends: self.now + time });
        if matches!(notice, Notice::AtOnce) {
            self.give_up(member);
        }
        if matches!(notice, Notice::AtOnce | Notice::OthersAtOnce) && member == leader {
            let others = (0..self.members.len()).filter(|other| *other != member);
            others.for_each(|other| self.give_up(other));
        }
    }

    /// The member that serves a session: that of its last open connection. A client that has moved
    /// may have an older one, to another member.
    pub fn server_of(&self, session: SessionId) -> Option<usize> {
        let mut open = self.connections.values().rev().filter(|connection| connection.is_open());
        open.find(|connection| connection.session == Some(session))
            .map(|connection| connection.member)
    }

    /// Whether all members serve clients and follow one leader.
    pub fn is_well(&self) -> bool {
        self.timed_cut.is_none() && self.leader.is_some()
    }

    /// Ends all faults.
    pub fn end_faults(&mut self) {
        self.members.iter_mut().for_each(|member| member.lag = Lag::default());
        if let Some(cut) = &mut self.timed_cut {
            cut.ends = cut.ends.min(self.now);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Both sides, as when a process ends.
    AtOnce,
    /// The others, as when only the connections to the leader are reset. Of a cut follower they need
    /// not notice anything.
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
