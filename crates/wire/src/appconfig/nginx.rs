//! nginx's configuration: directives in blocks (`ngx_conf_read_token` in `ngx_conf_file.c`).
//!
//! Words, words in quotes, `;`, `{`, `}`, comments after `#`; the code of `…_by_lua_block` is skipped. A
//! directive has the blocks around it; an included file continues in the blocks of its `include`.

use std::rc::Rc;

/// One directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Name: `listen`.
    pub name: String,
    /// Arguments without their quotes.
    pub arguments: Vec<String>,
    /// Line of its name, from 1.
    pub line: u32,
    /// Blocks around it, outermost first: `http`, `server`. With their arguments: `upstream backend`,
    /// `location /api`; long ones are cut.
    pub blocks: Rc<[Rc<str>]>,
}

impl Directive {
    /// The blocks around it as one path: `http/server`.
    pub fn section(&self) -> String {
        self.blocks.join("/")
    }

    /// The arguments as written, divided by single spaces.
    pub fn value(&self) -> String {
        self.arguments.join(" ")
    }
}

/// Most directives of one file.
const MAX_DIRECTIVES: usize = 50_000;
/// Deepest nesting that is followed.
const MAX_BLOCK_DEPTH: usize = 32;
/// Longest name of a block that is kept, bytes.
const MAX_BLOCK_NAME_BYTES: usize = 256;

/// The directives of a file in their order; a directive that opens a block comes before those in it.
/// `outside` are the blocks around the `include` of an included file.
pub fn directives(text: &[u8], outside: &Rc<[Rc<str>]>) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut blocks = Rc::clone(outside);
    let mut reader = Reader { rest: text, line: 1 };
    let mut words: Vec<String> = Vec::new();
    let mut line = 1;
    let mut too_deep = 0usize;
    loop {
        match reader.next() {
            Token::Word(word) => {
                if words.is_empty() {
                    line = word.line;
                }
                words.push(word.text);
            }
            Token::Semicolon | Token::Open if words.is_empty() => {}
            token @ (Token::Semicolon | Token::Open) => {
                let opens = matches!(token, Token::Open);
                let name = words.remove(0);
                let arguments = std::mem::take(&mut words);
                let lua = opens && name.ends_with("_by_lua_block");
                let block = opens.then(|| block(&name, &arguments));
                if found.len() >= MAX_DIRECTIVES {
                    break;
                }
                found.push(Directive { name, arguments, line, blocks: Rc::clone(&blocks) });
                if lua {
                    reader.skip_lua();
                } else if opens && blocks.len() >= MAX_BLOCK_DEPTH {
                    too_deep += 1;
                } else if let Some(block) = block {
                    blocks = blocks.iter().cloned().chain([block]).collect();
                }
            }
            Token::Close => {
                words.clear();
                if too_deep > 0 {
                    too_deep -= 1;
                } else if blocks.len() > outside.len()
                    && let Some((_, around)) = blocks.split_last()
                {
                    blocks = around.into();
                }
            }
            Token::End => break,
        }
    }
    found
}

/// The name of a block with its arguments.
fn block(name: &str, arguments: &[String]) -> Rc<str> {
    let mut block = String::new();
    for word in std::iter::once(name).chain(arguments.iter().map(String::as_str)) {
        if !block.is_empty() {
            block.push(' ');
        }
        let cut = word.floor_char_boundary(MAX_BLOCK_NAME_BYTES);
        block.push_str(word.get(..cut).unwrap_or_default());
        if block.len() >= MAX_BLOCK_NAME_BYTES {
            break;
        }
    }
    block.truncate(block.floor_char_boundary(MAX_BLOCK_NAME_BYTES));
    block.into()
}

struct Word {
    text: String,
    line: u32,
}

enum Token {
    Word(Word),
    Semicolon,
    Open,
    Close,
    End,
}

struct Reader<'a> {
    rest: &'a [u8],
    line: u32,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn step(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        if *byte == b'\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(*byte)
    }

    fn next(&mut self) -> Token {
        loop {
            match self.peek() {
                None => return Token::End,
                Some(b' ' | b'\t' | b'\r' | b'\n') => {
                    self.step();
                }
                Some(b'#') => {
                    while self.peek().is_some_and(|b| b != b'\n') {
                        self.step();
                    }
                }
                Some(b';') => {
                    self.step();
                    return Token::Semicolon;
                }
                Some(b'{') => {
                    self.step();
                    return Token::Open;
                }
                Some(b'}') => {
                    self.step();
                    return Token::Close;
                }
                Some(quote @ (b'"' | b'\'')) => {
                    let line = self.line;
                    self.step();
                    return Token::Word(Word { text: self.word(Some(quote)), line });
                }
                Some(_) => {
                    let line = self.line;
                    return Token::Word(Word { text: self.word(None), line });
                }
            }
        }
    }

    /// A word up to its quote, or up to a space, `;` or `{`; `${` is part of a word.
    fn word(&mut self, quote: Option<u8>) -> String {
        let mut bytes = Vec::new();
        let mut before = 0;
        while let Some(byte) = self.peek() {
            match quote {
                Some(quote) if byte == quote => {
                    self.step();
                    break;
                }
                None if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';') => break,
                None if byte == b'{' && before != b'$' => break,
                _ => {}
            }
            self.step();
            if byte == b'\\' {
                // As in ngx_conf_read_token: these lose their backslash, others keep it.
                let Some(next) = self.step() else {
                    bytes.push(byte);
                    break;
                };
                match next {
                    b'"' | b'\'' | b'\\' => bytes.push(next),
                    b't' => bytes.push(b'\t'),
                    b'r' => bytes.push(b'\r'),
                    b'n' => bytes.push(b'\n'),
                    other => bytes.extend([b'\\', other]),
                }
                before = next;
                continue;
            }
            bytes.push(byte);
            before = byte;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Skips Lua code up to the brace that closes its block. Strings and comments of Lua may contain
    /// braces.
    fn skip_lua(&mut self) {
        let mut depth = 1u32;
        while let Some(byte) = self.step() {
            match byte {
                b'{' => depth = depth.saturating_add(1),
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                quote @ (b'"' | b'\'') => {
                    while let Some(inner) = self.step() {
                        match inner {
                            b'\\' => {
                                self.step();
                            }
                            b'\n' => break,
                            inner if inner == quote => break,
                            _ => {}
                        }
                    }
                }
                b'-' if self.peek() == Some(b'-') => {
                    while self.peek().is_some_and(|b| b != b'\n') {
                        self.step();
                    }
                }
                _ => {}
            }
        }
    }
}
