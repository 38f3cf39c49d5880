//! Writes JSON as ZooKeeper's admin server does: indented by two spaces, in the order in which the
//! fields come (Jackson's `DefaultPrettyPrinter`).
//!
//! It writes to a stream, so that a report of a million watches is never in memory as a whole.

use std::fmt::{self, Write};

/// A value that has no parts.
pub(super) trait Scalar {
    fn write(&self, out: &mut dyn Write) -> fmt::Result;
}

/// An object whose fields are being written.
pub(super) struct Object<'a> {
    out: &'a mut dyn Write,
    /// How many objects are around its fields.
    depth: usize,
    is_empty: bool,
}

/// An array whose elements are being written.
pub(super) struct Array<'a> {
    out: &'a mut dyn Write,
    depth: usize,
    is_empty: bool,
}

/// Writes an object that stands by itself.
pub(super) fn write_object(
    out: &mut dyn Write,
    fields: impl FnOnce(&mut Object<'_>) -> fmt::Result,
) -> fmt::Result {
    object(out, 0, fields)
}

fn object(
    out: &mut dyn Write,
    depth: usize,
    fields: impl FnOnce(&mut Object<'_>) -> fmt::Result,
) -> fmt::Result {
    out.write_char('{')?;
    let mut object = Object { out, depth: depth + 1, is_empty: true };
    fields(&mut object)?;
    let Object { out, is_empty, .. } = object;
    if is_empty {
        out.write_char(' ')?
    } else {
        new_line(out, depth)?
    }
    out.write_char('}')
}

fn array(
    out: &mut dyn Write,
    depth: usize,
    elements: impl FnOnce(&mut Array<'_>) -> fmt::Result,
) -> fmt::Result {
    out.write_char('[')?;
    let mut array = Array { out, depth, is_empty: true };
    elements(&mut array)?;
    array.out.write_str(" ]")
}

fn new_line(out: &mut dyn Write, depth: usize) -> fmt::Result {
    write!(out, "\n{:1$}", "", 2 * depth)
}

impl Object<'_> {
    /// Writes a field.
    pub(super) fn field(&mut self, name: &str, value: impl Scalar) -> fmt::Result {
        self.name(name)?;
        value.write(self.out)
    }

    /// Writes a field that is an object.
    pub(super) fn object(
        &mut self,
        name: &str,
        fields: impl FnOnce(&mut Object<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.name(name)?;
        object(self.out, self.depth, fields)
    }

    /// Writes a field that is an array.
    pub(super) fn array(
        &mut self,
        name: &str,
        elements: impl FnOnce(&mut Array<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.name(name)?;
        array(self.out, self.depth, elements)
    }

    fn name(&mut self, name: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.out.write_char(',')?;
        }
        new_line(self.out, self.depth)?;
        name.write(self.out)?;
        self.out.write_str(" : ")
    }
}

impl Array<'_> {
    /// Writes an element.
    pub(super) fn element(&mut self, value: impl Scalar) -> fmt::Result {
        self.separate()?;
        value.write(self.out)
    }

    /// Writes an element that is an object.
    pub(super) fn object(
        &mut self,
        fields: impl FnOnce(&mut Object<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.separate()?;
        object(self.out, self.depth, fields)
    }

    fn separate(&mut self) -> fmt::Result {
        let is_first = std::mem::take(&mut self.is_empty);
        self.out.write_str(if is_first { " " } else { ", " })
    }
}

impl Scalar for str {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_char('"')?;
        let mut rest = self;
        while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
            let (plain, special) = rest.split_at(at);
            out.write_str(plain)?;
            let mut chars = special.chars();
            match chars.next() {
                Some('"') => out.write_str("\\\"")?,
                Some('\\') => out.write_str("\\\\")?,
                Some('\n') => out.write_str("\\n")?,
                Some('\r') => out.write_str("\\r")?,
                Some('\t') => out.write_str("\\t")?,
                Some('\u{8}') => out.write_str("\\b")?,
                Some('\u{c}') => out.write_str("\\f")?,
                Some(other) => write!(out, "\\u{:04X}", u32::from(other))?,
                None => {}
            }
            rest = chars.as_str();
        }
        out.write_str(rest)?;
        out.write_char('"')
    }
}

impl Scalar for String {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        self.as_str().write(out)
    }
}

impl<T: Scalar + ?Sized> Scalar for &T {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        T::write(self, out)
    }
}

impl<T: Scalar> Scalar for Option<T> {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        match self {
            Some(value) => value.write(out),
            None => out.write_str("null"),
        }
    }
}

impl Scalar for bool {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{self}")
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Scalar for $integer {
            fn write(&self, out: &mut dyn Write) -> fmt::Result {
                write!(out, "{self}")
            }
        }
    )*};
}

integers!(i32, i64, u8, u16, u32, u64, usize);

/// A number that ZooKeeper has as a double: rounded to four places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Average(pub(super) f64);

impl Scalar for Average {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(&crate::reports::average_text(self.0))
    }
}

/// A metric, which is a number, or a text such as `NaN` or `standalone`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metric<'a>(pub(super) &'a str);

impl Scalar for Metric<'_> {
    fn write(&self, out: &mut dyn Write) -> fmt::Result {
        let is_number = self.0.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && self.0.parse().is_ok_and(f64::is_finite);
        if is_number { out.write_str(self.0) } else { self.0.write(out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fields: impl FnOnce(&mut Object<'_>) -> fmt::Result) -> String {
        let mut text = String::new();
        write_object(&mut text, fields).unwrap();
        text
    }

    #[test]
    fn the_layout_is_that_of_jackson() {
        let text = written(|top| {
            top.field("a", 1)?;
            top.object("empty", |_| Ok(()))?;
            top.array("none", |_| Ok(()))?;
            top.array("paths", |paths| paths.element("/x").and_then(|()| paths.element("/y")))?;
            top.array("connections", |connections| {
                for id in [1, 2] {
                    connections.object(|connection| {
                        connection.field("id", id)?;
                        connection.object("in", |inner| inner.field("b", true))
                    })?;
                }
                Ok(())
            })?;
            top.field("average", Average(0.0))?;
            top.field("error", None::<&str>)
        });
        let expected = r#"{
  "a" : 1,
  "empty" : { },
  "none" : [ ],
  "paths" : [ "/x", "/y" ],
  "connections" : [ {
    "id" : 1,
    "in" : {
      "b" : true
    }
  }, {
    "id" : 2,
    "in" : {
      "b" : true
    }
  } ],
  "average" : 0.0,
  "error" : null
}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn any_text_can_be_read_back() {
        let all: String =
            (0..0x300).filter_map(char::from_u32).chain(['€', '😀', '\u{2028}']).collect();
        for text in ["", "/a", "\"\\\n\r\t\u{8}\u{c}\u{1f}\u{0}", &all] {
            let json = written(|object| object.field(text, text));
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(read, serde_json::json!({ text: text }));
        }
        assert!(written(|object| object.field("", "\u{1f}")).contains("\\u001F"), "as Jackson");
    }
}
