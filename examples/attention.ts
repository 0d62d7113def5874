// TypeScript with the types of attentiond.d.ts. usage: tsx attention.ts [URL], or tsc and node
import type { AttentionReply, AttentionRequest, Problem } from "./attentiond";

declare const process: { argv: string[]; env: Record<string, string | undefined> };
const url = process.argv[2] ?? process.env.ATTENTIOND_URL ?? "http://127.0.0.1:8080";

async function attention(request: AttentionRequest): Promise<AttentionReply | Problem> {
  const reply = await fetch(`${url}/attention`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  return (await reply.json()) as AttentionReply | Problem;
}

const isProblem = (reply: AttentionReply | Problem): reply is Problem => "code" in reply;

function show(reply: AttentionReply | Problem) {
  if (isProblem(reply)) {
    console.log(`${reply.status} ${reply.code} at ${reply.pointer}: ${reply.detail}`);
  } else {
    for (const row of reply.output as number[][]) console.log(row.map((number) => number.toFixed(6)).join(" "));
  }
}

async function main() {
  // The worked example: two queries, two keys and two values of three columns.
  show(await attention({ q: [[2, 0, 1], [0, 2, 1]], k: [[1, 1, 0], [0, 1, 1]], v: [[1, 0, 1], [0, 1, 0]] }));
  // The query has two columns, but the key has three.
  show(await attention({ q: [[2, 0]], k: [[1, 1, 0]], v: [[1, 0, 1]] }));
}

main();
