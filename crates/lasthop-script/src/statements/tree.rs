//! Statements and expressions, once they are read.

use std::rc::Rc;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    /// Line of the script.
    pub line: u32,
    pub what: Doing,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Doing {
    /// The condition, its text, and what is said if it does not hold.
    Assert(Expression, String, Option<Expression>),
    /// Names that take a value, one after the other (`a = b = 1`), each one or several.
    Assign(Vec<Target>, Expression),
    /// `NAME += …`.
    Change(String, &'static str, Expression),
    /// Conditions with what follows from them, the first that holds.
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    While(Expression, Vec<Statement>),
    For(Target, Expression, Vec<Statement>),
    Define(Rc<Function>),
    Return(Option<Expression>),
    Break,
    Continue,
    Global(Vec<String>),
    /// An expression whose value is of no interest; `pass` and `import` are none.
    Evaluate(Option<Expression>),
}

/// What `def` defines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    pub(super) name: String,
    /// Names of the arguments, and what they are if they are left out.
    pub(super) parameters: Vec<(String, Option<Expression>)>,
    pub(super) body: Vec<Statement>,
}

/// Names, of which several take a list apart.
pub(super) type Target = Vec<String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Nothing,
    Truth(bool),
    Number(f64),
    Text(String),
    /// `f"…"`: text, and values with how they are written.
    Filled(Vec<Piece>),
    Name(String),
    List(Vec<Expression>),
    /// `VALUE for NAMES in LIST if CONDITION`.
    Each(Box<Expression>, Target, Box<Expression>, Option<Box<Expression>>),
    Call(Box<Expression>, Vec<Expression>),
    /// `VALUE.NAME(…)`.
    Method(Box<Expression>, String, Vec<Expression>),
    Index(Box<Expression>, Box<Expression>),
    /// `-`, `+`, `~` or `not`.
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// All of the comparisons hold.
    Compare(Box<Expression>, Vec<(&'static str, Expression)>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// The condition, and the values if it holds and if not.
    Choice(Box<(Expression, Expression, Expression)>),
}

/// A piece of a filled text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Value(Expression, String),
}
