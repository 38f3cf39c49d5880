//! The tokens of a JAAS file, as Java's `StreamTokenizer` cuts them for `ConfigFile`.

use std::iter::Peekable;
use std::str::Chars;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, or a text in quotes.
    Text(String),
    /// A number without quotes, which Java takes for no text.
    Number,
    /// Any other character.
    Symbol(char),
}

/// The tokens of a text, each with its line.
pub(super) struct Tokens<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), line: 1 }
    }

    /// The line that has been reached.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    fn read(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        // The end of a line is "\n", "\r" or "\r\n".
        if c == '\n' || (c == '\r' && self.rest.peek() != Some(&'\n')) {
            self.line += 1;
        }
        Some(c)
    }

    fn read_while(&mut self, mut is_part: impl FnMut(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(&c) = self.rest.peek()
            && is_part(c)
        {
            text.push(c);
            self.read();
        }
        text
    }

    /// A comment, of which `/` has been read. As in Java, `/` before anything but `/` and `*` begins
    /// one as well, which then includes the next character even if that ends the line.
    fn skip_comment(&mut self) {
        match self.read() {
            Some('*') => {
                let mut previous = ' ';
                while let Some(c) = self.read() {
                    if (previous, c) == ('*', '/') {
                        return;
                    }
                    previous = c;
                }
            }
            _ => {
                self.read_while(|c| c != '\n' && c != '\r');
            }
        }
    }

    /// A quoted text, whose first quote has been read. As in Java, the end of the line ends it too.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(&c) = self.rest.peek() {
            match c {
                '"' => {
                    self.read();
                    break;
                }
                '\n' | '\r' => break,
                '\\' => {
                    self.read();
                    text.extend(self.escaped());
                }
                _ => text.extend(self.read()),
            }
        }
        text
    }

    /// The character that an escape stands for: up to three octal digits, or one character.
    fn escaped(&mut self) -> Option<char> {
        let c = self.read()?;
        Some(match c {
            '0'..='7' => {
                let digits_max = if c <= '3' { 2 } else { 1 };
                let mut digits = 0;
                let more = self.read_while(|c| {
                    digits += 1;
                    digits <= digits_max && c.is_digit(8)
                });
                let value = format!("{c}{more}");
                u8::from_str_radix(&value, 8).map_or(c, char::from)
            }
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            _ => c,
        })
    }

    /// A number, of which `first` has been read: digits, and a dot among them. A minus without one is
    /// no number.
    fn number(&mut self, first: char) -> Token {
        let is_number = |c: &char| c.is_ascii_digit() || *c == '.';
        if first == '-' && !self.rest.peek().is_some_and(is_number) {
            return Token::Symbol('-');
        }
        let mut has_dot = first == '.';
        self.read_while(|c| {
            c.is_ascii_digit() || (c == '.' && !std::mem::replace(&mut has_dot, true))
        });
        Token::Number
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let c = self.read()?;
            return Some(match c {
                '\0'..=' ' => continue,
                '/' => {
                    self.skip_comment();
                    continue;
                }
                '"' => Token::Text(self.quoted()),
                '0'..='9' | '.' | '-' => self.number(c),
                _ if is_word(c) => {
                    let more = self.read_while(|c| is_word(c) || c.is_ascii_digit() || c == '.');
                    Token::Text(format!("{c}{more}"))
                }
                _ => Token::Symbol(c),
            });
        }
    }
}

/// Whether a word can begin with it. It can go on with a digit or a dot as well.
fn is_word(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '$' | '_' | '-' | '*') || c >= '\u{a0}'
}
