//! Which znodes a cache has.

use std::fmt;
use std::sync::Arc;

use super::store::{child_path, parent_path};

/// What of a znode and its descendants belongs to a cache: Curator's `TreeCacheSelector`.
///
/// ```
/// use zoolet_recipes::Select;
///
/// let select = |path: &str| if path.ends_with("/logs") { Select::Nothing } else { Select::All };
/// assert_eq!(select("/app/logs"), Select::Nothing);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The znode, and those of its descendants that are selected themselves.
    All,
    /// The znode without its descendants.
    WithoutDescendants,
    /// Neither the znode nor its descendants.
    Nothing,
}

type Selector = Arc<dyn Fn(&str) -> Select + Send + Sync>;

/// The root of a cache, and what is selected below it.
#[derive(Clone)]
pub(crate) struct Selection {
    pub(crate) root: Arc<str>,
    /// How many levels below the root are cached.
    pub(crate) depth_max: u32,
    pub(crate) selector: Option<Selector>,
}

impl Selection {
    pub(crate) fn is_root(&self, path: &str) -> bool {
        *path == *self.root
    }

    /// Whether a znode is in the cache if it exists. The root always is.
    pub(crate) fn includes(&self, path: &str) -> bool {
        let Some(below) = self.below_root(path) else { return false };
        if below.is_empty() {
            return true;
        }
        let depth = below.split('/').count();
        if u32::try_from(depth).map_or(true, |depth| depth > self.depth_max) {
            return false;
        }
        let Some(selector) = &self.selector else { return true };
        let has_descendants = |ancestor: &str| match selector(ancestor) {
            Select::All => true,
            Select::WithoutDescendants => false,
            Select::Nothing => self.is_root(ancestor),
        };
        let mut ancestor = self.root.to_string();
        for name in below.split('/') {
            if !has_descendants(&ancestor) {
                return false;
            }
            ancestor = child_path(&ancestor, name);
        }
        selector(path) != Select::Nothing
    }

    /// Whether the children of a znode that is in the cache may be in it too.
    pub(crate) fn traverses(&self, path: &str) -> bool {
        let Some(below) = self.below_root(path) else { return false };
        let depth = if below.is_empty() { 0 } else { below.split('/').count() };
        let is_deep = u32::try_from(depth).map_or(true, |depth| depth >= self.depth_max);
        let selected = self.selector.as_ref().map_or(Select::All, |selector| selector(path));
        !is_deep && selected != Select::WithoutDescendants
    }

    /// Whether a child of a znode that is in the cache is in it too, if it exists.
    pub(crate) fn includes_child(&self, path: &str) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector(path) != Select::Nothing)
    }

    /// The parent, if it can be in the cache.
    pub(crate) fn parent<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.is_root(path) { None } else { parent_path(path) }
    }

    /// The path without that of the root: empty for the root itself.
    fn below_root<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix(&*self.root)?;
        match below {
            "" => Some(""),
            below if *self.root == *"/" => Some(below),
            below => below.strip_prefix('/'),
        }
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("root", &self.root)
            .field("depth_max", &self.depth_max)
            .field("has_selector", &self.selector.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_ends_at_its_depth_and_where_its_selector_says() {
        let deep = Selection { root: "/a".into(), depth_max: 2, selector: None };
        assert!(deep.includes("/a") && deep.includes("/a/b") && deep.includes("/a/b/c"));
        assert!(!deep.includes("/a/b/c/d") && !deep.includes("/ab") && !deep.includes("/"));
        assert!(deep.traverses("/a/b") && !deep.traverses("/a/b/c"));
        let select = |path: &str| match path {
            "/x" => Select::WithoutDescendants,
            "/y" => Select::Nothing,
            _ => Select::All,
        };
        let chosen =
            Selection { root: "/".into(), depth_max: u32::MAX, selector: Some(Arc::new(select)) };
        assert!(chosen.includes("/x") && !chosen.includes("/x/1") && !chosen.traverses("/x"));
        assert!(!chosen.includes("/y") && !chosen.includes("/y/1") && chosen.includes("/z/1"));
    }
}
