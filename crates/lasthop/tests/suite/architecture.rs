//! The tables of `docs/architecture.md`, compared with the manifests of the crates and the sources
//! of their modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that are single state machines, whose modules refer to each other.
const ONE_MACHINE: [&str; 2] = ["lasthop-tcp", "lasthop-script"];

type Uses = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the texts in backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the rows of the table whose header begins with these cells.
fn table(header: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, rest) =
        page.split_once(&format!("\n{header}")).unwrap_or_else(|| panic!("no {header}"));
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::to_owned).collect()).collect()
}

/// Returns the crates of the workspace that each crate depends on.
fn crates() -> Uses {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let manifests = folders.map(|folder| folder.unwrap().path().join("Cargo.toml"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        let uses = manifest["dependencies"].as_table().unwrap().keys();
        (name, uses.filter(|name| name.starts_with("lasthop")).cloned().collect())
    };
    manifests.filter(|path| path.exists()).map(read).collect()
}

/// Returns the code of a file, without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the text after each occurrence of `prefix` that begins a path.
fn after<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let is_start =
        |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
    let places = text.match_indices(prefix).filter(|&(at, _)| is_start(at));
    places.map(|(at, _)| &text[at + prefix.len()..]).collect()
}

/// Returns the modules of a crate that each of its modules uses.
fn modules(name: &str) -> Uses {
    fn visit(folder: &Path, top: &str, depth: usize, modules: &BTreeSet<String>, uses: &mut Uses) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = if top.is_empty() { stem.clone() } else { top.to_owned() };
            if path.is_dir() {
                visit(&path, &own, depth + 1, modules, uses);
            } else if stem != "lib"
                && stem != "tests"
                && path.extension().is_some_and(|e| e == "rs")
            {
                let text = code(&path);
                // In a module of depth n, `super` repeated n times is the root of the crate.
                let depth = depth + usize::from(stem != "mod");
                let mut found = after(&text, "crate::");
                found.extend(after(&text, &"super::".repeat(depth)));
                let used = found.into_iter().flat_map(|path| match path.strip_prefix('{') {
                    Some(group) => group.split('}').next().unwrap_or_default().split(',').collect(),
                    None => vec![path],
                });
                let first = |path: &str| {
                    let path = path.trim_start();
                    path[..path
                        .find(|c: char| !c.is_alphanumeric() && c != '_')
                        .unwrap_or(path.len())]
                        .to_owned()
                };
                let used = used.map(first).filter(|used| *used != own && modules.contains(used));
                uses.entry(own.clone()).or_default().extend(used);
            }
        }
    }
    let source = root().join("crates").join(name).join("src");
    let names = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path());
    let names = names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let mut uses = Uses::new();
    visit(&source, "", 0, &names, &mut uses);
    uses
}

/// Returns a module that uses itself through other modules, if any.
fn cycle(uses: &Uses) -> Option<&String> {
    let mut left: BTreeSet<&String> = uses.keys().collect();
    // Modules that use no remaining module cannot be part of a cycle.
    while let Some(&free) =
        left.iter().find(|name| uses[**name].iter().all(|used| !left.contains(used)))
    {
        left.remove(free);
    }
    left.into_iter().next()
}

#[test]
fn crates_depend_as_the_table_says() {
    let mut crates = crates();
    let all: BTreeSet<String> = crates
        .keys()
        .filter(|name| !["lasthop", "lasthop-py"].contains(&name.as_str()))
        .cloned()
        .collect();
    for row in table("| crate | uses |") {
        let name = quoted(&row[0]).pop_first().expect("a crate");
        let expected = if row[1].trim() == "all of these" { all.clone() } else { quoted(&row[1]) };
        assert_eq!(crates.remove(&name), Some(expected), "{name}");
    }
    assert!(crates.is_empty(), "not in the table: {crates:?}");
}

#[test]
fn modules_depend_as_the_table_says() {
    let mut listed: BTreeMap<String, Uses> = BTreeMap::new();
    for row in table("| module | crate | uses |") {
        let [module, name] = [0, 1].map(|cell| quoted(&row[cell]).pop_first().expect("a name"));
        listed.entry(name).or_default().insert(module, quoted(&row[2]));
    }
    assert_eq!(listed.len(), 3, "{listed:?}");
    for (name, expected) in listed {
        assert_eq!(modules(&name), expected, "{name}");
    }
}

#[test]
fn modules_form_no_cycle() {
    for name in crates().keys().filter(|name| !ONE_MACHINE.contains(&name.as_str())) {
        assert_eq!(cycle(&modules(name)), None, "{name}");
    }
    // The scan finds cycles: the modules of TCP form one.
    assert!(cycle(&modules("lasthop-tcp")).is_some());
}
