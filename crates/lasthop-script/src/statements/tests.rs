//! Tables of blocks: what they assert, print, or are told.

use super::run::{Outside, run};
use super::{Error, Trouble};
use std::collections::BTreeMap;

/// Runs blocks one after the other; what they printed, or the first trouble.
fn outcome(blocks: &[&str]) -> Result<Vec<String>, Error> {
    let look_up = |name: &str| (name == "cwnd").then_some(10.0);
    let mut variables = BTreeMap::new();
    let mut outside = Outside { look_up: &look_up, variables: &mut variables, printed: Vec::new() };
    for block in blocks {
        run(block, 1, &mut outside)?;
    }
    Ok(outside.printed.into_iter().map(|(_, text)| text).collect())
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
        "1e3 == 1000 and 0x10 + 1 == 17 and 1_000 == 1000",
        "(6 & 3 | 8) == 10 and 1 << 4 > 15 and 5 ^ 1 == 4 and ~1 == -2",
        "abs(3 - cwnd) == max(7, 2, 1) and min([4, 5]) == int(4.9)",
        "True and not False and None is None and cwnd is not None",
        "cwnd in (9, 10) and cwnd not in [3] and not cwnd in ()",
        "-2 ** 2 + 2 * 3 ** 2 == 14 and 2 ** 3 ** 2 == 512 and 2 ** -1 == .5",
        "(1 if cwnd > 10 else 2 if cwnd == 10 else 3) == 2",
        "round(2.5) == 2 and round(3.14159, 2) == 3.14 and round(-0.5) == 0",
        "len('abc') + len([1, (2, 3)]) == 5 and sum(range(4)) == 6",
        "list(range(5, 0, -2)) == [5, 3, 1] and sorted([2, 1]) == [1, 2]",
        "any(x > 9 for x in (1, cwnd)) and all([x for x in range(1, 3) if x != 0])",
        "[1, 2][-1] == 2 and 'abc'[0] == 'a' and 'b' in 'abc' and 'a' < 'b'",
        "'%d of %5.1f%%' % (cwnd, 2.25) == '10 of   2.2%'",
        "f'{cwnd:>4} {cwnd + 1}{{}} {cwnd=}' == '  10 11{} cwnd=10'",
        "'{} {1:.1f}'.format(1, 2) == '1 2.0' and '-'.join(['a', str(1)]) == 'a-1'",
        "'a' 'b' + \"c\" == 'abc' and int('12') == 12 and float('.5') == 0.5",
        "(1, 2) < (1, 3) and [1] + [2] == [1, 2] and (1,) == [1]",
        "(cwnd == 10\n  and cwnd != 9)",
        "0 or cwnd",
    ] {
        assert_eq!(outcome(&[&format!("assert {text}, 'no'")]), Ok(Vec::new()), "{text}");
        let wrong = outcome(&[&format!("assert not ({text})")]);
        assert!(matches!(wrong, Err((_, Trouble::Asserted(..)))), "{text}: {wrong:?}");
    }
}

#[test]
fn statements() {
    for (blocks, printed) in [
        (&["a = 1; b = a\nprint(a + b)"][..], &["2"][..]),
        (&[" a = b = 2\n  # why\n\nprint a"], &["2"]),
        (&["a, (b) = 1, 2\na += b\nb **= 3\nprint(a, b)"], &["3 8"]),
        (
            &[
                "if cwnd > 10: print('more')\nelif cwnd == 10:\n  print('as much')\nelse:\n  print('less')",
            ],
            &["as much"],
        ),
        (
            &[
                "if cwnd < 5:\n  x = 1\nelse:\n  if cwnd < 7:\n    x = 2\n  else:\n    x = 3\nprint(x)",
            ],
            &["3"],
        ),
        (
            &["for i in range(6):\n  if i == 1: continue\n  if i == 3:\n    break\n  print(i)"],
            &["0", "2"],
        ),
        (&["n = 3\nwhile n: # down\n  n -= 1\n  pass\nprint(n)"], &["0"]),
        (&["for a, b in [(1, 2), (3, 4)]: print('%d-%d' % (a, b))"], &["1-2", "3-4"]),
        (&["def twice(x, by=2):\n  return x * by\n", "print(twice(4), twice(4, 3))"], &["8 12"]),
        (&["def f(n):\n  return 1 if n < 2 else n * f(n - 1)\nprint(f(5))"], &["120"]),
        (
            &["n = 1\ndef f():\n  global n\n  n = 5\n  m = 7\nf()\nprint(n)", "print(n + 1)"],
            &["5", "6"],
        ),
        (
            &[
                "def f(list):\n  for x in list:\n    if x > 2:\n      return x\nprint(f([1, 3, 5]), f([]))",
            ],
            &["3 None"],
        ),
        (&["l = []\nfor i in range(3): l.append(i)\nprint(l, len(l))"], &["[0, 1, 2] 3"]),
        (&["l = [1]\ndef f(x): l.append(x)\nf(2); print(l)"], &["[1, 2]"]),
        (&["import math; print(1)\nfrom x import y"], &["1"]),
        (&["if True:\n    a = 1\n\n# in between\n    b = 2\nprint(a + b)"], &["3"]),
        (&["print('''two\nlines'''); print(\"a\\tb\")"], &["two\nlines", "a\tb"]),
    ] {
        let expected = printed.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(outcome(blocks), Ok(expected), "{blocks:?}");
    }
}

#[test]
fn trouble_is_told_with_its_line() {
    type Kind = fn(&Trouble) -> bool;
    let syntax: Kind = |trouble| matches!(trouble, Trouble::Syntax(_));
    let unknown: Kind = |trouble| matches!(trouble, Trouble::Unknown(_));
    let failed: Kind = |trouble| matches!(trouble, Trouble::Failed(_));
    let deep = format!("x = {}1{}", "(".repeat(500), ")".repeat(500));
    for (block, line, is_kind) in [
        ("assert", 1, syntax),
        ("x = 1 +", 1, syntax),
        ("\nx = (1", 2, syntax),
        ("x = 1 2", 1, syntax),
        ("1 === 2", 1, syntax),
        ("x = !", 1, syntax),
        ("1 = x", 1, syntax),
        ("if cwnd\n  x = 1", 1, syntax),
        ("if cwnd:\nx = 1", 2, syntax),
        ("x = 1\n  y = 2\n z = 3", 3, syntax),
        ("f'{cwnd'", 1, syntax),
        ("break", 1, syntax),
        (deep.as_str(), 1, syntax),
        ("x = ssthresh", 1, unknown),
        ("\nx = hash(3)", 2, unknown),
        ("class A: pass", 1, unknown),
        ("x = {1: 2}", 1, unknown),
        ("x = cwnd.real", 1, unknown),
        ("try:\n  x = 1\nexcept: pass", 1, unknown),
        ("x = 1\nx = 1 / 0", 2, failed),
        ("x = 'a' - 1", 1, failed),
        ("x = [1][1]", 1, failed),
        ("a, b = 1, 2, 3", 1, failed),
        ("def f(x):\n  return f(x)\nf(1)", 2, failed),
        ("def f(x): pass\nf()", 2, failed),
        ("while True: pass", 1, failed),
        ("x = 'a'\nwhile 1: x = x + x", 2, failed),
        ("'%d' % 'a'", 1, failed),
        ("range(1e9)", 1, failed),
        ("for i in 3: pass", 1, failed),
        ("x = 1; x.append(2)", 1, failed),
        ("x.append(2)", 1, unknown),
    ] {
        match outcome(&[block]) {
            Err((at, trouble)) if is_kind(&trouble) => assert_eq!(at, line, "{block}"),
            other => panic!("{block}: {other:?}"),
        }
    }
    let said = outcome(&["x = 3\nassert x == 4, 'x is %d' % x"]);
    let expected = Trouble::Asserted("x == 4".to_owned(), Some("x is 3".to_owned()));
    assert_eq!(said, Err((2, expected)));
}
