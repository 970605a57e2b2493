// Requests to the server. What fails is an Error with a message.

async function answer(response) {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("application/json")) throw new Error((await response.text()).trim() || response.statusText);
  const data = await response.json();
  if (data.error) throw new Error([data.error.what, data.error.remedy].filter(Boolean).join(" — "));
  return data;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer; is edgebench serve still running?");
  }
  return answer(response);
}

export const get = (path) => ask(path);

export const post = (path, body = {}) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
