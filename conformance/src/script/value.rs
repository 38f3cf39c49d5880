//! Parses the values in scripts: text with escapes, data, access control lists, bytes.

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use zoolet_protocol::{Acl, Encode, Id, Names, ParsePermissionsError, Permissions, RawPath};
use zoolet_testkit::script_words::{DATA_LENGTH, EMPTY_ACL, NULL, OPEN_ACL};

/// Why a value of a script cannot be parsed.
pub(super) type ValueError = String;

/// The bytes of a text with the escapes `\xNN`, `\0`, `\n`, `\t`, `\\` and `\u{N}`.
fn unescape(text: &str) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.next() {
            Some('0') => bytes.push(0),
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).map_err(|_| bad("escape", text))?);
            }
            Some('u') => {
                let digits: String = rest.by_ref().take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(digits.trim_start_matches('{'), 16);
                let character = code.ok().and_then(char::from_u32);
                let character = character.ok_or_else(|| bad("escape", text))?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return Err(bad("escape", text)),
        }
    }
    Ok(bytes)
}

fn bad(what: &str, text: &str) -> ValueError {
    format!("{text:?} is no valid {what}")
}

/// Parses a text, which must be UTF-8, or `null`.
pub(super) fn text(text: &str) -> Result<Option<ByteString>, ValueError> {
    if text == NULL {
        return Ok(None);
    }
    let text = String::from_utf8(unescape(text)?).map_err(|_| bad("UTF-8", text))?;
    Ok(Some(text.into()))
}

/// Parses a path, which need not be valid.
pub(super) fn path(argument: &str) -> Result<RawPath, ValueError> {
    text(argument).map(RawPath::from)
}

/// Parses data: `null`, a text with escapes, or `bytes:N` for N bytes.
pub(super) fn data(argument: &str) -> Result<Option<Bytes>, ValueError> {
    if argument == NULL {
        return Ok(None);
    }
    if let Some(length) = argument.strip_prefix(DATA_LENGTH) {
        let length: usize = length.parse().map_err(|_| bad("length", argument))?;
        return Ok(Some(vec![b'x'; length].into()));
    }
    Ok(Some(unescape(argument)?.into()))
}

/// Parses an access control list: entries `scheme:id:permissions` with commas between them, or
/// `open`, `empty` or `null`.
pub(super) fn acl(argument: &str) -> Result<Option<Vec<Acl>>, ValueError> {
    match argument {
        NULL => Ok(None),
        EMPTY_ACL => Ok(Some(Vec::new())),
        OPEN_ACL => Ok(Some(vec![Acl::open()])),
        entries => entries.split(',').map(acl_entry).collect::<Result<_, _>>().map(Some),
    }
}

fn acl_entry(entry: &str) -> Result<Acl, ValueError> {
    let (id, permissions) = entry.rsplit_once(':').ok_or_else(|| bad("entry", entry))?;
    let (scheme, id) = id.split_once(':').ok_or_else(|| bad("entry", entry))?;
    let id = Id { scheme: text(scheme)?, id: text(id)? };
    Ok(Acl { permissions: self::permissions(permissions)?, id })
}

/// Parses permissions: the letters of `zkCli`, or a number.
fn permissions(letters: &str) -> Result<Permissions, ValueError> {
    if let Ok(number) = letters.parse() {
        return Ok(Permissions(number));
    }
    letters.parse().map_err(|error: ParsePermissionsError| error.to_string())
}

/// Parses a list of names. A single `null` is the null list.
pub(super) fn names(arguments: &[String]) -> Result<Names, ValueError> {
    if let [only] = arguments
        && only == NULL
    {
        return Ok(Names::NULL);
    }
    let names = arguments
        .iter()
        .map(|name| text(name)?.ok_or_else(|| bad("name", name)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(names.iter().map(|name| &**name).collect())
}

/// Parses bytes in pieces: `int:5`, `long:5`, `bool:1`, `str:text`, `buf:data`, `acl:...`,
/// `hex:00ff`, each in its encoding.
pub(super) fn pieces(arguments: &[String]) -> Result<Bytes, ValueError> {
    let mut out = BytesMut::new();
    for piece in arguments {
        let (kind, value) = piece.split_once(':').ok_or_else(|| bad("piece", piece))?;
        let number = || value.parse::<i64>().map_err(|_| bad("number", piece));
        match kind {
            "int" => out.put_i32(i32::try_from(number()?).map_err(|_| bad("int", piece))?),
            "long" => out.put_i64(number()?),
            "bool" => out.put_u8(u8::try_from(number()?).map_err(|_| bad("bool", piece))?),
            "str" | "buf" => data(value)?.encode(&mut out),
            "acl" => acl(value)?.encode(&mut out),
            "hex" => {
                let digits = value.as_bytes().chunks(2).map(|pair| {
                    let pair = std::str::from_utf8(pair).unwrap_or_default();
                    u8::from_str_radix(pair, 16).map_err(|_| bad("hex", piece))
                });
                out.extend(digits.collect::<Result<Vec<_>, _>>()?);
            }
            _ => return Err(bad("piece", piece)),
        }
    }
    Ok(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_null_are_parsed() {
        assert_eq!(unescape(r"a\x00\u{e4}\\").unwrap(), "a\0ä\\".as_bytes());
        assert_eq!(data("null"), Ok(None));
        assert_eq!(data(""), Ok(Some(Bytes::new())));
        assert!(unescape(r"\q").is_err());
    }

    #[test]
    fn lists_and_pieces_are_parsed() {
        let list = acl("digest:ann:hash=:rw,world:anyone:31").unwrap().unwrap();
        assert_eq!(list[0].to_string(), "digest:ann:hash=:rw");
        assert_eq!(list[1].permissions, Permissions::ALL);
        let bytes = pieces(&["int:1".into(), "str:/a".into(), "hex:ff".into()]).unwrap();
        assert_eq!(&bytes[..], [0, 0, 0, 1, 0, 0, 0, 2, b'/', b'a', 0xff]);
    }
}
