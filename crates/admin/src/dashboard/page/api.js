// Requests to the dashboard's server, with its token.

const NAME = "scalebricks-token";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

let token = null;

// Takes the token of the address, which the command printed, out of the address; or the one of this tab.
export function findToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    useToken(given);
  } else token = sessionStorage.getItem(NAME);
}

export function useToken(text) {
  token = text;
  sessionStorage.setItem(NAME, text);
}

export async function ask(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { Authorization: `Bearer ${token ?? ""}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
    cache: "no-store",
  });
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, String(value?.error ?? `${answer.status} ${answer.statusText}`));
  if (value === null) throw new Error("an answer was cut off");
  return value;
}
