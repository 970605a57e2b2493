// Requests to the server. What fails is an Error with a message.
//
// The token comes once, in the address's fragment, which is sent to nobody. It is kept for this tab
// and goes in a header: a browser sends cookies to every port of a host, other users' servers too.

import { byId, el } from "./dom.js";

function takeToken() {
  const [, token, view] = location.hash.match(/^#token=([\w-]+)\/?(.*)/) ?? [];
  if (!token) return false;
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", view ? `#${view}` : "/");
  return true;
}

takeToken();
window.addEventListener("hashchange", () => takeToken() && location.reload());

async function request(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("the server does not answer; is edgebench serve still running?");
  }
  byId("no-token").hidden = response.status !== 401;
  byId("main").hidden = response.status === 401;
  if (response.ok || response.headers.get("content-type")?.startsWith("application/json")) return response;
  const refused = response.status === 401 ? "The page has no token, or an old one." : (await response.text()).trim();
  throw Object.assign(new Error(refused || response.statusText), { refused: true });
}

async function ask(path, options) {
  const data = await (await request(path, options)).json();
  if (data.error) throw new Error([data.error.what, data.error.remedy].filter(Boolean).join(" — "));
  return data;
}

export const get = (path) => ask(path);

export const post = (path, body = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export async function download(path, name) {
  const href = URL.createObjectURL(await (await request(path)).blob());
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href));
}

// Server-sent events, each as its kind and its data. An EventSource sends no header.
export async function* events(path, signal) {
  const { body } = await request(path, { signal });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const [, kind, data] = part.match(/^event: (.*)\ndata: (.*)$/);
        yield [kind, JSON.parse(data)];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
