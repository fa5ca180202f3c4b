/** Runs one case of the fuzzer. Throws when an expectation is violated. */
import { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import { PipelineError } from '../../src/core/errors/errors.ts';
import { startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { answerText, type JudgeAnswer, type ServerReply } from './arbitraries.ts';
import { goodLine } from './lines.ts';
import { assertGoodOnesWhole, goodAnswer, throughPipeline } from './pipeline.ts';
import { throughOwnReplay } from './replaying.ts';

export type Case =
  | { kind: 'capture'; line: string; version: '3.17.2' | '3.10.1' }
  | { kind: 'replay'; line: string }
  | { kind: 'answer'; answer: JudgeAnswer }
  | { kind: 'mlflow'; reply: ServerReply; version: '3.17.2' | '3.10.1' }
  | { kind: 's3'; reply: ServerReply };

export async function runCase(one: Case): Promise<void> {
  switch (one.kind) {
    case 'capture': {
      const lines = [goodLine(0), Buffer.from(one.line), goodLine(1)];
      return assertGoodOnesWhole(await throughPipeline(lines, { version: one.version }), [0, 2]);
    }
    case 'answer':
      return judged(one.answer);
    case 'replay':
      return replayed(Buffer.from(one.line));
    case 'mlflow':
      return named(() => throughPipeline([goodLine(0), goodLine(1)], { version: one.version, mlflow: one.reply }));
    case 's3':
      return readFromS3(one.reply);
  }
}

async function judged(answer: JudgeAnswer): Promise<void> {
  const told = { stop: answer.stop, stopReason: answer.stop, usage: answer.usage };
  const { evaluate, log } = await throughPipeline([goodLine(0), goodLine(1)], {
    answer: (ask) => ({ text: answerText(goodAnswer(ask), answer), ...told }),
  });
  const owed = log.counts.traced * evaluate.scorers;
  const total = Object.values(evaluate.counts).reduce((sum, count) => sum + count, 0);
  if (log.counts.traced !== 2 || total !== owed) throw new Error(`${total} of ${owed} verdicts are accounted for`);
  const { usd, inputTokens, outputTokens } = evaluate.spend;
  if (![usd, inputTokens, outputTokens].every((number) => number !== null && Number.isFinite(number) && number >= 0)) {
    throw new Error(`impossible spend: ${JSON.stringify(evaluate.spend)}`);
  }
}

async function replayed(line: Buffer): Promise<void> {
  const outcome = await throughOwnReplay([goodLine(0), line, goodLine(1)]);
  const good = outcome.records.filter(
    ({ metadata, error }) => String(metadata.event_id ?? '').startsWith('good-') && error === undefined,
  );
  if (outcome.records.length + outcome.skipped.length !== 3 || good.length < 2) {
    throw new Error(
      `${outcome.records.length} records, ${good.length} good ones, skipped: ${JSON.stringify(outcome.skipped)}`,
    );
  }
}

/** Runs the work. It must succeed or fail with a named error, whatever the server replies. */
async function named(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof PipelineError)) throw error;
  }
}

const CONTENT = Buffer.from('{"a":1}\n'.repeat(100));

async function readFromS3({ ordinal, status, contentType, body }: ServerReply): Promise<void> {
  let seen = 0;
  const whole = {
    kind: 'reply',
    status: 200,
    headers: { 'content-length': String(CONTENT.length), etag: '"e"' },
    body: CONTENT,
  } as const;
  const server = await startMisbehavingServer({
    rule: () => {
      seen += 1;
      return seen - 1 === ordinal % 2
        ? { kind: 'reply', status, headers: { 'content-type': contentType }, body }
        : whole;
    },
  });
  const s3 = new S3Client({
    endpoint: server.url,
    region: 'eu-west-1',
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
  });
  try {
    const storage = new Storage(s3);
    await named(async () => {
      const stream = await storage.read({ bucket: 'b', key: 'k', etag: 'e', size: CONTENT.length });
      const parts: Buffer[] = [];
      for await (const part of stream) parts.push(part as Buffer);
      const got = Buffer.concat(parts);
      if (!got.equals(CONTENT)) throw new Error(`read ${got.length} bytes that are not the file's ${CONTENT.length}`);
    });
    await named(() => storage.getJson('b', 'k.json'));
    await named(async () => {
      for await (const _ of storage.list('b', 'p/')) break;
    });
  } finally {
    s3.destroy();
    await server.stop();
  }
}
