// JavaScript with fetch: Node 18 or newer, Deno, Bun, and browsers without the first line.
// usage: node fetch.mjs [URL]
const url = process.argv[2] ?? process.env.ATTENTIOND_URL ?? "http://127.0.0.1:8080";

class Problem extends Error {
  constructor(document) {
    super(document.detail);
    Object.assign(this, document);
  }
}

async function attention(request) {
  const reply = await fetch(`${url}/attention`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  const document = await reply.json();
  if (!reply.ok) throw new Problem(document);
  return document;
}

// The worked example: two queries, two keys and two values of three columns.
const { output } = await attention({
  q: [[2, 0, 1], [0, 2, 1]], k: [[1, 1, 0], [0, 1, 1]], v: [[1, 0, 1], [0, 1, 0]],
});
for (const row of output) console.log(row.map((number) => number.toFixed(6)).join(" "));

// The query has two columns, but the key has three.
try {
  await attention({ q: [[2, 0]], k: [[1, 1, 0]], v: [[1, 0, 1]] });
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  console.log(`${error.status} ${error.code} at ${error.pointer}: ${error.detail}`);
}
