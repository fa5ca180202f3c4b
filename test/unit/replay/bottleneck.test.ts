/** Detecting that the client was the bottleneck of a run. */

import { clientBottleneck, neverSent } from '../../../src/replay/finished.ts';
import { describeSocketError } from '../../../src/replay/http/connection.ts';
import { RunStats } from '../../../src/replay/measure/run-stats.ts';

/** Statistics of 100 requests, two of which the client delayed. */
function stats(latencyMs: number, heldUpMs: number): RunStats {
  const found = new RunStats();
  for (let i = 0; i < 100; i++) {
    found.distribution('request_latency').add(latencyMs);
    found.distribution('replay_client_lag').add(i < 2 ? heldUpMs : 0.2);
  }
  return found;
}

test.each([
  ['tolerates a delay below a tenth of the latency', 50, 9, undefined],
  [
    'reports a delay above 10 ms and a tenth of the latency',
    50,
    12,
    '1% of the requests were sent 12.0 ms or more after their scheduled time',
  ],
  ['tolerates the same delay if the latency is long', 500, 12, undefined],
  ['reports a delay above a tenth of a long latency', 500, 60, 'expected: at most 50.0 ms'],
])('%s', (_, latencyMs, heldUpMs, said) => {
  const bottleneck = clientBottleneck(stats(latencyMs, heldUpMs));
  if (said === undefined) expect(bottleneck).toBeUndefined();
  else expect(bottleneck).toContain(said);
});

test('reports nothing for a run without requests', () => expect(clientBottleneck(new RunStats())).toBeUndefined());

test('attributes missing file descriptors to this machine, not to the target', () => {
  const found = new RunStats();
  found.succeeded = 80;
  const full = Object.assign(new Error('connect EMFILE 127.0.0.1:80'), { code: 'EMFILE' });
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  for (const [error, count] of [
    [full, 120],
    [refused, 5],
  ] as const) {
    found.errors.set(error.code, { error: describeSocketError(error), count });
  }
  const said = '120 requests never left this machine: TooManyOpenFiles: connect EMFILE 127.0.0.1:80';
  expect([neverSent(found), clientBottleneck(found)]).toEqual([said, said]);
  found.errors.delete('EMFILE');
  expect(neverSent(found)).toBeUndefined();
});
