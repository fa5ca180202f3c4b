/** Replays against real servers whose replies say nothing, and decides a release gate on them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { compareRuns } from '../../src/replay/compare/compare-runs.ts';
import { judgeReplies } from '../../src/replay/compare/judge-replies.ts';
import { readRun } from '../../src/replay/compare/run-data.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { parseThreshold } from '../../src/replay/gate/thresholds.ts';
import { captureLine, chatLine, chatReply, ReplayFolder, replay } from '../helpers/replay.ts';
import { replayCompared } from '../helpers/replay-compared.ts';
import { type Serving, serve } from '../helpers/serve.ts';

interface Served {
  status?: number;
  type?: string;
  body: string | Buffer;
}

const EVENTS = 'text/event-stream';
const choice = (message: unknown): string =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    model: 'm',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 },
  });
const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (choices: unknown[], more: object = {}): string =>
  event({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model: 'm', choices, ...more });
const DONE = 'data: [DONE]\n\n';

/**
 * Replies to a chat that say nothing. AIPerf 0.13 counts those of OpenAI's form as `InvalidInferenceResultError`, apart from
 * the part without text, and it knows no other form.
 */
const SAYS_NOTHING: Record<string, Served> = {
  'an empty body': { body: '' },
  'a 204': { status: 204, body: '' },
  'spaces only': { body: ' \n\t ' },
  '{}': { body: '{}' },
  '[]': { body: '[]' },
  null: { body: 'null' },
  'a list of nothing': { body: '[[], {}, null, ""]' },
  'no choices': { body: '{"choices":[]}' },
  'an envelope without choices': {
    body: '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9}}',
  },
  'a choice without a message': { body: '{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}' },
  'an empty message': { body: choice({ role: 'assistant' }) },
  'an empty content': { body: choice({ role: 'assistant', content: '', tool_calls: [] }) },
  'no content': { body: choice({ role: 'assistant', content: null, refusal: null }) },
  'an empty list of parts': { body: choice({ role: 'assistant', content: [] }) },
  'a part without text': { body: choice({ role: 'assistant', content: [{ type: 'text', text: '' }] }) },
  'an empty text': { body: '{"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"stop"}]}' },
  'an empty generation': { body: '[{"generated_text":""}]' },
  'an empty message of Anthropic': {
    body: '{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}',
  },
  'an empty response of OpenAI': { body: '{"id":"r","object":"response","status":"completed","output":[]}' },
  'an empty list of embeddings': { body: '{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":9}}' },
  'an empty stream': { type: EVENTS, body: '' },
  'a stream that is over at once': { type: EVENTS, body: DONE },
  'a stream with comments only': { type: EVENTS, body: ': waiting\n\n: waiting\n\n' },
  'an empty text of Triton': { body: '{"model_name":"m","model_version":"1","text_output":""}' },
  'a stream with a role only': { type: EVENTS, body: chunk([{ index: 0, delta: { role: 'assistant' } }]) + DONE },
  'a stream with usage only': { type: EVENTS, body: chunk([], { usage: { completion_tokens: 0 } }) + DONE },
};

/** Replies that have content, whatever else they lack. */
const SAYS_SOMETHING: Record<string, Served> = {
  reasoning: { body: choice({ role: 'assistant', content: '', reasoning_content: 'Hm.' }) },
  'a tool call': {
    body: choice({ role: 'assistant', content: null, tool_calls: [{ type: 'function', function: { name: 'f' } }] }),
  },
  'the other choice': { body: '{"choices":[{"message":{"content":""}},{"message":{"content":"Hi."}}]}' },
  'an image': { body: Buffer.from([0x89, 0x50, 0x4e, 0x47]), type: 'image/png' },
  'a number': { body: '0' },
  'no class': { body: '{"predictions":[false]}' },
  numbers: { body: '0.5,0.25', type: 'text/csv' },
  // As AIPerf counts it. The comparison finds it.
  'a content of spaces': { body: choice({ role: 'assistant', content: '  ' }) },
  'a streamed piece of reasoning': {
    type: EVENTS,
    body: chunk([{ index: 0, delta: { role: 'assistant', reasoning: 'Hm.' } }]) + DONE,
  },
};

/** Documents beside whose facts no words are. They may be predictions, so that only the comparison finds them. */
const NO_WORDS: Record<string, Served> = {
  'an envelope without the list': { body: '{"id":"chatcmpl-1","object":"chat.completion","created":1,"usage":{}}' },
  'an output without a message': { body: '{"output":{},"stopReason":"end_turn","usage":{"inputTokens":9}}' },
  'no results': { body: '{"inputTextTokenCount":9,"results":[]}' },
  'no generations, and the prompt': { body: '{"id":"1","generations":[],"prompt":"Where is the parcel?"}' },
  'a status': { body: '{"result":[],"success":true}' },
  'a number': { body: '0' },
  'a stream of pings': { type: EVENTS, body: event({ type: 'heartbeat' }) + DONE },
};

const NORMAL: Served = { body: chatReply('The parcel arrives on Monday.') };
const REQUESTS = 320;
const GATE = ['request_latency:p95:10%', 'error_rate:1', 'newly_failing:0', 'regressed:2'];

let folder: ReplayFolder;
let server: Serving;
/** The reply to each request, by its number. */
let replyTo: (request: number) => Served;
let runs = 0;

beforeEach(async () => {
  folder = new ReplayFolder();
  server = await serve(async (request, response) => {
    const number = Number(/number (\d+)/.exec(await text(request))?.[1] ?? 0);
    const { status = 200, type = 'application/json', body } = replyTo(number);
    response.writeHead(status, status === 204 ? {} : { 'content-type': type }).end(body);
  });
});
afterEach(() => server.close());

const chats = (count = REQUESTS): string =>
  folder.write(
    'chats.jsonl',
    Array.from({ length: count }, (_, i) => chatLine(`e-${i}`, 0, `number ${i}`, 'The parcel arrives on Monday.')),
  );

/** Replays the captures, with or without `--compare`. */
async function run(captures: string, served: (request: number) => Served, compares = true) {
  replyTo = served;
  const out = join(folder.path, `run-${runs++}`);
  const given = [captures, `${server.url}/v1/chat/completions`, out, { concurrency: 16 }] as const;
  const { records, captured } = compares
    ? await replayCompared(...given)
    : { ...(await replay(...given)), captured: undefined };
  return { out, records, captured, failed: records.filter(({ error }) => error) };
}

/** A judge that must not be asked. */
const noJudge = {
  sourceId: 'judge',
  judge: () => Promise.reject(new Error('no pair needs the judge')),
} as never;

async function gateOf(before: string, after: string, thresholds: readonly string[], judged = false) {
  const judging = judged ? (...args: [never, never]) => judgeReplies(args[0], { judge: noJudge }, args[1]) : undefined;
  const { comparison, data } = await compareRuns(await readRun(before), await readRun(after), judging as never);
  const { outcome, thresholds: results } = decideGate(thresholds.map(parseThreshold), data);
  return { comparison, outcome, results: Object.fromEntries(results.map((one) => [one.threshold, one.outcome])) };
}

describe('replies to a chat', () => {
  test.each(Object.entries(SAYS_NOTHING))('%s is an error', async (_, served) => {
    const { failed, records } = await run(chats(2), () => served, false);
    expect(records).toHaveLength(2);
    expect(failed.map(({ error }) => error)).toEqual(
      records.map(() => ({
        type: 'InvalidInferenceResultError',
        message: 'Invalid inference result: the reply has no content',
      })),
    );
    expect(records[0]?.metrics.request_latency).toBeUndefined();
  });

  test.each(Object.entries(SAYS_SOMETHING))('%s is content', async (_, served) => {
    expect((await run(chats(1), () => served, false)).failed).toEqual([]);
  });
});

describe('a release gate', () => {
  const dead = Object.entries({
    ...SAYS_NOTHING,
    ...NO_WORDS,
    'invisible characters': { body: choice({ role: 'assistant', content: '\u200b\ufeff' }) },
    'reasoning only': SAYS_SOMETHING.reasoning as Served,
    'spaces in the content': SAYS_SOMETHING['a content of spaces'] as Served,
    'a page of the web server': { type: 'text/html', body: 'Welcome to nginx!' },
  });

  test('fails every candidate that says nothing', async () => {
    const count = 40;
    const captures = chats(count);
    const base = await run(captures, () => NORMAL);
    const outcomes: Record<string, unknown> = {};
    for (const [name, served] of dead) {
      const candidate = await run(captures, () => served);
      const { outcome, results } = await gateOf(base.out, candidate.out, GATE);
      outcomes[name] = [outcome, results['regressed:2'], candidate.captured?.quality.regressed];
    }
    expect(outcomes).toEqual(Object.fromEntries(dead.map(([name]) => [name, ['failed', 'failed', count]])));
  });

  test.each(Object.entries(NO_WORDS))('counts %s as worse without asking the judge', async (_, served) => {
    const captures = chats();
    const [base, candidate] = [await run(captures, () => NORMAL), await run(captures, () => served)];
    const { results } = await gateOf(base.out, candidate.out, ['judged_worse:5'], true);
    expect(results).toEqual({ 'judged_worse:5': 'failed' });
  });

  test('counts an empty reply as worse without asking the judge', async () => {
    const captures = chats();
    const base = await run(captures, () => NORMAL);
    const partly = await run(captures, (i) => (i % 5 < 2 ? { body: choice({ content: '' }) } : NORMAL));
    const { comparison, results } = await gateOf(base.out, partly.out, ['judged_worse:5', 'regressed:2'], true);
    expect(results).toEqual({ 'judged_worse:5': 'failed', 'regressed:2': 'failed' });
    expect(comparison).toMatchObject({
      judgeUsd: 0,
      quality: {
        regressed: 128,
        regressions: { 'newly-failing': 128, 'empty-reply': 128 },
        comparable: { equal: 192, differing: 0, emptied: 128 },
      },
    });
  });
});

describe('a detector that finds nothing', () => {
  const found = (i: number): string => (i % 2 === 0 ? '[]' : '[{"box":[1,2,3,4],"score":0.9}]');
  const images = (replyOf: (i: number) => string | undefined): string =>
    folder.write(
      'images.jsonl',
      Array.from({ length: REQUESTS }, (_, i) => {
        const reply = replyOf(i);
        return captureLine(
          `e-${i}`,
          0,
          { data: `{"image":"number ${i}"}` },
          reply === undefined ? reply : { data: reply },
        );
      }),
    );
  const likewise = (i: number): Served => ({ body: found(i) });

  test.each([true, false])('passes where its captured reply is the same (compare: %s)', async (compares) => {
    const captures = images(found);
    const [base, again] = [await run(captures, likewise, compares), await run(captures, likewise, compares)];
    expect([base.failed, again.failed]).toEqual([[], []]);
    const thresholds = compares ? GATE.slice(1) : GATE.slice(1, 3);
    expect((await gateOf(base.out, again.out, thresholds)).outcome).toBe('passed');
    if (compares) expect(again.captured?.quality).toMatchObject({ same: REQUESTS, regressed: 0 });
  });

  test('fails where something was found, or where it says nothing at all', async () => {
    const captures = images(found);
    const base = await run(captures, likewise);
    for (const served of [{ body: '[]' }, { body: '' }, { body: '{}' }]) {
      const candidate = await run(captures, () => served);
      expect(candidate.failed).toHaveLength(served.body === '[]' ? REQUESTS / 2 : REQUESTS);
      expect((await gateOf(base.out, candidate.out, GATE)).outcome).toBe('failed');
    }
  });

  test('a chat that was empty when it was captured is no regression', async () => {
    const empty = choice({ role: 'assistant', content: '' });
    const captures = folder.write('empty.jsonl', [captureLine('e', 0, { data: '{"messages":[]}' }, { data: empty })]);
    const other = await run(captures, () => ({ body: empty.replace('chatcmpl-1', 'chatcmpl-2') }));
    expect(other.captured?.quality).toMatchObject({ status: { 'both-failed': 1 }, regressed: 0 });
    const same = await run(captures, () => ({ body: empty }));
    expect(same.failed).toEqual([]);
    expect(same.captured?.quality).toMatchObject({ status: { 'both-ok': 1 }, same: 1 });
    expect(JSON.parse(readFileSync(join(same.out, 'replies.jsonl'), 'utf8'))).toMatchObject({ reply: { ok: true } });
  });
});
