//! The hash of a migration, which is that of Curator: SHA-256 over the text of its operations.
//!
//! For each operation this is the path, the number of its type, and the text that Java makes of its
//! record: fields with commas between them, strings after an apostrophe, data in hexadecimal after a
//! hash sign, `v{}` around lists and `s{}` around records in lists, and a line end.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use zoolet_protocol::{Acl, Create, CreateKind, Expect, MultiOp, OpCode};

use crate::client::Client;

/// The hash of these operations, with their paths as the namespace of the client has them. As in Java
/// the chroot of the connection string is no part of it.
pub(super) fn hash(client: &Client, ops: &[MultiOp]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for op in ops {
        let path = client.namespaced_path(op.path().text().unwrap_or_default());
        hash.update(&path);
        hash.update(type_of(op).to_string());
        hash.update(record(op, &path));
    }
    hash.finalize().into()
}

/// The type of an operation. Java has no `create2` in a multi.
fn type_of(op: &MultiOp) -> i32 {
    match op.op_code() {
        OpCode::CREATE2 => OpCode::CREATE.0,
        code => code.0,
    }
}

/// The text of the record of an operation.
fn record(op: &MultiOp, path: &str) -> String {
    let mut text = RecordText::default();
    text.string(Some(path));
    match op {
        MultiOp::Create(create) => text.create(create),
        MultiOp::Delete(delete) => text.version(delete.version),
        MultiOp::SetData(set_data) => {
            text.buffer(set_data.data.as_deref());
            text.version(set_data.version);
        }
        MultiOp::Check(check) => text.version(check.version),
    }
    text.written.push('\n');
    text.written
}

/// The text of a record of jute, as its class `ToStringOutputArchive` writes it.
#[derive(Default)]
struct RecordText {
    written: String,
    /// Whether a field was written before, in the same brackets.
    has_field: bool,
}

impl RecordText {
    /// The fields of a create after the path.
    fn create(&mut self, create: &Create) {
        self.buffer(create.data.as_deref());
        self.open("v{");
        create.acl.iter().flatten().for_each(|entry| self.acl(entry));
        self.close();
        self.number(create.flags.0.into());
        if let CreateKind::Ttl { ttl_ms } = create.kind {
            self.number(ttl_ms);
        }
    }

    fn acl(&mut self, entry: &Acl) {
        self.open("s{");
        self.number(entry.permissions.0.into());
        self.open("s{");
        self.string(entry.id.scheme.as_deref());
        self.string(entry.id.id.as_deref());
        self.close();
        self.close();
    }

    fn version(&mut self, version: Expect) {
        self.number(i32::from(version).into());
    }

    fn number(&mut self, number: i64) {
        self.separate();
        self.write(format_args!("{number}"));
    }

    /// A string; nothing for null.
    fn string(&mut self, text: Option<&str>) {
        self.separate();
        let Some(text) = text else { return };
        self.written.push('\'');
        for character in text.chars() {
            match character {
                '\0' | '\n' | '\r' | ',' | '}' | '%' => {
                    self.write(format_args!("%{:02X}", u32::from(character)));
                }
                _ => self.written.push(character),
            }
        }
    }

    /// Bytes; nothing for none. Java writes each as a signed number: one digit for those below 16, and
    /// eight for those above 127.
    fn buffer(&mut self, bytes: Option<&[u8]>) {
        self.separate();
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { return };
        self.written.push('#');
        for byte in bytes {
            self.write(format_args!("{:x}", i32::from(byte.cast_signed())));
        }
    }

    fn open(&mut self, bracket: &str) {
        self.separate();
        self.written.push_str(bracket);
        self.has_field = false;
    }

    fn close(&mut self) {
        self.written.push('}');
        self.has_field = true;
    }

    fn separate(&mut self) {
        if std::mem::replace(&mut self.has_field, true) {
            self.written.push(',');
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A string takes any text.
        let _ = self.written.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolet_protocol::{CreateMode, Permissions};

    use super::*;

    #[test]
    fn records_have_the_text_that_java_makes() {
        let ttl = CreateMode::PersistentWithTtl(Duration::from_millis(60_000));
        let acl = vec![Acl::creator_all(), Acl::open().with_permissions(Permissions::READ)];
        let cases: [(MultiOp, i32, &str); 7] = [
            (
                MultiOp::create("/a", "hey", CreateMode::Persistent),
                1,
                "'/a,#686579,v{s{31,s{'world,'anyone}}},0\n",
            ),
            (
                MultiOp::create("/a-", "", CreateMode::PersistentSequential),
                1,
                "'/a-,,v{s{31,s{'world,'anyone}}},2\n",
            ),
            (
                Create::new("/a,b}c%d", CreateMode::Container).acl(acl).into(),
                19,
                "'/a%2Cb%7Dc%25d,,v{s{31,s{'auth,'}},s{1,s{'world,'anyone}}},4\n",
            ),
            (
                MultiOp::create("/ttl", vec![0_u8, 5, 16, 127, 128, 255], ttl),
                21,
                "'/ttl,#05107fffffff80ffffffff,v{s{31,s{'world,'anyone}}},5,60000\n",
            ),
            (MultiOp::delete("/a", Expect::Any), 2, "'/a,-1\n"),
            (MultiOp::set_data("/ü", "x", 3), 5, "'/ü,#78,3\n"),
            (MultiOp::check("/a", 7), 13, "'/a,7\n"),
        ];
        for (op, op_type, text) in cases {
            let path = op.path().text().unwrap_or_default();
            assert_eq!((type_of(&op), record(&op, path).as_str()), (op_type, text));
        }
    }
}
