//! Statements and conditions in the way of Python: `assert`, assignments, numbers, names, arithmetic,
//! comparisons, `and`, `or`, `not`, `abs`, `min`, `max`, `int`.
//!
//! ```text
//!   or      := and ("or" and)*
//!   and     := not ("and" not)*
//!   not     := "not" not | bits (("==" | "!=" | "<=" | ">=" | "<" | ">") bits)*
//!   bits    := shift (("&" | "|") shift)*
//!   shift   := sum (("<<" | ">>") sum)*
//!   sum     := product (("+" | "-") product)*
//!   product := unary (("*" | "//" | "/" | "%") unary)*
//!   unary   := "-" unary | number | name | name "(" or ("," or)* ")" | "(" or ")"
//! ```

/// Why a condition has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is not in the language; where it is no longer.
    Syntax(String),
    /// Nobody knows this name.
    UnknownName(String),
}

/// A statement of a block, with the lines of the block before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub lines_before: u32,
    pub text: String,
}

/// The statements of a block: lines, and what semicolons part; neither in brackets or quotes. A
/// backslash continues a line, `#` begins a comment.
pub(super) fn statements(block: &str) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    let mut current = Statement { lines_before: 0, text: String::new() };
    let (mut line, mut depth, mut quote) = (0, 0_i32, None);
    let mut characters = block.chars().peekable();
    let mut finish = |current: &mut Statement| {
        let text = std::mem::take(&mut current.text).trim().to_owned();
        if !text.is_empty() {
            all.push(Statement { lines_before: current.lines_before, text });
        }
    };
    while let Some(character) = characters.next() {
        line += u32::from(character == '\n');
        match (quote, character) {
            (Some(open), _) => {
                if character == open {
                    quote = None;
                }
                current.text.push(character);
            }
            (None, '\\') if characters.peek() == Some(&'\n') => {
                characters.next();
                line += 1;
            }
            (None, '#') => while characters.next_if(|&next| next != '\n').is_some() {},
            (None, '\n' | ';') if depth <= 0 => finish(&mut current),
            (None, _) => {
                depth += i32::from("([{".contains(character));
                depth -= i32::from(")]}".contains(character));
                quote = "'\"".contains(character).then_some(character);
                if current.text.trim().is_empty() {
                    current.lines_before = line;
                }
                current.text.push(character);
            }
        }
    }
    finish(&mut current);
    all
}

/// The value of an expression, with 0 for false and 1 for true; `look_up` knows the names.
pub(super) fn evaluate(text: &str, look_up: &dyn Fn(&str) -> Option<f64>) -> Result<f64, Trouble> {
    let (value, rest) = evaluate_first(text, look_up)?;
    if rest.is_empty() { Ok(value) } else { Err(Trouble::Syntax(rest.to_owned())) }
}

/// The same of what stands before a comma, with what stands behind.
pub(super) fn evaluate_first<'a>(
    text: &'a str,
    look_up: &'a dyn Fn(&str) -> Option<f64>,
) -> Result<(f64, &'a str), Trouble> {
    let mut parser = Parser { rest: text.trim(), look_up };
    let value = parser.choice()?;
    if parser.rest.is_empty() || parser.rest.starts_with(',') {
        Ok((value, parser.rest))
    } else {
        Err(parser.trouble())
    }
}

struct Parser<'a> {
    rest: &'a str,
    look_up: &'a dyn Fn(&str) -> Option<f64>,
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

impl Parser<'_> {
    fn trouble(&self) -> Trouble {
        Trouble::Syntax(self.rest.to_owned())
    }

    fn is_word(byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
    }

    /// Length of the word or number that comes next.
    fn word(&self) -> usize {
        self.rest.bytes().take_while(|&byte| Self::is_word(byte)).count()
    }

    fn advance(&mut self, length: usize) {
        self.rest = self.rest[length..].trim_start();
    }

    /// Takes a keyword or an operator.
    fn takes(&mut self, token: &str) -> bool {
        let is_keyword = Self::is_word(token.as_bytes()[0]);
        let is_next = self.rest.starts_with(token) && (!is_keyword || self.word() == token.len());
        if is_next {
            self.advance(token.len());
        }
        is_next
    }

    /// `A if B else C`.
    fn choice(&mut self) -> Result<f64, Trouble> {
        let value = self.or()?;
        if !self.takes("if") {
            return Ok(value);
        }
        let holds = self.or()? != 0.0;
        if !self.takes("else") {
            return Err(self.trouble());
        }
        let other = self.choice()?;
        Ok(if holds { value } else { other })
    }

    fn or(&mut self) -> Result<f64, Trouble> {
        let mut value = self.and()?;
        while self.takes("or") {
            let right = self.and()?;
            value = truth(value != 0.0 || right != 0.0);
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<f64, Trouble> {
        let mut value = self.not()?;
        while self.takes("and") {
            let right = self.not()?;
            value = truth(value != 0.0 && right != 0.0);
        }
        Ok(value)
    }

    fn not(&mut self) -> Result<f64, Trouble> {
        if self.takes("not") {
            return Ok(truth(self.not()? == 0.0));
        }
        let mut left = self.bits()?;
        let mut holds = None;
        // Chains such as 1 <= x <= 3 hold if each link does.
        loop {
            let is_not = self.rest.starts_with("not ");
            if is_not || self.rest.starts_with("in ") || self.rest.starts_with("in(") {
                self.advance(if is_not { "not".len() } else { 0 });
                if !self.takes("in") {
                    return Err(self.trouble());
                }
                let is_member = self.members()?.contains(&left);
                return Ok(truth(holds.unwrap_or(true) && is_member != is_not));
            }
            let compare: fn(&f64, &f64) -> bool = match () {
                _ if self.takes("==") => f64::eq,
                _ if self.takes("!=") => f64::ne,
                _ if self.takes("<=") => f64::le,
                _ if self.takes(">=") => f64::ge,
                _ if !self.rest.starts_with("<<") && self.takes("<") => f64::lt,
                _ if !self.rest.starts_with(">>") && self.takes(">") => f64::gt,
                _ => return Ok(holds.map_or(left, truth)),
            };
            let right = self.bits()?;
            holds = Some(holds.unwrap_or(true) && compare(&left, &right));
            left = right;
        }
    }

    /// What stands in `(1, 2)` or `[1, 2]`.
    fn members(&mut self) -> Result<Vec<f64>, Trouble> {
        let close = match () {
            () if self.takes("(") => ")",
            () if self.takes("[") => "]",
            () => return Err(self.trouble()),
        };
        let mut members = Vec::new();
        while !self.takes(close) {
            members.push(self.choice()?);
            if !self.takes(",") && !self.rest.starts_with(close) {
                return Err(self.trouble());
            }
        }
        Ok(members)
    }

    fn bits(&mut self) -> Result<f64, Trouble> {
        let mut value = self.shift()?;
        loop {
            let combine: fn(i64, i64) -> i64 = match () {
                () if self.takes("&") => |left, right| left & right,
                () if self.takes("|") => |left, right| left | right,
                () => return Ok(value),
            };
            value = combine(value as i64, self.shift()? as i64) as f64;
        }
    }

    fn shift(&mut self) -> Result<f64, Trouble> {
        let mut value = self.sum()?;
        loop {
            let combine: fn(i64, u32) -> Option<i64> = match () {
                () if self.takes("<<") => i64::checked_shl,
                () if self.takes(">>") => i64::checked_shr,
                () => return Ok(value),
            };
            let by = self.sum()?;
            let shifted = combine(value as i64, by as u32).filter(|_| by >= 0.0);
            value = shifted.ok_or_else(|| self.trouble())? as f64;
        }
    }

    fn sum(&mut self) -> Result<f64, Trouble> {
        let mut value = self.product()?;
        loop {
            if self.takes("+") {
                value += self.product()?;
            } else if self.takes("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, Trouble> {
        let mut value = self.unary()?;
        loop {
            if self.takes("*") {
                value *= self.unary()?;
            } else if self.takes("//") {
                value = (value / self.unary()?).floor();
            } else if self.takes("/") {
                value /= self.unary()?;
            } else if self.takes("%") {
                value = value.rem_euclid(self.unary()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn unary(&mut self) -> Result<f64, Trouble> {
        if self.takes("-") {
            return Ok(-self.unary()?);
        }
        let value = self.primary()?;
        if self.takes("**") { Ok(value.powf(self.unary()?)) } else { Ok(value) }
    }

    fn primary(&mut self) -> Result<f64, Trouble> {
        if self.takes("(") {
            let value = self.choice()?;
            return if self.takes(")") { Ok(value) } else { Err(self.trouble()) };
        }
        let word = &self.rest[..self.word()];
        let Some(first) = word.bytes().next() else { return Err(self.trouble()) };
        let after = self.rest[word.len()..].trim_start();
        if !first.is_ascii_digit() && after.starts_with('(') {
            return self.function(word);
        }
        let value = if let Some(digits) = word.strip_prefix("0x") {
            u64::from_str_radix(digits, 16).map_err(|_| self.trouble())? as f64
        } else if first.is_ascii_digit() || first == b'.' {
            word.parse().map_err(|_| self.trouble())?
        } else {
            match word {
                "True" => 1.0,
                "False" => 0.0,
                _ => (self.look_up)(word).ok_or_else(|| Trouble::UnknownName(word.to_owned()))?,
            }
        };
        self.advance(word.len());
        Ok(value)
    }

    fn function(&mut self, name: &str) -> Result<f64, Trouble> {
        self.advance(name.len());
        self.advance(1);
        let mut arguments = vec![self.choice()?];
        while self.takes(",") {
            arguments.push(self.choice()?);
        }
        if !self.takes(")") {
            return Err(self.trouble());
        }
        let first = arguments[0];
        Ok(match name {
            "abs" => first.abs(),
            "int" => first.trunc(),
            "float" => first,
            "round" => first.round(),
            "min" => arguments.into_iter().fold(first, f64::min),
            "max" => arguments.into_iter().fold(first, f64::max),
            _ => return Err(Trouble::UnknownName(format!("{name}()"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let names = |name: &str| (name == "cwnd").then_some(10.0);
        for (text, value) in [
            ("cwnd == 10", 1.0),
            ("cwnd <= 9", 0.0),
            ("9 < cwnd <= 10", 1.0),
            ("9 < cwnd < 10", 0.0),
            ("not cwnd == 10 or 2 + 3 * 4 == 14", 1.0),
            ("(2 + 3) * 4 == 20 and cwnd % 3 == 1", 1.0),
            ("-7 // 2", -4.0),
            ("1e3", 1000.0),
            ("7 / 2 - 1", 2.5),
            ("0x10 + 1", 17.0),
            ("6 & 3 | 8 == 10", 1.0),
            ("1 << 4 > 15", 1.0),
            ("abs(3 - cwnd) == max(7, 2, 1) and min(4, 5) == int(4.9)", 1.0),
            ("True and not False", 1.0),
            ("cwnd in (9, 10) and cwnd not in [3] and not cwnd in ()", 1.0),
            ("-2 ** 2 + 2 * 3 ** 2", 14.0),
            ("(1 if cwnd > 10 else 2 if cwnd == 10 else 3) == 2", 1.0),
        ] {
            assert_eq!(evaluate(text, &names), Ok(value), "{text}");
        }
        assert_eq!(evaluate("ssthresh", &names), Err(Trouble::UnknownName("ssthresh".to_owned())));
        assert_eq!(evaluate("len(3)", &names), Err(Trouble::UnknownName("len()".to_owned())));
        assert_eq!(evaluate_first("1 == 1, 'a, b' % (c)", &names), Ok((1.0, ", 'a, b' % (c)")));
        for text in ["", "1 +", "(1", "1 2", "1 === 2", "cwnd = 3", "!"] {
            assert!(matches!(evaluate(text, &names), Err(Trouble::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn blocks_are_cut_into_statements() {
        let block =
            " a = 1; assert a == 1, 'x; y'\nassert (a ==\n 1) # why; not\n\nb = 2; \\\nc = 3";
        let found: Vec<_> =
            statements(block).into_iter().map(|one| (one.lines_before, one.text)).collect();
        let expected = [
            (0, "a = 1"),
            (0, "assert a == 1, 'x; y'"),
            (1, "assert (a ==\n 1)"),
            (4, "b = 2"),
            (5, "c = 3"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
