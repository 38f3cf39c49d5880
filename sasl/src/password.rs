//! Passwords, and the users who have them.

use std::collections::BTreeMap;
use std::fmt;

/// A password. Its `Debug` output does not show it.
///
/// ```
/// use zoolet_sasl::Password;
///
/// assert_eq!(format!("{:?}", Password::from("secret")), "Password");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<str>);

impl Password {
    /// The text of the password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// The users who may authenticate, each with a password.
///
/// ```
/// use zoolet_sasl::{Password, Users};
///
/// let users: Users = [("ann".to_owned(), Password::from("secret"))].into_iter().collect();
/// assert_eq!(users.names().collect::<Vec<_>>(), ["ann"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users(BTreeMap<String, Password>);

impl Users {
    /// The names of the users.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Changes the password of a user, if there is one of this name.
    pub fn set_password(&mut self, user: &str, password: Password) {
        if let Some(old) = self.0.get_mut(user) {
            *old = password;
        }
    }

    pub(crate) fn password(&self, user: &str) -> Option<&Password> {
        self.0.get(user)
    }
}

impl FromIterator<(String, Password)> for Users {
    fn from_iter<I: IntoIterator<Item = (String, Password)>>(users: I) -> Self {
        Self(users.into_iter().collect())
    }
}
