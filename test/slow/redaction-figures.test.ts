/**
 * Masking changes texts, and no figure: the same captures and labels go through a stack that does not mask and one that does, and then
 * again through the first one, after it was told to mask.
 */
import type { GroundTruthOutput } from '../../bin/commands/ground-truth.ts';
import type { RatesOutput } from '../../bin/commands/rates.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import type { TruthRunSummary } from '../../src/core/contract/ground-truth.ts';
import { REDACT_KINDS } from '../../src/core/settings/redact-setting.ts';
import { captureLine, chatReply, chatRequest, csv, json } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { type DeployedReader, startDeployedReader } from '../helpers/deployed-reader.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { MlflowApi } from '../helpers/mlflow-api.ts';
import { plantedItems } from '../helpers/planted.ts';
import { runCli } from '../helpers/replay.ts';

const MASKED = { REDACT: `${REDACT_KINDS.join(',')},field:customer` };
const HOUR = new Date(Date.now() - 10 * 60_000).toISOString().slice(0, 13);
const time = (at: number): string => `${HOUR}:00:${String(at).padStart(2, '0')}Z`;

const WITH_ITEMS = REDACT_KINDS.length * 2;

/** Replies that the judge double finds good, rude, refusing, or cut off, for words that are no personal data. */
const ODD = ['Roses grow in sun, you idiot.', "Roses? I can't help."];
const REPLIES = ['Roses grow in sun.', ...ODD, 'Roses grow where it is'];
const CHATS = [...plantedItems(WITH_ITEMS, 31), { sentence: 'Thanks a lot, dear gardeners.' }, { sentence: '' }].map(
  ({ sentence }, at) => {
    const request = { ...chatRequest(`Where do roses grow? ${at % 2 ? sentence : ''}`), customer: 'Zaphodia' };
    const reply = chatReply(`${at % 2 ? '' : `${sentence} `}${REPLIES[at % REPLIES.length]}`);
    const [first = '', second = ''] = [sentence.slice(0, 9), `${sentence.slice(9)} Roses grow in sun.`];
    const pieces = [first, second].map((content) => ({ choices: [{ index: 0, delta: { content } }] }));
    const stream = csv(`${pieces.map((piece) => `data: ${JSON.stringify(piece)}\n\n`).join('')}data: [DONE]\n\n`);
    return captureLine(
      `chat-${at}`,
      time(at),
      json(request),
      at % 5 === 4 ? { ...stream, contentType: at % 2 ? 'text/event-stream' : 'text/csv' } : json(reply),
    );
  },
);

/** A model that chooses who answers a letter: classes, and ids of callers, are addresses or plain words. */
const CLASSES = ['ann@example.com', 'bob@example.com', 'desk'];
const ROWS = Array.from({ length: 40 }, (_, at) => ({
  id: [`writer${at}@example.org`, `192.0.2.${at + 1}`, `letter-${at}`, `+49 30 12345${at + 10}`][at % 4] ?? '',
  predicted: CLASSES[at % 3],
  label: CLASSES[(at % 7 === 0 ? at + 1 : at) % 3],
}));
const LETTERS = ROWS.map(({ id, predicted }, at) => {
  const reply = json({ predicted_label: predicted, score: 0.9 });
  const record = JSON.parse(captureLine(`letter-${at}`, time(at), json({ features: [at, at * 2] }), reply));
  record.eventMetadata.inferenceId = id;
  return JSON.stringify(record);
});
const LINES = [...CHATS, ...LETTERS];

const labelOf = ({ id, label }: { id: string; label: string | undefined }): string => JSON.stringify({ id, label });
const EARLY = [
  ...ROWS.slice(0, 25).map(labelOf),
  // One is replaced, one is repeated, one waits, and one is no label.
  labelOf({ id: ROWS[4]?.id ?? '', label: CLASSES[2] }),
  ...ROWS.slice(8, 9).map(labelOf),
  labelOf({ id: 'nobody@example.org', label: CLASSES[0] }),
  '{"id": "writer0@example.org", "label": ["ann@example.com"]}',
];
const LATE = ['inference_id;label', ...ROWS.slice(20).map(({ id, label }) => `${id};${label}`)];

let environment: LocalEnvironment;
let reader: DeployedReader;

beforeAll(async () => {
  environment = await startEnvironment();
  await environment.mlflow;
  reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
});
afterAll(async () => {
  reader?.stop();
  await environment?.stop();
});

/** Addresses and what stands for them are the same, in any order. */
const bare = (value: unknown): unknown =>
  sorted(JSON.parse(JSON.stringify(value).replaceAll(/<email:\w+>|(?:ann|bob)@example\.com/g, '<email>')));
const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted).toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, sorted(inner)]))
      : value;

/** What these measure is the text itself. */
const OF_TEXT = ['response_length', 'response_words', 'request_language', 'reply_language'];
const isFigure = ({ scorer }: { scorer: string }): boolean => !OF_TEXT.includes(scorer);

async function stackOf(prefix: string, settings: Record<string, string>) {
  const name = `${prefix}-endpoint`;
  const outputs = await environment.deployStack({
    STACK_PREFIX: prefix,
    EVALUATION_SAMPLE_RATE: '1',
    SAGEMAKER_ENDPOINT_NAME: name,
    BATCH_WINDOW_SECONDS: '0',
    GROUND_TRUTH_S3_PREFIX: `s3://${CAPTURE_BUCKET}/${prefix}-labels/`,
    ...settings,
  });
  const pipeline = new DeployedPipeline(environment, prefix, outputs);
  const truth = new DeployedPipeline(environment, prefix, {
    ...outputs,
    stateMachineArn: outputs.groundTruthStateMachineArn,
  });
  const key = `${name}/AllTraffic/${HOUR.replaceAll(/[-T]/g, '/')}/first.jsonl`;
  const variables = { ...environment.ministack.env, STACK_PREFIX: prefix, ...settings };
  const printed = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { stdout, stderr, code } = await runCli([...args, '--from', '1d', '--json'], variables);
    expect({ args, code, stderr }).toMatchObject({ code: 0 });
    return JSON.parse(stdout);
  };
  return {
    captures: async () => expect(await pipeline.process(key, LINES)).toMatchObject({ status: 'SUCCEEDED' }),
    labels: async (file: string, lines: readonly string[]) => {
      const run = await truth.process(`${prefix}-labels/${file}`, lines);
      expect({ status: run.status, cause: run.cause }).toMatchObject({ status: 'SUCCEEDED' });
      const [summary] = await truth.readWork<TruthRunSummary>(`ground-truth/runs/${run.name}/summary.json`);
      const { quality, waiting } = (await printed('ground-truth')) as unknown as GroundTruthOutput;
      const joined = { waiting: waiting.labels, labels: summary?.counts, noted: summary?.noted };
      const [group] = quality?.groups ?? [];
      const accuracy = group?.measures && 'accuracy' in group.measures ? group.measures.accuracy : undefined;
      return { joined, accuracy, groups: bare(quality?.groups) };
    },
    /** What MLflow has, by the captures' places in the file, and the rates. */
    figures: async () => {
      const { assessments, wrong: _, ...counts } = await reader.compare(CAPTURE_BUCKET, name, [key]);
      const experiment = await new MlflowApi(environment.mlflowUrl).experimentId(name);
      const ids = LINES.map((line) => traceIdOf(experiment, Buffer.from(line)));
      expect(Object.keys(assessments).toSorted()).toEqual(ids.toSorted());
      const verdicts = ids.map((id, at) =>
        (assessments[id] ?? [])
          .map(({ name: scorer, value, error, source }) => ({ scorer, value, error, source }))
          .filter((verdict) => at >= WITH_ITEMS || isFigure(verdict)),
      );
      const { groups } = (await printed('rates')) as unknown as RatesOutput;
      return { ids, counts, verdicts: sorted(verdicts), rates: groups.map(({ rates }) => rates.filter(isFigure)) };
    },
  };
}

test('verdicts, joins and figures are the same with and without masking, and after switching on', async () => {
  const [plain, masked] = [await stackOf('plain', {}), await stackOf('hidden', MASKED)];
  await Promise.all([plain.captures(), masked.captures()]);
  const early = await plain.labels('early.jsonl', EARLY);
  expect(early.joined).toMatchObject({
    waiting: 1,
    labels: { lines: 29, joined: 25, replaced: 1, repeated: 1, invalid: 1 },
  });
  expect(await masked.labels('early.jsonl', EARLY)).toEqual(early);
  const { ids, ...figures } = await plain.figures();
  expect(figures.counts).toMatchObject({ lines: LINES.length, traced: LINES.length, missing: [], extra: [] });
  const values = (scorer: string): Set<unknown> =>
    new Set(
      (figures.verdicts as { scorer: string; value: unknown }[][])
        .flat()
        .filter((one) => one.scorer === scorer)
        .map(({ value }) => value),
    );
  for (const scorer of ['pii_detected', 'refusal', 'professional_tone']) expect(values(scorer).size).toBe(2);
  const { ids: _, ...beside } = await masked.figures();
  expect(beside).toEqual(figures);

  const switched = await stackOf('plain', MASKED);
  await switched.captures();
  expect(await switched.figures()).toEqual({ ids, ...figures });
  // Predictions that were written in words are joined, and are right, by labels that are kept masked. A class that labels named
  // before and after has two names.
  const late = await masked.labels('late.csv', LATE);
  expect(late.joined).toMatchObject({ waiting: 1, labels: { joined: 15, repeated: 5, replaced: 0 } });
  const { groups: __, ...same } = late;
  expect(await switched.labels('late.csv', LATE)).toMatchObject(same);
});
