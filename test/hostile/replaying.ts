/** Replays lines by the command line, against a server that answers each request with the captured reply. */
import { hash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { payloadBytes } from '../../src/captures/payload/captured-data.ts';
import { literalRequest } from '../../src/replay/request/literal.ts';
import type { SkippedLine } from '../../src/replay/source/types.ts';
import { ReplayFolder, type ReplayRecord, readLines, runCli } from '../helpers/replay.ts';
import { replayCompared } from '../helpers/replay-compared.ts';
import { type Serving, serve } from '../helpers/serve.ts';

const digest = (bytes: Buffer): string => hash('sha256', bytes);

interface Reply {
  contentType: string | undefined;
  bytes: Buffer;
}

/** Starts a server that sends the captured reply to each request, first a few bytes at a time. */
async function startEcho(replies: ReadonlyMap<string, Reply>): Promise<Serving> {
  const echo = await serve(async (request, response) => {
    const reply = replies.get(digest(await buffer(request)));
    response.writeHead(
      reply === undefined ? 404 : 200,
      reply?.contentType === undefined ? {} : { 'content-type': reply.contentType },
    );
    const bytes = reply?.bytes ?? Buffer.alloc(0);
    for (const [from, to] of [
      [0, 1],
      [1, 7],
      [7, 40],
      [40, bytes.length],
    ] as const) {
      if (from < bytes.length) response.write(bytes.subarray(from, to));
    }
    response.end();
  });
  // Longer than the pauses of a busy machine: a connection that closes while a request is in flight is a failure.
  echo.server.keepAliveTimeout = 120_000;
  return echo;
}

export interface ReplayOutcome {
  records: ReplayRecord[];
  skipped: SkippedLine[];
}

/** Runs the work with a file of the lines and a server with their replies. */
async function withEcho<T>(
  lines: readonly Buffer[],
  work: (source: string, url: string, folder: string) => Promise<T>,
): Promise<T> {
  const { url, close } = await startEcho(repliesOf(lines));
  const folder = new ReplayFolder();
  try {
    const source = folder.write('captures.jsonl', []);
    writeFileSync(source, Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\n')])));
    return await work(source, `${url}/`, folder.path);
  } finally {
    await close();
  }
}

function repliesOf(lines: readonly Buffer[]): Map<string, Reply> {
  const replies = new Map<string, Reply>();
  for (const line of lines) {
    const literal = literalRequest(line);
    if (literal.kind === 'skipped') continue;
    const { body, capturedReply: side } = literal.request;
    const bytes = side === undefined ? Buffer.alloc(0) : payloadBytes(side);
    const type = (side as { observedContentType?: unknown } | null | undefined)?.observedContentType;
    const isHeader = typeof type === 'string' && /^[\x20-\x7e]{1,200}$/.test(type);
    if (Buffer.isBuffer(bytes)) replies.set(digest(body), { bytes, contentType: isHeader ? type : undefined });
  }
  return replies;
}

/** Reads a file that exists only if a line was skipped. */
const skippedIn = (results: string): SkippedLine[] =>
  existsSync(join(results, 'skipped.jsonl')) ? readLines<SkippedLine>(join(results, 'skipped.jsonl')) : [];

/** Replays the lines at full speed by the command line, compares the replies with the captured ones, and the run with itself. */
export const throughReplay = (
  lines: readonly Buffer[],
): Promise<ReplayOutcome & { stderr: string; comparison: number | null }> =>
  withEcho(lines, async (source, url, folder) => {
    const results = join(folder, 'results');
    const args = ['--url', url, '--concurrency', '4', '--compare', '--timeout', '30', '-o', results];
    const { stderr } = await runCli(['replay', source, ...args]);
    const comparison = await runCli(['compare', results, results, '-o', join(folder, 'comparison')]);
    return {
      stderr: `${stderr}${comparison.stderr}`,
      records: readLines<ReplayRecord>(join(results, 'profile_export.jsonl')),
      skipped: skippedIn(results),
      comparison: comparison.code,
    };
  });

/** Replays the lines in this process, without the second comparison. */
export const throughOwnReplay = (lines: readonly Buffer[]): Promise<ReplayOutcome> =>
  withEcho(lines, async (source, url, folder) => {
    const results = join(folder, 'results');
    const outcome = await replayCompared(source, url, results, { concurrency: 2, timeout: 30 });
    return { records: outcome.records, skipped: skippedIn(results) };
  });
