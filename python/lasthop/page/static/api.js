// Requests to the server. The token is part of the address; it is stored for this tab and removed from
// the address bar, so that a shared address does not contain it. A tab without a token requests it
// from the other tabs of this server.

const KEY = "lasthop-token";
const CHANNEL = "lasthop";

let token = null;

/** Finds the token; null if neither the address nor another tab has it. */
export async function findToken() {
  const address = new URL(location.href);
  token = address.searchParams.get("token") || sessionStorage.getItem(KEY);
  if (address.searchParams.has("token")) {
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  const channel = new BroadcastChannel(CHANNEL);
  if (!token) {
    token = await new Promise((resolve) => {
      channel.onmessage = ({ data }) => data.token && resolve(data.token);
      channel.postMessage({ ask: true });
      setTimeout(() => resolve(null), 300);
    });
  }
  if (token) {
    useToken(token);
    channel.onmessage = ({ data }) => data.ask && channel.postMessage({ token });
  }
  return token;
}

/** Sets a token entered by the user. */
export function useToken(found) {
  token = found;
  sessionStorage.setItem(KEY, found);
}

/** A refusal by the server; `key` and `alternative` locate its cause. */
export class Refusal extends Error {
  constructor({ error, key = null, alternative = null }, status) {
    super(error);
    Object.assign(this, { key, alternative, status });
  }
}

/** As `fetch`, but repeats a request once if its connection failed: requests have no side effects. */
async function fetchTwice(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return fetch(address, options);
  }
}

async function send(path, body, signal) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetchTwice(`/api/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  if (!answer.ok) {
    let reason = { error: `${answer.status} ${answer.statusText}` };
    try {
      reason = await answer.json();
    } catch {
      // Not from our server: the status has to do.
    }
    throw new Refusal(reason, answer.status);
  }
  return answer;
}

export const ask = async (path, body, signal) => (await send(path, body, signal)).json();
export const askBlob = async (path, body) => (await send(path, body)).blob();

/** Server-sent events of a request, one after the other. */
export async function* events(path, body, signal) {
  const answer = await send(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const parts = rest.split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const data = JSON.parse(part.slice(part.indexOf("\ndata: ") + 7));
        if (data.event === "refused") throw new Refusal(data, 422);
        yield data;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const ARRAYS = { f8: Float64Array, u1: Uint8Array, u2: Uint16Array, f4: Float32Array };

/** The columns of a look inside: the head, and `columns` by name as typed arrays. */
export async function columns(path, body, signal) {
  const buffer = await (await send(path, body, signal)).arrayBuffer();
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const found = {};
  for (const [name, kind, at, count] of head.columns) {
    found[name] = new ARRAYS[kind](buffer, 8 + length + at, count);
  }
  return { ...head, columns: found };
}
