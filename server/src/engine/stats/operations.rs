//! The operations, as counters and reports know them.

use zoolet_protocol::OpCode;

use crate::measure::Spread;

/// The operations that have counters of their own, under the names of ZooKeeper's metrics.
const COUNTED_OPERATIONS: [(&str, &[OpCode]); 23] = [
    ("add_watch", &[OpCode::ADD_WATCH]),
    ("check", &[OpCode::CHECK]),
    ("check_watches", &[OpCode::CHECK_WATCHES]),
    ("close_session", &[OpCode::CLOSE_SESSION]),
    ("create", &[OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::CREATE_TTL]),
    ("create_session", &[OpCode::CREATE_SESSION]),
    ("delete", &[OpCode::DELETE, OpCode::DELETE_CONTAINER]),
    ("exists", &[OpCode::EXISTS]),
    ("get_acl", &[OpCode::GET_ACL]),
    ("get_all_children_number", &[OpCode::GET_ALL_CHILDREN_NUMBER]),
    ("get_children", &[OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2]),
    ("get_data", &[OpCode::GET_DATA]),
    ("get_ephemerals", &[OpCode::GET_EPHEMERALS]),
    ("multi", &[OpCode::MULTI]),
    ("multi_read", &[OpCode::MULTI_READ]),
    ("ping", &[OpCode::PING]),
    ("reconfig", &[OpCode::RECONFIG]),
    ("remove_watches", &[OpCode::REMOVE_WATCHES]),
    ("set_acl", &[OpCode::SET_ACL]),
    ("set_data", &[OpCode::SET_DATA]),
    ("set_watches", &[OpCode::SET_WATCHES, OpCode::SET_WATCHES2]),
    ("sync", &[OpCode::SYNC]),
    ("who_am_i", &[OpCode::WHO_AM_I]),
];

/// The index of each operation's counter, by the operation's code.
const COUNTED_AT: [Option<u8>; 128] = {
    let mut counted_at = [None; 128];
    let mut index = 0;
    while index < COUNTED_OPERATIONS.len() {
        let ops = COUNTED_OPERATIONS[index].1;
        let mut of = 0;
        while of < ops.len() {
            if ops[of].0 >= 0 {
                counted_at[ops[of].0 as usize] = Some(index as u8);
            }
            of += 1;
        }
        index += 1;
    }
    counted_at
};

/// The index of an operation's counter. The operations that create and close a session have
/// negative codes.
fn counted_at(op: OpCode) -> Option<usize> {
    match usize::try_from(op.0) {
        Ok(code) => COUNTED_AT.get(code).copied().flatten().map(usize::from),
        Err(_) => COUNTED_OPERATIONS.iter().position(|(_, ops)| ops.contains(&op)),
    }
}

/// A counter for each operation.
#[derive(Debug, Default)]
pub(crate) struct Operations([Spread; COUNTED_OPERATIONS.len()]);

impl Operations {
    /// Counts so many requests.
    pub(crate) fn count(&self, op: OpCode, requests: u64) {
        if let Some(index) = counted_at(op) {
            self.0[index].add(requests);
        }
    }

    /// The number of requests for each operation, under its metric's name.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = COUNTED_OPERATIONS.iter().map(|(name, _)| *name);
        names.zip(self.0.iter().map(Spread::value))
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(Spread::reset);
    }
}

/// Whether a request changes the tree or the sessions.
pub(super) fn is_update(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
            | OpCode::MULTI
            | OpCode::RECONFIG
            | OpCode::CREATE_SESSION
            | OpCode::CLOSE_SESSION
    )
}

/// The four letters by which the word `cons` shows an operation (`FinalRequestProcessor.lastOp`).
pub(crate) fn four_letters(op: OpCode) -> &'static str {
    match op {
        OpCode::CREATE_SESSION => "SESS",
        OpCode::PING => "PING",
        OpCode::MULTI => "MULT",
        OpCode::MULTI_READ => "MLTR",
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => "CREA",
        OpCode::DELETE | OpCode::DELETE_CONTAINER => "DELE",
        OpCode::SET_DATA => "SETD",
        OpCode::RECONFIG => "RECO",
        OpCode::SET_ACL => "SETA",
        OpCode::CLOSE_SESSION => "CLOS",
        OpCode::SYNC => "SYNC",
        OpCode::CHECK => "CHEC",
        OpCode::EXISTS => "EXIS",
        OpCode::GET_DATA => "GETD",
        OpCode::SET_WATCHES => "SETW",
        OpCode::SET_WATCHES2 => "STW2",
        OpCode::ADD_WATCH => "ADDW",
        OpCode::GET_ACL => "GETA",
        OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => "GETC",
        OpCode::GET_ALL_CHILDREN_NUMBER => "GETACN",
        OpCode::CHECK_WATCHES => "CHKW",
        OpCode::REMOVE_WATCHES => "REMW",
        OpCode::WHO_AM_I => "HOMI",
        OpCode::GET_EPHEMERALS => "GETE",
        _ => "NA",
    }
}
