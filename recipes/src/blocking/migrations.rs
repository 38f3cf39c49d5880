//! Migrations for threads.

use super::{Client, Recipe};
use crate::migration::{self, MigrationError, MigrationSet};

/// The async [`MigrationManager`](migration::MigrationManager), for threads.
pub type MigrationManager = Recipe<migration::MigrationManager>;

impl MigrationManager {
    /// A manager whose locks and meta data are below these paths. For one with options:
    /// `MigrationManager::of(&client, manager)`, with an async one that was made with
    /// [`Client::ask`].
    #[must_use]
    pub fn new(client: &Client, lock_path: &str, meta_data_path: &str) -> Self {
        let manager = migration::MigrationManager::new(client.ask(), lock_path, meta_data_path);
        Self::of(client, manager)
    }

    /// Carries out the migrations of a set that are missing, all or none, and returns how many it
    /// found missing.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn migrate(&self, set: &MigrationSet) -> Result<usize, MigrationError> {
        self.client.wait(self.recipe.migrate(set))
    }
}
