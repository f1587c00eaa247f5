//! Documents: scenarios as their authors wrote them, before the sweep is expanded.

use super::dotted_keys::{complete, is_within, overlaps, substitute, unsweep};
use super::extends;
use super::former::{rename_all, rename_key, rename_swept};
use super::model::{Scenario, ScenarioKeys};
use super::sweep::{Axis, MAX_POINTS, Setting, Sweep};
use super::text::{in_other_heap, parse_json, parse_toml, toml_value};
use super::wlan::Wlan;
use lasthop_base::schema::error::{Place, ScenarioError, suggestion};
use lasthop_base::schema::files::Files;
use lasthop_base::schema::former::Renamed;
use lasthop_base::schema::keys::{Field, Limits, Node, Read, Table, is_name, join, show};
use lasthop_link::queue::{DelayKeys, RateKeys};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

/// Top-level tables whose keys can be swept.
const SWEEP_TOPS: [&str; 6] = ["link", "radio", "wlan", "flow", "window", "run"];

/// Number of links and flows from which a scenario is read in a separate heap.
const MANY: usize = 64;

/// A scenario as its author wrote it: a validated tree of values and its origin.
///
/// ```
/// use lasthop_sim::scenario::Scenario;
/// use std::path::Path;
///
/// let text = r#"
/// name = "first"
/// [link.air]
/// between = ["server", "client"]
/// rate = "2 Mbps"
/// delay = "20 ms"
/// errors = { kind = "uniform", loss = "1 %" }
/// [flow.f]
/// from = "server"
/// to = "client"
/// transport = { kind = "tcp", variant = "newreno" }
/// app = { kind = "file", size = "20 kB" }
/// "#;
/// let mut document = Scenario::from_toml(text, Path::new("."))?;
/// document.set("link.air.rate", "64 kbps")?;
/// document.set("sweep.link.air.delay", "[\"1 ms\", \"50 ms\"]")?;
/// assert_eq!(document.points()?.len(), 2);
///
/// // Errors name the line, the key, the value found and the values allowed.
/// let error = Scenario::from_toml(&text.replace("2 Mbps", "fast"), Path::new(".")).unwrap_err();
/// assert!(error.to_string().starts_with("link.air.rate: found \"fast\"; expected "));
/// assert_eq!(error.line, Some(5));
/// # Ok::<(), lasthop_base::schema::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    value: Value,
    /// The file that it was read from, if known.
    file: Option<Box<str>>,
    /// Lines of the TOML text by dotted path.
    lines: HashMap<String, u32>,
    /// Extended files of the lines that are not of `file`, by dotted path.
    origins: HashMap<String, Arc<str>>,
    /// Keys changed by [`Document::set`], whose values are not in the text.
    changed: Vec<String>,
    /// Notes on former names of keys, one per name.
    notes: Vec<String>,
    /// Its files, shared with the copies that [`Document::set`] modifies.
    files: Arc<Files>,
}

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The swept keys in file order, each with its value at this point in the notation of the
    /// document.
    pub parameters: Vec<(String, Value)>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

impl Scenario {
    /// Parses the text of a scenario in TOML. File names in it are relative to `base_dir`.
    pub fn from_toml(text: &str, base_dir: &Path) -> Result<Document, ScenarioError> {
        let (value, lines) = parse_toml(text)?;
        Document::new(value, lines, None, base_dir, &Value::Null)
    }

    /// Parses the contents `text` of a scenario file: TOML, or JSON if its name ends in `.json`.
    /// File names in it are relative to its folder; errors and notes begin with `file`. Keys of
    /// `defaults`, a table or null, complete the tables that lack them.
    pub fn from_file_text(
        text: &str,
        file: &Path,
        defaults: &Value,
    ) -> Result<Document, ScenarioError> {
        let name: Box<str> = file.display().to_string().into();
        let is_json = file.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"));
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let parsed = if is_json {
            parse_json(text).map(|value| (value, HashMap::new()))
        } else {
            parse_toml(text)
        };
        let (value, lines) =
            parsed.map_err(|error| ScenarioError { file: Some(name.clone()), ..error })?;
        let folder = folder.unwrap_or(Path::new("."));
        Document::new(value, lines, Some(name), folder, defaults)
    }

    /// Like [`Scenario::from_toml`], for JSON text without duplicate keys. File names in it are
    /// relative to `base_dir`.
    pub fn from_json_text(text: &str, base_dir: &Path) -> Result<Document, ScenarioError> {
        Scenario::from_json(parse_json(text)?, base_dir)
    }

    /// Like [`Scenario::from_toml`], for a JSON value. File names in it are relative to `base_dir`.
    pub fn from_json(value: Value, base_dir: &Path) -> Result<Document, ScenarioError> {
        Document::new(value, HashMap::new(), None, base_dir, &Value::Null)
    }

    /// Returns the scenario as a document, including defaults, with quantities in their units.
    pub fn to_json(&self) -> Value {
        Table::write(self).into()
    }

    /// Returns a hash of all inputs of a replication except the seed: name, description, number of
    /// replications and seed are excluded. Scenarios that differ only in notation have equal
    /// hashes, and the hash does not depend on the machine.
    pub fn hash(&self) -> u64 {
        let mut json = Table::write(self);
        // A plain `remove` would move the last key into the gap.
        json.shift_remove("name");
        json.shift_remove("description");
        if let Some(Value::Object(run)) = json.get_mut("run") {
            run.shift_remove("replications");
            run.shift_remove("seed");
        }
        let mut hash = Fnv::new();
        hash.bytes(Value::Object(json).to_string().as_bytes());
        // The name of a recording does not identify its contents.
        for direction in self.links.iter().flat_map(|link| [&link.forward, &link.reverse]) {
            let rates = direction.rate_changes.as_ref().map(RateKeys::contents);
            let delays = direction.delay_changes.as_ref().map(DelayKeys::contents);
            let changes = [rates, delays].map(Option::unwrap_or_default);
            for contents in [direction.errors.contents()].into_iter().chain(changes) {
                if !contents.is_empty() {
                    hash.bytes(&contents);
                }
            }
        }
        for program in self.programs() {
            hash.bytes(program.as_bytes());
        }
        for contents in self.wlans.iter().map(Wlan::snr_contents) {
            if !contents.is_empty() {
                hash.bytes(&contents);
            }
        }
        hash.0
    }

    /// Returns the texts of programs outside the engine that the flows use.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.flows.iter().filter_map(|flow| flow.transport.tcp()?.program())
    }
}

impl Document {
    fn new(
        value: Value,
        lines: HashMap<String, u32>,
        file: Option<Box<str>>,
        base_dir: &Path,
        defaults: &Value,
    ) -> Read<Self> {
        let files = Arc::new(Files::new(base_dir));
        let (changed, notes) = (Vec::new(), Vec::new());
        let origins = HashMap::new();
        let mut document = Document { value, file, lines, origins, changed, notes, files };
        let mut found = Vec::new();
        rename_all(&mut document.value, &mut found).map_err(|error| document.locate(error))?;
        if let Some(extended) = extends::resolve(&document.value, base_dir, &mut found)
            .map_err(|error| if error.file.is_some() { error } else { document.locate(error) })?
        {
            document.value = extended.value;
            for (path, (line, file)) in extended.places {
                if let Entry::Vacant(place) = document.lines.entry(path.clone()) {
                    place.insert(line);
                    document.origins.insert(path, file);
                }
            }
        }
        complete(&mut document.value, defaults);
        document.note(&found);
        document.apart(|| document.check())?;
        Ok(document)
    }

    /// Returns the notes on former names of keys that it contained, one per name: its place, the
    /// present name, and when the former one becomes invalid.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the place of a key in the file, as `FILE:LINE`, or of the nearest table that contains
    /// it. `None` if the document was not read from a file, or the key has been changed since.
    pub fn place(&self, key: &str) -> Option<String> {
        let file = self.file_of(key).filter(|_| !self.is_changed(key))?;
        Some(Place { file, line: self.line(key), column: None }.to_string())
    }

    /// Adds a note for each former name that has none yet, and moves lines to the present names.
    fn note(&mut self, found: &[Renamed]) {
        for Renamed { from, to, former, present } in found {
            let text =
                format!("renamed to `{present}`; the next minor version will reject `{former}`");
            if !self.notes.iter().any(|note| note.ends_with(&text)) {
                let place = self.place(from).filter(|_| !self.is_changed(to));
                let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
                self.notes.push(format!("{place}{from}: {text}"));
            }
            let moved: Vec<_> =
                self.lines.keys().filter(|path| is_within(from, path)).cloned().collect();
            for path in moved {
                if let Some(line) = self.lines.remove(&path) {
                    self.lines.insert(format!("{to}{}", &path[from.len()..]), line);
                }
            }
        }
    }

    /// Returns the document in its present form, including changes by [`Document::set`].
    pub fn to_json(&self) -> &Value {
        &self.value
    }

    /// Sets the value of one key, like `--set key=value`: `text` is a TOML value or else plain
    /// text, so that `64 kbps` needs no quotes. A swept key is removed from the sweep.
    /// [`Document::points`] checks the combined effect of several calls.
    pub fn set(&mut self, dotted_key: &str, text: &str) -> Result<(), ScenarioError> {
        let mut value = match toml_value(dotted_key, text) {
            Some(value) => value?,
            None => text.into(),
        };
        let (mut key, mut found) = (dotted_key.to_owned(), Vec::new());
        rename_key(&mut key, &mut value, "", &mut found)?;
        self.changed.push(key.clone());
        self.note(&found);
        let dotted_key = key.as_str();
        let (top, rest) = dotted_key.split_once('.').unwrap_or((dotted_key, ""));
        let tops = || ScenarioKeys::KEYS.iter().map(|key| key.name);
        if !tops().any(|name| name == top) {
            return Err(ScenarioError::new(
                dotted_key,
                format!("unknown key {top:?}{}", suggestion(top, tops())),
                tops().collect::<Vec<_>>().join(", "),
            ));
        }
        if top == "extends" {
            let allowed = "no such change: the key belongs in the scenario file";
            return Err(ScenarioError::new(dotted_key, show(&value), allowed));
        }
        if top == "sweep" && !rest.is_empty() {
            // The rest is a single key, including its dots.
            let mut key = rest.trim_matches('"').to_owned();
            rename_swept(&mut key, &mut value, "sweep", &mut found)?;
            self.changed.push(join("sweep", &key));
            self.note(&found);
            if let Some(table) = self.value.as_object_mut()
                && let Some(sweep) =
                    table.entry("sweep").or_insert_with(|| Map::new().into()).as_object_mut()
            {
                sweep.insert(key, value);
            }
            self.lines.retain(|path, _| !path.starts_with("sweep."));
            return Ok(());
        }
        if rest.contains('.')
            && let Some((kind, name, names)) = self.unknown_item(dotted_key)
        {
            let near = suggestion(name, names.iter().map(String::as_str));
            return Err(ScenarioError::new(
                dotted_key,
                format!("no {kind} {name:?}{near}"),
                format!("one of {}", names.join(", ")),
            ));
        }
        substitute(&mut self.value, dotted_key, value)?;
        self.lines.retain(|path, _| !overlaps(path, dotted_key));
        if let Some(Value::Object(sweep)) = self.value.get_mut("sweep") {
            unsweep(sweep, dotted_key);
        }
        Ok(())
    }

    /// Expands the sweep into its grid, with the last key varying fastest, and checks every point.
    /// A document without a sweep has one point without parameters.
    pub fn points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.apart(|| self.expand())
    }

    /// Calls `work`, for a large network in a heap that its replications use later: reading needs more
    /// memory than the scenario.
    fn apart<T: Send>(&self, work: impl Fn() -> T + Sync) -> T {
        let tables = ["link", "flow"].map(|kind| self.value.get(kind).and_then(Value::as_object));
        let entities: usize = tables.into_iter().flatten().map(Map::len).sum();
        if entities < MANY { work() } else { in_other_heap(work) }
    }

    fn expand(&self) -> Read<Vec<Point>> {
        let sweep = self.sweep()?;
        // `sweep` has limited the product.
        let count: usize = sweep.iter().map(|axis| axis.steps.len()).product();
        let fixed = self.fixed();
        (0..count).map(|index| self.point(&fixed, &sweep, &grid_place(&sweep, index))).collect()
    }

    /// Validates the document at the first step of every axis, and at each other step of one axis
    /// at a time. The whole grid may be large; `points` checks it.
    fn check(&self) -> Read<()> {
        let sweep = self.sweep()?;
        let fixed = self.fixed();
        let mut place = vec![0; sweep.len()];
        self.point(&fixed, &sweep, &place)?;
        for axis in 0..sweep.len() {
            for step in 1..sweep[axis].steps.len() {
                place[axis] = step;
                self.point(&fixed, &sweep, &place)?;
            }
            place[axis] = 0;
        }
        Ok(())
    }

    fn node<'a>(&'a self, value: &'a Value) -> Node<'a> {
        Node { value, path: String::new(), files: &self.files }
    }

    /// Returns the validated axes of the sweep.
    fn sweep(&self) -> Read<Vec<Axis>> {
        let top = self.node(&self.value);
        // Errors of the top level precede those of the sweep, which may result from them.
        top.only(ScenarioKeys::KEYS, false).map_err(|error| self.locate(error))?;
        let Some(value) = self.value.get("sweep") else {
            return Ok(Vec::new());
        };
        let Sweep(axes) = Sweep::read(&top.child("sweep", value), Limits::ANY)
            .map_err(|error| self.locate(error))?;
        let mut earlier: Vec<&str> = Vec::new();
        for axis in &axes {
            let mut own: Vec<&str> = Vec::new();
            for step in &axis.steps {
                for (index, setting) in step.settings.iter().enumerate() {
                    let key = setting.key.as_str();
                    let beside = step.settings[..index].iter().map(|other| other.key.as_str());
                    if let Some(other) =
                        earlier.iter().copied().chain(beside).find(|other| overlaps(other, key))
                    {
                        let found =
                            format!("{key:?} and {other:?}, one of which contains the other");
                        let allowed = "keys that do not overlap";
                        let error = ScenarioError::new(setting.path.clone(), found, allowed);
                        return Err(self.locate(error));
                    }
                    if !own.contains(&key) {
                        self.check_swept_key(setting).map_err(|error| self.locate(error))?;
                        own.push(key);
                    }
                }
            }
            earlier.extend(own);
        }
        let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.steps.len()));
        if count.is_none_or(|count| count > MAX_POINTS) {
            let lengths: Vec<_> = axes.iter().map(|axis| axis.steps.len().to_string()).collect();
            let error = ScenarioError::new(
                "sweep",
                format!("a grid of {} points", lengths.join(" × ")),
                format!("up to {MAX_POINTS} points"),
            );
            return Err(self.locate(error));
        }
        Ok(axes)
    }

    fn check_swept_key(&self, setting: &Setting) -> Read<()> {
        let key = setting.key.as_str();
        let error = |found: String, allowed: String| {
            Err(ScenarioError::new(setting.path.clone(), found, allowed))
        };
        let parts: Vec<_> = key.split('.').collect();
        let place = "a dotted key of a link, a radio, a WLAN, a flow or the run";
        if parts.len() < 2 || !parts.iter().all(|part| is_name(part)) {
            return error(
                format!("the key {key:?}"),
                format!("{place}, such as \"link.NAME.rate\""),
            );
        }
        if !SWEEP_TOPS.contains(&parts[0]) {
            let near = suggestion(parts[0], SWEEP_TOPS);
            return error(
                format!("the key {key:?}{near}"),
                format!("{place}, such as \"link.NAME.rate\""),
            );
        }
        if let Some((_, name, names)) = self.unknown_item(key) {
            let near = suggestion(name, names.iter().map(String::as_str));
            return error(
                format!("no {} {name:?}{near}", parts[0]),
                format!("one of {}", names.join(", ")),
            );
        }
        if parts[0] == "run" && matches!(parts[1], "seed" | "replications") {
            return error(
                format!("the key {key:?}"),
                "keys that change the scenario; replications have their own random numbers \
                 without a sweep"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the link, radio, WLAN, flow or window that a dotted key names and the document lacks: its
    /// type, its name, and the existing names.
    fn unknown_item<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str, Vec<String>)> {
        let mut parts = key.split('.');
        let (top, name) = (parts.next()?, parts.next()?);
        if !matches!(top, "link" | "radio" | "wlan" | "flow" | "window") {
            return None;
        }
        let items = self.value.get(top)?.as_object()?;
        (!items.contains_key(name)).then(|| (top, name, items.keys().cloned().collect()))
    }

    /// Returns the document without its sweep, which may be long.
    fn fixed(&self) -> Cow<'_, Value> {
        let Some(tables) = self.value.as_object().filter(|tables| tables.contains_key("sweep"))
        else {
            return Cow::Borrowed(&self.value);
        };
        let fixed = tables.iter().filter(|(key, _)| *key != "sweep");
        Cow::Owned(fixed.map(|(key, it)| (key.clone(), it.clone())).collect())
    }

    /// Returns the scenario at one place of the grid, from the document without its sweep.
    fn point(&self, fixed: &Value, sweep: &[Axis], place: &[usize]) -> Read<Point> {
        let mut value = Cow::Borrowed(fixed);
        let mut parameters = Vec::with_capacity(sweep.len());
        let mut settings = Vec::with_capacity(sweep.len());
        for (axis, index) in sweep.iter().zip(place) {
            let step = &axis.steps[*index];
            for setting in &step.settings {
                substitute(value.to_mut(), &setting.key, setting.value.clone()).map_err(
                    |mut error| {
                        error.path = setting.path.clone();
                        self.locate(error)
                    },
                )?;
            }
            settings.extend(&step.settings);
            parameters.extend(step.label.iter().cloned());
        }
        match self.read(&value) {
            Ok(scenario) => Ok(Point { parameters, scenario }),
            Err(error) => Err(self.locate_in_sweep(error, &settings, &parameters)),
        }
    }

    fn read(&self, value: &Value) -> Read<Scenario> {
        let scenario = Scenario::read(&self.node(value))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Adds file and line to an error.
    fn locate(&self, mut error: ScenarioError) -> ScenarioError {
        if error.line.is_none() {
            error.line = self.line(&error.path);
        }
        self.with_file(error)
    }

    /// Adds the file to an error, unless its cause has been changed by [`Document::set`].
    fn with_file(&self, mut error: ScenarioError) -> ScenarioError {
        if self.is_changed(&error.path) {
            error.line = None;
        } else {
            error.file = self.file_of(&error.path).map(Into::into);
        }
        error
    }

    /// Returns `true` if the value at a path was set by [`Document::set`].
    fn is_changed(&self, path: &str) -> bool {
        self.changed.iter().any(|changed| is_within(changed, path))
    }

    /// Returns the line of a path; of a missing key or a list item, that of its table or list.
    fn line(&self, path: &str) -> Option<u32> {
        self.lines.get(self.located(path)).copied()
    }

    /// Returns the file of [`Self::line`], if known.
    fn file_of(&self, path: &str) -> Option<&str> {
        self.origins.get(self.located(path)).map(|file| &**file).or(self.file.as_deref())
    }

    /// Returns the nearest part of a path that has a line; empty without one.
    fn located<'a>(&self, mut path: &'a str) -> &'a str {
        while !path.is_empty() && !self.lines.contains_key(path) {
            path = path.rfind(['.', '[']).map_or("", |end| &path[..end]);
        }
        path
    }

    /// Adds the line, and the swept values that may be related to the error.
    fn locate_in_sweep(
        &self,
        mut error: ScenarioError,
        settings: &[&Setting],
        parameters: &[(String, Value)],
    ) -> ScenarioError {
        let print = |(key, value): &(String, Value)| format!("{key} = {}", show(value));
        if let Some(setting) = settings.iter().find(|setting| overlaps(&setting.key, &error.path)) {
            error.sweep = Some(format!("{} = {}", setting.key, show(&setting.value)).into());
            error.line = self.lines.get(&setting.path).copied();
            let file = self.file_of(&setting.path).filter(|_| !self.is_changed(&setting.path));
            error.file = file.map(Into::into);
            return error;
        }
        // An error of the document without its sweep is not related to the sweep.
        if !parameters.is_empty() && self.read(&self.value).err().as_ref() != Some(&error) {
            error.sweep = Some(parameters.iter().map(print).collect::<Vec<_>>().join(", ").into());
        }
        self.locate(error)
    }
}

/// Returns the indexes of the steps at one place of the grid, with the last axis varying fastest.
fn grid_place(sweep: &[Axis], mut index: usize) -> Vec<usize> {
    let mut place: Vec<usize> = sweep
        .iter()
        .rev()
        .map(|axis| {
            let digit = index % axis.steps.len();
            index /= axis.steps.len();
            digit
        })
        .collect();
    place.reverse();
    place
}

/// 64-bit FNV-1a: stable, unlike the hashers of the standard library.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // The length separates consecutive parts.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
