//! The conditions of `assert`: integers, names, arithmetic, comparisons, `and`, `or`, `not`.
//!
//! ```text
//!   or      := and ("or" and)*
//!   and     := not ("and" not)*
//!   not     := "not" not | sum (("==" | "!=" | "<=" | ">=" | "<" | ">") sum)*
//!   sum     := product (("+" | "-") product)*
//!   product := unary (("*" | "//" | "/" | "%") unary)*
//!   unary   := "-" unary | number | name | "(" or ")"
//! ```

/// Why a condition has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is not in the language; where it is no longer.
    Syntax(String),
    /// Nobody knows this name.
    UnknownName(String),
}

/// The value of an expression, with 0 for false and 1 for true; `look_up` knows the names.
pub(super) fn evaluate(text: &str, look_up: &dyn Fn(&str) -> Option<f64>) -> Result<f64, Trouble> {
    let mut parser = Parser { rest: text.trim(), look_up };
    let value = parser.or()?;
    if parser.rest.is_empty() { Ok(value) } else { Err(parser.trouble()) }
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
        let mut left = self.sum()?;
        let mut holds = None;
        // Chains such as 1 <= x <= 3 hold if each link does.
        loop {
            let compare: fn(&f64, &f64) -> bool = match () {
                _ if self.takes("==") => f64::eq,
                _ if self.takes("!=") => f64::ne,
                _ if self.takes("<=") => f64::le,
                _ if self.takes(">=") => f64::ge,
                _ if self.takes("<") => f64::lt,
                _ if self.takes(">") => f64::gt,
                _ => return Ok(holds.map_or(left, truth)),
            };
            let right = self.sum()?;
            holds = Some(holds.unwrap_or(true) && compare(&left, &right));
            left = right;
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
        if self.takes("(") {
            let value = self.or()?;
            return if self.takes(")") { Ok(value) } else { Err(self.trouble()) };
        }
        let word = &self.rest[..self.word()];
        let Some(first) = word.bytes().next() else { return Err(self.trouble()) };
        let value = if first.is_ascii_digit() || first == b'.' {
            word.parse().map_err(|_| self.trouble())?
        } else {
            (self.look_up)(word).ok_or_else(|| Trouble::UnknownName(word.to_owned()))?
        };
        self.advance(word.len());
        Ok(value)
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
        ] {
            assert_eq!(evaluate(text, &names), Ok(value), "{text}");
        }
        assert_eq!(evaluate("ssthresh", &names), Err(Trouble::UnknownName("ssthresh".to_owned())));
        for text in ["", "1 +", "(1", "1 2", "1 === 2", "cwnd = 3", "!"] {
            assert!(matches!(evaluate(text, &names), Err(Trouble::Syntax(_))), "{text}");
        }
    }
}
