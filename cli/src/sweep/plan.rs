//! Which faults are injected: the kinds and points that the options choose.

use glob::{MatchOptions, Pattern};

use super::failure::Failure;
use super::kind::{Kind, PointFault};
use super::tracker::Seen;

/// Chooses paths: a path and all below it, or a pattern.
#[derive(Debug, Clone)]
pub(super) struct PathChoice {
    text: String,
    pattern: Option<Pattern>,
}

/// An asterisk stands for a part of one name of a path, and two of them for any names.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl PathChoice {
    /// Parses the value of `--path`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') && !text.starts_with('*') {
            return Err("must be a path such as /locks, or a pattern such as /locks/*".to_owned());
        }
        let is_pattern = text.contains(['*', '?', '[']);
        let pattern = is_pattern.then(|| Pattern::new(text)).transpose();
        let pattern = pattern.map_err(|error| format!("is no pattern: {error}"))?;
        Ok(Self { text: text.to_owned(), pattern })
    }

    fn includes(&self, path: &str) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.matches_with(path, OPTIONS),
            None => {
                let top = self.text.trim_end_matches('/');
                path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }
}

/// What the options choose.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) kinds: Vec<Kind>,
    pub(super) path: Option<PathChoice>,
    /// At most so many faults, chosen by this seed.
    pub(super) sample: Option<usize>,
    pub(super) seed: u64,
}

impl Choice {
    /// The points among the requests of a run, in the order of the requests.
    pub(super) fn points(&self, seen: &[Seen]) -> Result<Vec<Seen>, Failure> {
        let Some(choice) = &self.path else { return Ok(seen.to_vec()) };
        let is_chosen = |seen: &&Seen| {
            let mut paths = seen.paths.iter().chain([&seen.point.path]);
            paths.any(|path| choice.includes(path))
        };
        let points: Vec<_> = seen.iter().filter(is_chosen).cloned().collect();
        match points.is_empty() {
            true => Err(Failure::NoSuchPath { path: choice.text.clone() }),
            false => Ok(points),
        }
    }

    /// The faults at these points, in the order of the points.
    pub(super) fn faults(&self, points: &[Seen]) -> Result<Vec<PointFault>, Failure> {
        let mut faults = all_faults(points);
        faults.retain(|fault| self.kinds.contains(&fault.kind));
        if faults.is_empty() {
            return Err(Failure::NothingLeft);
        }
        if let Some(sample) = self.sample {
            let mut chosen: Vec<_> = (0..faults.len()).collect();
            fastrand::Rng::with_seed(self.seed).shuffle(&mut chosen);
            chosen.truncate(sample);
            chosen.sort_unstable();
            faults = chosen.into_iter().map(|index| faults[index].clone()).collect();
        }
        Ok(faults)
    }
}

/// Each kind of fault at each point.
pub(super) fn all_faults(points: &[Seen]) -> Vec<PointFault> {
    let at = |seen: &Seen| {
        let kinds = Kind::ALL.into_iter();
        let operation = seen.point.operation;
        let kinds = kinds.filter(|kind| kind.applies_to(operation, seen.is_write));
        kinds.map(|kind| PointFault { kind, point: seen.point.clone() }).collect::<Vec<_>>()
    };
    points.iter().flat_map(at).collect()
}

/// The fault with an id, which `--replay` names.
pub(super) fn fault(id: &str, points: &[Seen]) -> Result<PointFault, Failure> {
    let mut faults = all_faults(points).into_iter();
    faults.find(|fault| fault.id() == id).ok_or_else(|| Failure::NoSuchFault { id: id.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolet_protocol::OpCode;

    use super::super::point::Point;
    use super::*;

    fn seen(operation: OpCode, path: &str, is_write: bool) -> Seen {
        let point = Point { session: 1, operation, path: path.to_owned(), nth: 1 };
        let paths = vec![path.to_owned()];
        Seen { point, paths, is_write, at: Duration::ZERO, has_fault: false }
    }

    fn choice(path: Option<&str>, sample: Option<usize>, seed: u64) -> Choice {
        let path = path.map(|path| PathChoice::parse(path).unwrap());
        Choice { kinds: Kind::ALL.to_vec(), path, sample, seed }
    }

    #[test]
    fn a_path_includes_what_is_below_it_and_a_pattern_what_it_matches() {
        for (text, path, is_included) in [
            ("/", "/anything/at/all", true),
            ("/locks", "/locks", true),
            ("/locks/", "/locks/a", true),
            ("/locks", "/lockers", false),
            ("/locks/*", "/locks/a", true),
            ("/locks/*", "/locks/a/b", false),
            ("/locks/**", "/locks/a/b", true),
            ("**/leases", "/sem/leases", true),
        ] {
            let choice = PathChoice::parse(text).unwrap();
            assert_eq!(choice.includes(path), is_included, "{text} {path}");
        }
        assert!(PathChoice::parse("locks").is_err() && PathChoice::parse("/[").is_err());
    }

    #[test]
    fn a_seed_chooses_the_same_faults_each_time() {
        let points: Vec<_> = (0..20)
            .map(|number| seen(OpCode::CREATE, &format!("/{number}"), true))
            .chain([seen(OpCode::GET_DATA, "/x", false), seen(OpCode::CLOSE_SESSION, "", true)])
            .collect();
        let all = choice(None, None, 0).faults(&points).unwrap();
        assert_eq!(all.len(), 20 * 8 + 6 + 4, "a read has no reply-lost, a close no expiry");
        let sample = |seed| choice(None, Some(9), seed).faults(&points).unwrap();
        assert_eq!(sample(1).len(), 9);
        assert_eq!(sample(1), sample(1));
        assert_ne!(sample(1), sample(2));
        assert_eq!(choice(None, Some(1_000), 0).faults(&points).unwrap(), all);
        for fault in &all {
            assert_eq!(super::fault(&fault.id(), &points).unwrap(), *fault);
        }
    }
}
