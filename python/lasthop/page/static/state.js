// State of the page, as one value. It fits into the part of the address behind "#", so that an
// address shows the same on another machine.

const VERSION = "1.";

/** Packs a state for the address. */
export async function encode(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const found = new Uint8Array(await new Response(packed).arrayBuffer());
  let text = "";
  for (const byte of found) text += String.fromCharCode(byte);
  return VERSION + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Decodes the state; null if it is invalid. */
export async function decode(text) {
  if (!text.startsWith(VERSION)) return null;
  try {
    const plain = atob(text.slice(VERSION.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
    const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const state = JSON.parse(await new Response(whole).text());
    return state && typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}

/** The value at a path of keys; undefined if missing. */
export function get(tables, path) {
  let found = tables;
  for (const key of path) {
    if (found === null || typeof found !== "object") return undefined;
    found = found[key];
  }
  return found;
}

/** A copy of nested tables with the value at a path changed; undefined takes it out. */
export function put(tables, path, value) {
  if (!path.length) return value;
  const [key, ...rest] = path;
  const copy = { ...(tables && typeof tables === "object" ? tables : {}) };
  const child = put(copy[key], rest, value);
  if (child === undefined) delete copy[key];
  else copy[key] = child;
  return copy;
}

/** The scenario of an alternative: the common one with its changes. */
export function effective(state, number) {
  let tables = state.scenario;
  const own = state.alternatives[number];
  for (const [key, value] of Object.entries(own ? own.changes : {})) {
    tables = put(tables, key.split("."), value);
  }
  return tables;
}

/** The state with a key changed: in the scenario of all, or of one alternative alone. */
export function change(state, path, value) {
  if (state.edit < 0) {
    return { ...state, scenario: put(state.scenario, path, value) };
  }
  const own = state.alternatives[state.edit];
  const changes = { ...own.changes };
  const key = path.join(".");
  // A change of a table that holds this key takes it in.
  const outer = Object.keys(changes).find((one) => key.startsWith(`${one}.`));
  const at = outer ? outer.split(".").length : 0;
  for (const one of Object.keys(changes)) if (one.startsWith(`${key}.`)) delete changes[one];
  if (outer) changes[outer] = put(changes[outer], path.slice(at), value);
  else if (value === undefined) delete changes[key];
  else changes[key] = value;
  return replaced(state, state.edit, { changes });
}

/** The state with an alternative changed. */
export function replaced(state, number, what) {
  const alternatives = state.alternatives.map((one, index) =>
    index === number ? { ...one, ...what } : one,
  );
  return { ...state, alternatives };
}

/** Request to the server. */
export const question = (state) => ({
  scenario: state.scenario,
  alternatives: state.alternatives,
  seed: state.seed,
});

/** A label that no alternative has yet. */
export function freshLabel(state, wanted) {
  const taken = new Set(state.alternatives.map((one) => one.label));
  const base = wanted.slice(0, 50);
  let label = base;
  for (let number = 2; taken.has(label); number += 1) label = `${base} ${number}`;
  return label;
}
