//! The mixture of operations.

use std::collections::BTreeMap;
use std::str::FromStr;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Op {
    Get,
    Exists,
    Children,
    Set,
    Create,
    Delete,
}

impl Op {
    pub(super) const ALL: [Self; 6] =
        [Self::Get, Self::Exists, Self::Children, Self::Set, Self::Create, Self::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Exists => "exists",
            Self::Children => "children",
            Self::Set => "set",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }
}

/// How often each operation is drawn, relative to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mix {
    weights: Vec<(Op, u32)>,
    total: u32,
}

/// The greatest weight: finer mixtures are not measurable.
const WEIGHT_MAX: u32 = 1_000_000;

impl Mix {
    /// The mixture of these weights.
    ///
    /// # Errors
    ///
    /// A sentence that tells what is wrong.
    pub(super) fn new<'a>(
        weights: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Self, String> {
        let mut mix = BTreeMap::new();
        for (name, weight) in weights {
            let op =
                Op::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| unknown(name))?;
            if weight > WEIGHT_MAX {
                return Err(format!("the weight of {name} must be {WEIGHT_MAX} at most"));
            }
            if mix.insert(op, weight).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        let weights: Vec<_> = mix.into_iter().filter(|&(_, weight)| weight > 0).collect();
        match weights.iter().map(|(_, weight)| weight).sum() {
            0 => Err("at least one operation must have a weight, such as get=1".to_owned()),
            total => Ok(Self { weights, total }),
        }
    }

    /// A random operation.
    pub(super) fn draw(&self) -> Op {
        let mut number = fastrand::u32(..self.total);
        for &(op, weight) in &self.weights {
            if number < weight {
                return op;
            }
            number -= weight;
        }
        unreachable!("the number is less than all weights together")
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `get=80,set=20`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights = Vec::new();
        for each in text.split(',') {
            let (name, weight) = each
                .split_once('=')
                .and_then(|(name, weight)| Some((name.trim(), weight.trim().parse().ok()?)))
                .ok_or_else(|| format!("{each:?} is not NAME=WEIGHT; write get=80,set=20, say"))?;
            weights.push((name, weight));
        }
        Self::new(weights)
    }
}

/// Suggests the operation with the most similar name, if one is similar enough.
fn unknown(name: &str) -> String {
    let names = Op::ALL.map(Op::name);
    let nearest = names.iter().max_by(|one, other| {
        strsim::jaro_winkler(one, name).total_cmp(&strsim::jaro_winkler(other, name))
    });
    let is_near = |other: &&&str| strsim::jaro_winkler(other, name) > SIMILARITY_MIN;
    match nearest.filter(is_near) {
        Some(other) => format!("there is no operation {name}; did you mean {other}?"),
        None => format!("there is no operation {name}; there are {}", names.join(", ")),
    }
}

/// The least similarity of a suggestion.
const SIMILARITY_MIN: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_are_read() {
        let mix: Mix = "get=80, set=20,create=0".parse().unwrap();
        assert_eq!(mix.weights, [(Op::Get, 80), (Op::Set, 20)]);
        assert!((0..100).all(|_| matches!(mix.draw(), Op::Get | Op::Set)));
        for (text, hint) in [
            ("", "NAME=WEIGHT"),
            ("get", "NAME=WEIGHT"),
            ("get=x", "NAME=WEIGHT"),
            ("get=-1", "NAME=WEIGHT"),
            ("gett=1", "did you mean get?"),
            ("frobnicate=1", "there are get, exists"),
            ("get=1,get=2", "twice"),
            ("get=0", "at least one"),
            ("get=4000000000", "at most"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
