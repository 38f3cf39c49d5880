//! A chunk of a set of paths, and the key by which it is found.

use zoolet_protocol::ZPath;

/// What is derived from the paths of a chunk.
pub(crate) trait Derived: Default {
    /// What all that is derived has in common.
    type Shared: Default;

    /// The part of a path by which it differs from the others of its set. It is in their order.
    fn distinct_part(path: &str) -> &str {
        path
    }

    /// Forgets everything, because the paths change.
    fn forget(&mut self, shared: &mut Self::Shared);
}

/// Nothing.
impl Derived for () {
    type Shared = ();

    fn forget(&mut self, (): &mut ()) {}
}

/// The first bytes of the distinct part of a path, in the order of the paths. Two paths may have the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u64; 2]);

impl Key {
    pub(super) fn of<D: Derived>(path: &str) -> Self {
        let part = D::distinct_part(path).as_bytes();
        let word = |part: &[u8]| {
            let mut word = [0; 8];
            let len = part.len().min(word.len());
            word[..len].copy_from_slice(&part[..len]);
            u64::from_be_bytes(word)
        };
        Self([word(part), word(part.get(8..).unwrap_or_default())])
    }
}

/// A chunk, and a key for the search. The chunks are not beside each other: a new one among thousands
/// moves little.
#[derive(Debug, Clone)]
pub(super) struct Link<D> {
    /// The keys of these paths are not less, and those of all paths before them not greater.
    pub(super) least: Key,
    pub(super) chunk: Box<Chunk<D>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk<D> {
    pub(crate) paths: Vec<ZPath>,
    pub(crate) derived: D,
}

impl<D: Derived> Link<D> {
    /// The first chunk, with one path.
    pub(super) fn first(path: ZPath) -> Self {
        let chunk = Chunk { paths: vec![path], derived: D::default() };
        Self { least: Key::default(), chunk: Box::new(chunk) }
    }

    /// A chunk of some paths that come after others.
    pub(super) fn of(paths: Vec<ZPath>) -> Self {
        let least = Key::of::<D>(&paths[0]);
        Self { least, chunk: Box::new(Chunk { paths, derived: D::default() }) }
    }

    pub(super) fn paths(&self) -> &[ZPath] {
        &self.chunk.paths
    }

    /// The paths, to be changed.
    pub(super) fn paths_mut(&mut self, shared: &mut D::Shared) -> &mut Vec<ZPath> {
        self.chunk.derived.forget(shared);
        &mut self.chunk.paths
    }
}
