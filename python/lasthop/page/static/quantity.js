// Quantities as scenarios write them: a number and its unit.

const RATE = { bps: 1, kbps: 1e3, Mbps: 1e6, Gbps: 1e9 };
const DURATION = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };
const SIZE = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };

/** Range of the sliders of each kind, and units of the values. */
export const KINDS = {
  rate: { units: RATE, write: ["bps", "kbps", "Mbps", "Gbps"], range: [300, 1e9] },
  duration: { units: DURATION, write: ["us", "ms", "s"], range: [1e-5, 100] },
  size: { units: SIZE, write: ["B", "kB", "MB", "GB"], range: [1, 1e8] },
  packets: { units: { packet: 1, packets: 1 }, write: ["packets"], range: [1, 1000], whole: true },
  segments: { units: { segment: 1, segments: 1 }, write: ["segments"], range: [1, 1000], whole: true },
  frames: { units: { frame: 1, frames: 1 }, write: ["frames"], range: [1, 100], whole: true },
  bits: { units: { bit: 1, bits: 1 }, write: ["bits"], range: [1, 1e9], whole: true },
  probability: { units: { "": 1, "%": 0.01 }, write: ["%"], range: [1e-6, 1] },
  number: { units: { "": 1 }, write: [""], range: [1, 1000] },
  integer: { units: { "": 1 }, write: [""], range: [1, 1000], whole: true },
};

const WORD = /^\s*(exp )?\s*([0-9][0-9_]*(?:\.[0-9_]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ%]*)\s*$/;

/** Reads a quantity of one of `kinds`: `{ kind, value, prefix }`, or null. */
export function read(text, kinds) {
  if (typeof text === "number") {
    const kind = kinds.find((one) => KINDS[one].units[""]);
    return kind ? { kind, value: text, prefix: "" } : null;
  }
  const match = WORD.exec(String(text));
  if (!match) return null;
  const [, prefix = "", number, unit] = match;
  const kind = kinds.find((one) => unit in KINDS[one].units);
  if (!kind) return null;
  const value = Number(number.replaceAll("_", "")) * KINDS[kind].units[unit];
  return { kind, value, prefix };
}

/** Writes a value, with two or three digits that count. */
export function write(value, kind, prefix = "") {
  const { units, write: names, whole } = KINDS[kind];
  // Bits and bytes are whole.
  const isWhole = whole || kind === "size" || kind === "rate";
  const lead = 10 ** Math.floor(Math.log10(value || 1));
  const exact = Number(value.toPrecision(value < 2 * lead ? 3 : 2));
  const rounded = isWhole ? Math.round(exact) : exact;
  if (kind === "integer" || kind === "number") return rounded;
  let unit = names[0];
  for (const name of names) if (rounded >= units[name] * (1 - 1e-9)) unit = name;
  if (kind === "packets" || kind === "frames" || kind === "segments" || kind === "bits") {
    return `${rounded} ${rounded === 1 ? unit.replace(/s$/, "") : unit}`;
  }
  const number = Number((rounded / units[unit]).toPrecision(6));
  // Small numbers without an exponent where the engine reads none.
  const text = kind === "probability" && number < 1e-4 ? number.toExponential() : String(number);
  return `${prefix}${text} ${unit}`.trim();
}

/** A text of each kind: a pattern that takes it takes the kind. */
const SAMPLES = {
  rate: "1 Mbps", duration: "1 ms", packets: "2 packets", segments: "2 segments", frames: "2 frames",
  bits: "2 bits", size: "1 kB", probability: "1 %",
};

/** Values that a key's schema accepts: kinds of quantities, words, and limits. */
export function describe(schema) {
  const forms = schema.anyOf || [schema];
  const kinds = [];
  const words = [];
  let [least, most] = [null, null];
  for (const form of forms) {
    if (form.const !== undefined) words.push(form.const);
    if (form.type === "integer") kinds.push("integer");
    if (form.type === "number") kinds.push(form.maximum === 1 ? "probability" : "number");
    if (form.minimum !== undefined) least = form.minimum;
    if (form.maximum !== undefined) most = form.maximum;
    if (form.pattern) {
      const takes = (text) => new RegExp(form.pattern).test(text);
      for (const [kind, text] of Object.entries(SAMPLES)) {
        if (takes(text) && !kinds.includes(kind)) kinds.push(kind);
      }
      for (const word of ["auto", "off", "unlimited"]) if (takes(word)) words.push(word);
    }
  }
  return { kinds, words, least, most };
}

/** The range of a slider: limits of the schema where it has some, usual ones otherwise. */
export function range(kind, { least, most }) {
  let [low, high] = KINDS[kind].range;
  if (kind === "integer" || kind === "number") {
    if (least !== null) low = Math.max(least, kind === "integer" ? least : 0.01);
    if (most !== null) high = Math.min(most, Math.max(1000, low * 10));
  }
  return [low, high];
}

/** From a place between 0 and 1 to a value, and back; logarithmic, unless zero is in it. */
export const scale = ([low, high]) =>
  low > 0
    ? {
        value: (place) => low * (high / low) ** place,
        place: (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low),
      }
    : {
        value: (place) => low + (high - low) * place,
        place: (value) => (value - low) / (high - low),
      };

/** An example of a value out of a description, such as "64 kbps". */
export function example(schema) {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const found = /Allowed:.*?such as "([^"]+)"/.exec(schema.description || "");
  if (found) return found[1];
  const { kinds, least } = describe(schema);
  if (kinds.includes("integer")) return least ?? 1;
  if (kinds.includes("number")) return least ?? 1;
  return schema.type === "boolean" ? false : "";
}

const SCALES = {
  bps: [[1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
  bytes: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  "%": [[0.01, "%"]],
  "": [[1, ""]],
};

/** The metrics that the engine declares, by the kind of entity and name: "flow.goodput_bps". */
let declared = new Map();

/** Takes the list that the server sends. */
export function useMetrics(list) {
  declared = new Map(list.map((one) => [`${one.entity}.${one.name}`, one]));
}

/** The engine's declaration of "flow.web.goodput_bps", or only its name. */
function about(metric) {
  const name = metric.slice(metric.lastIndexOf(".") + 1);
  const parts = metric.split(".");
  // "flows.web.goodput_bps" is aggregated over the flows of a table with count.
  const kind = parts[0] === "flows" && parts.length > 2 ? "flow" : parts[0];
  return declared.get(`${kind}.${name}`) || { unit: "", label: name };
}

/** Unit of a metric. */
export function metricUnit(metric) {
  return about(metric).unit;
}

/** The unit in which the largest of these values is easy to read: `{ per, name }`. */
export function unitFor(values, unit) {
  const most = Math.max(0, ...values.filter((one) => Number.isFinite(one)).map(Math.abs));
  const steps = SCALES[unit] || [[1, unit]];
  const found = steps.find(([per]) => most >= per * (1 - 1e-9)) || steps[steps.length - 1];
  return { per: found[0], name: found[1] };
}

/** A number for people: as many digits as its uncertainty leaves. */
export function digits(value, uncertainty = null) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  let places = 3 - Math.ceil(Math.log10(Math.abs(value)));
  if (uncertainty > 0) places = 2 - Math.ceil(Math.log10(uncertainty) + 1e-9);
  return value.toFixed(Math.min(Math.max(places, 0), 8));
}

/** A metric in words: "flow.web.goodput_bps" is "Goodput". */
export function metricLabel(metric) {
  return about(metric).label;
}
