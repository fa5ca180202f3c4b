/** The rows with ids of people: as they stand in the traces, in a table of their own. */

import { decodeLine } from '../../../src/captures/decode.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import { traceInfo } from '../../../src/mlflow/trace-json.ts';
import { ChunkRig, HOUR } from '../../helpers/chunk-rig.ts';
import { callerLine, captureLine, chatLine, chatRequest, json } from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const LONG = `o'"<script>\0\ud800 ${'é'.repeat(5_000)}`;
const CALLERS = {
  both: { user: 'jane-7', session_id: 'shed-3' },
  user: { user: 'joe' },
  session: { metadata: { conversationId: 'porch' } },
  number: { user_id: 47110815 },
  long: { user: LONG, session_id: `${LONG}2` },
  odd: { user: '../../?*%\n', session_id: '' },
};
const ERROR = captureLine('error', '2026-11-20T10:00:00Z', json({ ...chatRequest('Why?'), user: 'unlucky' }), {
  ...json({ code: 424, message: 'no' }),
});
const LINES = [
  ...Object.entries(CALLERS).map(([name, caller]) => callerLine(name, caller)),
  ...[ERROR, chatLine('nobody'), '{"captureData": {"endpointInput": "cut off'],
];
const PLACE = { bucket: 'b', key: 'k', etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 };

/** Returns trace, user and session as MLflow has them, of traces that have one. */
const inTraces = (lines: readonly string[]) =>
  lines.flatMap((line) => {
    const raw = { bytes: Buffer.from(line), place: PLACE };
    const decoded = decodeLine(raw, { csvHeader: false });
    if (decoded.kind !== 'capture') return [];
    const trace = buildTrace(decoded.capture, raw, { experimentId: '7', endpointName: 'e' });
    const { trace_metadata: metadata } = traceInfo('7', trace) as { trace_metadata: Record<string, string> };
    const { 'mlflow.trace.user': userId, 'mlflow.trace.session': sessionId } = metadata;
    return (userId ?? sessionId) === undefined ? [] : [{ traceId: trace.traceId, userId, sessionId }];
  });

test('each trace with a user or a session has a row with both, by whichever run, and no other table has them', async () => {
  const rig = new ChunkRig();
  await rig.log(rig.request('logged', {}, 0, LINES));
  await rig.evaluate(rig.request('judged', {}, 0, LINES));
  const { 'ids/people': people, ...others } = await ledgerRows(rig.storage.storage, 'work');
  const expected = inTraces(LINES);
  expect(expected.map(({ userId = '-' }) => userId.slice(0, 8))).toEqual(
    expect.arrayContaining(['jane-7', 'joe', '-', '47110815', `o'"<scri`, '../../?*', 'unlucky']),
  );
  for (const run of ['logged', 'judged']) {
    const own = people
      .filter((row) => row.run === run)
      .map(({ traceId, userId, sessionId }) => ({ traceId, userId, sessionId }));
    expect(new Set(own)).toEqual(new Set(expected));
  }
  expect(people[0]).toMatchObject({ hour: HOUR, variant: 'Blue', serving: true, time: Date.parse(`${HOUR}:00:00Z`) });
  expect(others.captures.length).toBe(2 * LINES.length);
  const text = JSON.stringify(others, (_, value) => (typeof value === 'bigint' ? String(value) : value));
  for (const id of ['jane-7', 'shed-3', 'joe', 'porch', '47110815', 'éé', '../../', 'unlucky'])
    expect(text).not.toContain(id);
});

test('where captures are masked, the rows have the pseudonyms of the traces', async () => {
  const rig = new ChunkRig();
  const environment = {
    ...testEnvironment({ CONTENT: 'none' }),
    redaction: { content: 'none', kinds: [], fields: [], patterns: [], allow: [], key: 'k' },
  };
  await rig.log(rig.request('one', {}, 0, LINES), { environment } as never);
  const { 'ids/people': people } = await ledgerRows(rig.storage.storage, 'work');
  expect(people.length).toBe(inTraces(LINES).length);
  for (const { userId = '<user:000000000000>', sessionId = '<session:000000000000>' } of people) {
    expect([userId, sessionId].join()).toMatch(/^<user:[0-9a-f]{12}>,<session:[0-9a-f]{12}>$/);
  }
});
