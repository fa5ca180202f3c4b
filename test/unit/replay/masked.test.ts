/** A replay sends the captured bytes, and keeps nothing of them that is to be masked. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { decodeLine } from '../../../src/captures/decode.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import { type Redaction, redactRules } from '../../../src/core/settings/redact-setting.ts';
import { capturedReplies } from '../../../src/replay/compare/with-captured.ts';
import { dryRun } from '../../../src/replay/dry-run.ts';
import { DEFAULT_OPTIONS } from '../../../src/replay/options.ts';
import { EXCHANGES_FILE, exchangeFile } from '../../../src/replay/publish/exchanges.ts';
import { keepMasked, type Masking } from '../../../src/replay/request/keep.ts';
import { indexCaptures } from '../../../src/replay/source/index-captures.ts';
import { localFiles } from '../../../src/replay/source/open-source.ts';
import { captureLine, chatBody, chatLine, chatReply, ReplayFolder, replay } from '../../helpers/replay.ts';
import { type Serving, serve } from '../../helpers/serve.ts';

const MAIL = 'jane.doe@example.com';
const SAID = `Hello\n${MAIL}`;
const redaction = (content: 'all' | 'none'): Redaction => ({
  ...redactRules('email'),
  ...{ allow: [], content, key: 'a key', keyVersion: '1' },
});

let server: Serving;
let folder: ReplayFolder;
const received: string[] = [];
beforeEach(async () => {
  folder = new ReplayFolder();
  received.length = 0;
  server = await serve(async (request, response) => {
    const body = (await buffer(request)).toString();
    received.push(body);
    const status = body.includes('fail') ? 500 : 200;
    const type = body.includes('with a type') ? { type: `of ${MAIL}` } : {};
    const failure = { error: { message: `no ${SAID}`, ...type } };
    response.writeHead(type.type ? 200 : status, { 'content-type': 'application/json' });
    response.end(status === 500 ? JSON.stringify(failure) : chatReply(`New ${SAID}`));
  });
});
afterEach(() => server.close());

/** Replays, and returns the content of all files. */
async function kept(
  content: 'all' | 'none' | undefined,
  odd: readonly string[] = [],
  masking: Masking = {},
): Promise<{ files: string; exchanges: string[] }> {
  const source = folder.write('a.jsonl', [
    chatLine('a', 0, SAID, `Old ${SAID}`),
    chatLine('b', 0, `fail ${SAID}`),
    captureLine(
      'c',
      0,
      { data: `a text of ${MAIL}`, encoding: 'CSV', contentType: 'text/plain' },
      { data: chatBody(SAID) },
    ),
    ...odd,
  ]);
  const directory = join(folder.path, 'out');
  const replies = capturedReplies(join(folder.path));
  const exchanges = exchangeFile(folder.path, { run: 'r', target: 't' });
  const { results } = await replay(
    source,
    `${server.url}/x`,
    directory,
    {},
    {
      keepCaptured: true,
      ...(content && { redaction: redaction(content) }),
      ...masking,
      read: (measured, clock) => [replies.read(measured), exchanges.read(measured, clock)],
    },
  );
  await replies.finish();
  await exchanges.close();
  const lines = readFileSync(join(folder.path, EXCHANGES_FILE), 'utf8').trim().split('\n');
  const all = [directory, folder.path].flatMap((path) =>
    readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isFile() && !['a.jsonl', EXCHANGES_FILE].includes(entry.name))
      .map(({ name }) => readFileSync(join(path, name), 'utf8')),
  );
  return { files: [...all, JSON.stringify(results.report.toJSON())].join('\n'), exchanges: lines };
}

const tracesOf = (lines: readonly string[]) =>
  lines.map((line) => {
    const raw = {
      bytes: Buffer.from(line),
      place: { bucket: '', key: '', etag: '', line: 1, start: 0, end: 1, objectTimeMs: 0 },
    };
    const decoded = decodeLine(raw, { areExchanges: true });
    if (decoded.kind !== 'capture') throw new Error(decoded.reason.message);
    return buildTrace(decoded.capture, raw, { experimentId: '1', endpointName: 'e' });
  });

test('without masking, the files have the texts', async () => {
  const { files, exchanges } = await kept(undefined);
  expect(files.split(MAIL).length).toBeGreaterThan(8);
  expect(JSON.stringify(tracesOf(exchanges))).toContain(MAIL);
});

test('the captured bytes are sent, and masked texts kept', async () => {
  const { files, exchanges } = await kept('all');
  expect(received).toHaveLength(3);
  for (const body of received) expect(body).toContain(MAIL);
  expect(files).not.toMatch(/jane|doe@/);
  expect(files).toContain('<email:');
  expect(exchanges.map((line) => Buffer.from(line).toString())).not.toContain(MAIL);
  const traces = JSON.stringify(tracesOf(exchanges));
  expect(traces).not.toMatch(/jane|doe@|<\\\\/);
  expect(traces).toMatch(/New Hello\\+n<email:/);
});

/** Where whoever calls the endpoint chooses words, besides the bodies. */
const ODD = [
  chatLine(`id of ${MAIL}`, 1, 'Hi'),
  captureLine('e', 1, { data: 'x', encoding: MAIL }),
  captureLine('f', 1, { data: '1,2', encoding: 'CSV', contentType: `text/csv; name="${MAIL}"` }),
  captureLine('g', 1, { data: '{}' }, undefined, { inferenceTime: MAIL, inferenceId: MAIL }),
];

test('ids, messages and content types are masked', async () => {
  const { files, exchanges } = await kept('all', ODD);
  expect(files).not.toMatch(/jane|doe@/);
  expect(files).toMatch(/"reason":"NoInferenceTime".*got: another form/);
  expect(files).toMatch(/"reason":"UndecodableRequest".*encoded as “…”/);
  expect(files).toMatch(/"session_id":"id of <email:[0-9a-f]{12}>"/);
  expect(files).toMatch(/"conversation_id":"id of <email:[0-9a-f]{12}>"/);
  expect(files).toMatch(/"event_id":"id of <email:[0-9a-f]{12}>"/);
  expect(files).toContain('"content_type":"text/csv; name=\\"<email:');
  expect(JSON.stringify(tracesOf(exchanges))).not.toMatch(/jane|doe@|<\\\\/);
});

test('the target’s own words for an error are masked', async () => {
  const { files } = await kept('all', [chatLine('h', 1, 'fail with a type')]);
  expect(files).toMatch(/"type":"of <email:[0-9a-f]{12}>"/);
});

test('a dry run names content types masked', async () => {
  const source = folder.write('a.jsonl', ODD);
  const files = await localFiles(source);
  const index = await indexCaptures(files, { needsTime: false, onSkipped: () => {} });
  const keep = keepMasked({ redaction: redaction('all') });
  const plan = await dryRun({ files, index, options: DEFAULT_OPTIONS, keep, onSkipped: () => {}, onBatch: () => {} });
  expect(Object.keys(plan.contentTypes).join()).toMatch(/name="<email:/);
  expect(JSON.stringify(plan)).not.toContain(MAIL);
});

test.each([
  ['a card between commas', 'card', {}, 'name,card,cvv\nAnn,4111111111111111,123\n', '4111111111111111'],
  ['the columns that CSV_HEADER names', 'field:name', { csvHeader: true }, 'id,name\n7,Ann\n', 'Ann'],
  ['the columns that FEATURE_NAMES names', 'field:name', { featureNames: ['id', 'name'] }, '7,Ann\n8,Ann\n', 'Ann'],
  ['a column by its number', 'field:#2', {}, '7,Ann\n8,Ann\n', 'Ann'],
])('CSV is masked by its cells, as its trace is: %s', async (_, rules, tables, data, secret) => {
  const csv = { encoding: 'CSV', contentType: 'text/csv' };
  const line = captureLine('t', 1, { data, ...csv }, { data: '1\n', encoding: 'CSV' });
  const redacted = { ...redaction('all'), ...redactRules(rules) };
  const { files, exchanges } = await kept('all', [line], { redaction: redacted, ...tables });
  expect(received.join()).toContain(secret);
  expect(files).not.toContain(secret);
  expect(files).toContain(rules === 'card' ? '<card:' : `<${rules.slice('field:'.length)}:`);
  expect(JSON.stringify(tracesOf(exchanges))).not.toContain(secret);
});

test('a form is masked by its pairs, also where a judge reads it', async () => {
  const data = `q=${encodeURIComponent('+49 30 901820')}`;
  const contentType = 'application/x-www-form-urlencoded';
  const line = captureLine('u', 1, { data, contentType }, { data: chatReply('Old') });
  const { files, exchanges } = await kept('all', [line], {
    redaction: { ...redaction('all'), ...redactRules('phone') },
  });
  expect(files).toMatch(/"messages":\[\{"role":"user","content":"q=%3Cphone/);
  expect(files + JSON.stringify(tracesOf(exchanges))).not.toContain('901820');
});

test('with CONTENT=none no texts are kept', async () => {
  const { files, exchanges } = await kept('none');
  expect(files).not.toMatch(/jane|Hello|fail |a text/);
  expect(JSON.stringify(tracesOf(exchanges))).not.toMatch(/jane|Hello/);
});
