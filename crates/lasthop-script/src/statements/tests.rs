//! Tests of blocks: assertions, variables and errors.

use super::evaluate::{Outside, run};
use super::{Error, Trouble, Value};
use std::collections::BTreeMap;

/// Runs blocks in sequence. Returns their variables, or the first error.
fn outcome(blocks: &[&str]) -> Result<BTreeMap<String, Value>, Error> {
    let look_up = |name: &str| (name == "cwnd").then_some(10.0);
    let mut variables = BTreeMap::new();
    for block in blocks {
        run(block, 1, &mut Outside { look_up: &look_up, variables: &mut variables })?;
    }
    Ok(variables)
}

#[test]
fn conditions() {
    for text in [
        "cwnd == 10",
        "not cwnd <= 9",
        "9 < cwnd <= 10",
        "not 9 < cwnd < 10",
        "not cwnd == 10 or 2 + 3 * 4 == 14",
        "(2 + 3) * 4 == 20 and cwnd % 3 == 1",
        "-7 // 2 == -4 and -7 % 3 == 2 and 7 / 2 - 1 == 2.5",
        "1e3 == 1000 and 0x10 + 1 == 17 and - -2 == 2",
        "(6 & 3 | 8) == 10 and 1 << 4 > 15 and 20 >> 2 == 5",
        "True and not False and 10 - 3 - 2 == 5",
        "cwnd in (9, 10) and cwnd not in [3] and not cwnd in ()",
        "[1, 2] == (1, 2) and (1,) == [1] and [] != [0] and 'a' < 'b'",
        "(cwnd == 10\n  and cwnd != 9)",
        "0 or cwnd",
        // Unreached parts are not evaluated.
        "cwnd == 10 or nonsense",
        "not (cwnd == 9 and 1 / 0 and nonsense < 'a')",
        "not 1 > 2 > nonsense",
    ] {
        assert_eq!(outcome(&[&format!("assert {text}, 'no'")]), Ok(BTreeMap::new()), "{text}");
        let wrong = outcome(&[&format!("assert not ({text})")]);
        assert!(matches!(wrong, Err((_, Trouble::Asserted(..)))), "{text}: {wrong:?}");
    }
}

#[test]
fn statements() {
    for (blocks, value) in [
        (&["a = 1; b = a\nx = a + b"][..], 2.0),
        (&[" a = 2\n  # why\n\nx = a;\n"], 2.0),
        (&["x = 1", "x = x + 1 # again"], 2.0),
        (&["if cwnd > 10: x = 1\nelif cwnd == 10:\n  x = 2\n  x = x + 1\nelse:\n  x = 4"], 3.0),
        (&["if cwnd < 5:\n  x = 1\nelse:\n  if cwnd < 7:\n    x = 2\n  else:\n    x = 3"], 3.0),
        (
            &[
                "x = 1\nif cwnd < 5:\n  assert nonsense\n  if 1: x = 2\n\n# in between\n  pass\nx = x + 4",
            ],
            5.0,
        ),
        (&["if cwnd: x = 1; x = 2\nelse: x = 3; x = 4"], 2.0),
        (&["if 0: x = 1\nelif 1: x = 2\nelif 1: x = 3"], 2.0),
    ] {
        let variables = outcome(blocks).unwrap_or_else(|error| panic!("{blocks:?}: {error:?}"));
        assert_eq!(variables["x"], Value::Number(value), "{blocks:?}");
    }
}

#[test]
fn trouble_is_told_with_its_line() {
    type Kind = fn(&Trouble) -> bool;
    let syntax: Kind = |trouble| matches!(trouble, Trouble::Syntax(_));
    let unknown: Kind = |trouble| matches!(trouble, Trouble::Unknown(_));
    let failed: Kind = |trouble| matches!(trouble, Trouble::Failed(_));
    let deep = format!("x = {}1{}", "(".repeat(500), ")".repeat(500));
    let deep_not = format!("x = {}1", "not ".repeat(500));
    for (block, line, is_kind) in [
        ("assert", 1, syntax),
        ("x = 1 +", 1, syntax),
        ("x = 1 2", 1, syntax),
        ("1 === 2", 1, syntax),
        ("x = !", 1, syntax),
        ("x = 'open", 1, syntax),
        ("x = 3x", 1, syntax),
        ("x = (1", 1, syntax),
        ("if cwnd\n  x = 1", 1, syntax),
        ("if cwnd:\nx = 1", 2, syntax),
        ("if cwnd:\n  x = 1\n   y = 1", 3, syntax),
        ("x = 1\n  y = 2\n z = 3", 3, syntax),
        (deep.as_str(), 1, syntax),
        (deep_not.as_str(), 1, syntax),
        ("x = ssthresh", 1, unknown),
        ("\nx = hash(3)", 2, unknown),
        ("x = cwnd[1]", 1, unknown),
        ("while True: pass", 1, unknown),
        ("def f(): pass", 1, unknown),
        ("x = 1\nprint(x)", 2, unknown),
        ("if 0:\n  x += 1", 2, unknown),
        ("x = 1\nx = 1 / 0", 2, failed),
        ("x = 'a' - 1", 1, failed),
        ("x = -'a'", 1, failed),
        ("x = 1 < 'a'", 1, failed),
        ("x = 1 in 2", 1, failed),
    ] {
        match outcome(&[block]) {
            Err((at, trouble)) if is_kind(&trouble) => assert_eq!(at, line, "{block}"),
            other => panic!("{block}: {other:?}"),
        }
    }
    // The error quotes the statement.
    let named = "for i in x: pass (statements: assert, NAME = …, if, pass)".to_owned();
    assert_eq!(outcome(&["for i in x: pass"]), Err((1, Trouble::Unknown(named))));
    let said = outcome(&["x = 3\nassert x == 4, (x, 'no')"]);
    let expected = Trouble::Asserted("x == 4".to_owned(), Some("[3, no]".to_owned()));
    assert_eq!(said, Err((2, expected)));
}
