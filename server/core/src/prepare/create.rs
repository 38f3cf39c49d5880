//! The decision about a create.

use std::borrow::Cow;
use std::sync::Arc;

use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, ErrorCode, MultiOp, PathError, Permissions,
    SEQUENCE_DIGITS, ZPath,
};

use super::view::View;
use super::{Decision, before_name, unless_null};
use crate::acl;
use crate::core::{Core, Requester};
use crate::ephemeral_owner::{EphemeralType, TTL_MS_MAX};
use crate::limits::QUOTA_TEXT_BYTES_MAX;
use crate::quota::{Change, QuotaZnode};
use crate::tree::Data;
use crate::txn::{CreateTxn, TxnOp};

/// What a create asks for. The list is asked for when its turn to be checked has come.
pub(super) struct NewZnode<'a, L: FnOnce() -> Result<Arc<[Acl]>, ErrorCode>> {
    pub(super) kind: CreateKind,
    pub(super) flags: CreateFlags,
    /// `None` if it is null.
    pub(super) path: Option<&'a str>,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl: L,
}

impl Core {
    /// The list that is set where a request has this one.
    pub(super) fn list_to_set(
        &self,
        acl: Option<&[Acl]>,
        requester: &Requester,
    ) -> Result<Arc<[Acl]>, ErrorCode> {
        match self.tree.last_acl_list(acl) {
            Some(shared) => Ok(shared),
            None => acl::fix_up(acl, &requester.identities, &self.settings),
        }
    }

    pub(super) fn decide_create<L: FnOnce() -> Result<Arc<[Acl]>, ErrorCode>>(
        &self,
        create: NewZnode<'_, L>,
        view: &View<'_>,
    ) -> Decision {
        self.check_mode(create.kind, create.flags)?;
        view.check_session()?;
        let path = create.path.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let parent_path = before_name(path.as_bytes()).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let decision = self.decide_create_below(parent_path, path, create, view);
        decision.map_err(|code| unless_null(path.as_bytes(), code))
    }

    fn decide_create_below<L: FnOnce() -> Result<Arc<[Acl]>, ErrorCode>>(
        &self,
        parent_path: &[u8],
        path: &str,
        create: NewZnode<'_, L>,
        view: &View<'_>,
    ) -> Decision {
        let NewZnode { kind, flags, data, acl, .. } = create;
        let acl = acl()?;
        let (parent_place, parent) = view.look_up_parent(parent_path);
        let parent = parent.ok_or(ErrorCode::NO_NODE)?;
        view.authorizer.permits(&parent.acl, Permissions::CREATE)?;

        let number = parent.stat.cversion;
        let path = if flags.is_sequential() {
            parse_with_number(path, number)
        } else {
            ZPath::parse(path)
        };
        let path = path.map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let (place, existing) = view.look_up(path.as_bytes());
        if existing.is_some() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if let EphemeralType::Ephemeral(_) = parent.stat.ephemeral_owner.ephemeral_type() {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if let Some(quota) = QuotaZnode::at(&path) {
            let length = data.map_or(0, <[u8]>::len);
            if quota.is_of_everything() || length > QUOTA_TEXT_BYTES_MAX {
                return Err(ErrorCode::BAD_ARGUMENTS);
            }
        }
        if self.settings.enforce_quota {
            let bytes = data.map_or(0, <[u8]>::len) as i64;
            self.quotas.admit(&self.tree, &path, Change { count: 1, bytes })?;
        }
        let create = CreateTxn {
            kind,
            path,
            data: data.map(Data::copied),
            acl,
            ephemeral: flags.is_ephemeral(),
            parent_cversion: number.wrapping_add(1),
        };
        Ok((TxnOp::Create(create), self.tree.looked_up(place, parent_place)))
    }

    /// Checks the flags and the time to live. This comes before all other checks.
    fn check_mode(&self, kind: CreateKind, flags: CreateFlags) -> Result<(), ErrorCode> {
        if !flags.is_known() {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        if flags.has_ttl() && !self.settings.ttl_znodes {
            return Err(ErrorCode::UNIMPLEMENTED);
        }
        match kind {
            CreateKind::Ttl { ttl_ms } => {
                // With other flags and a negative time, ZooKeeper logs a transaction that it cannot
                // apply, and cannot start any more.
                let is_valid = flags.has_ttl() && (1..=TTL_MS_MAX).contains(&ttl_ms);
                if is_valid { Ok(()) } else { Err(ErrorCode::BAD_ARGUMENTS) }
            }
            _ if flags.has_ttl() => Err(ErrorCode::BAD_ARGUMENTS),
            _ => Ok(()),
        }
    }
}

/// A path with a sequence number of [`SEQUENCE_DIGITS`] digits after it, as `String.format` makes it
/// in Java. Java counts the sign of a number beyond 2^31 - 1 as a digit.
fn parse_with_number(path: &str, number: i32) -> Result<ZPath, PathError> {
    let (mut buffer, len) = ([0; 128], path.len() + SEQUENCE_DIGITS);
    let (Ok(mut rest), Some(buffer)) = (u32::try_from(number), buffer.get_mut(..len)) else {
        return ZPath::parse(&format!("{path}{number:010}"));
    };
    let (before, digits) = buffer.split_at_mut(path.len());
    before.copy_from_slice(path.as_bytes());
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    ZPath::parse(std::str::from_utf8(buffer).expect("digits after a text are a text"))
}

/// Whether a multi understands an operation. Except in a createTTL, unknown flags or a missing access
/// control list make the whole multi unreadable.
pub(super) fn check_in_multi(op: &MultiOp) -> Result<(), ErrorCode> {
    let MultiOp::Create(create) = op else { return Ok(()) };
    let flags = create.flags;
    let is_ttl = matches!(create.kind, CreateKind::Ttl { .. });
    if !is_ttl && (!flags.is_known() || flags.has_ttl() || create.acl.is_none()) {
        return Err(ErrorCode::MARSHALLING_ERROR);
    }
    Ok(())
}

/// An operation as a multi understands it. In a multi the flags decide the type of a created znode,
/// outside a multi the operation code does (`Op.create`).
pub(super) fn normalised(op: &MultiOp) -> Cow<'_, MultiOp> {
    let MultiOp::Create(create) = op else { return Cow::Borrowed(op) };
    let flags = create.flags;
    let kind = match create.kind {
        CreateKind::Ttl { .. } if flags.has_ttl() => create.kind,
        _ if flags == CreateFlags::CONTAINER => CreateKind::Container,
        CreateKind::Ttl { .. } => CreateKind::Create,
        kind => kind,
    };
    if kind == create.kind {
        return Cow::Borrowed(op);
    }
    Cow::Owned(MultiOp::Create(Create { kind, ..create.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_is_formatted_as_in_java() {
        for length in [1, 100, 116, 117, 118, 119, 500] {
            let path = format!("/{}ä-", "a".repeat(length));
            for number in [0, 7, 1_234_567_890, i32::MAX, -1, -5, i32::MIN] {
                let numbered = parse_with_number(&path, number).unwrap();
                assert_eq!(numbered.as_str(), format!("{path}{number:010}"));
            }
        }
        assert!(parse_with_number("/a//b", 7).is_err());
    }
}
