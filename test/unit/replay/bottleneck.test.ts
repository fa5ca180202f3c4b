/** When a run says that its own client was the bottleneck. */
import { describeSocketError } from '../../../src/replay/http/connection.ts';
import { clientBottleneck } from '../../../src/replay/measure/client-bottleneck.ts';
import { neverSent } from '../../../src/replay/measure/error-rate.ts';
import { RunStats } from '../../../src/replay/measure/run-stats.ts';

/** 100 requests, of which two were held up by the client. */
function stats(latencyMs: number, heldUpMs: number): RunStats {
  const found = new RunStats();
  for (let i = 0; i < 100; i++) {
    found.distribution('request_latency').add(latencyMs);
    found.distribution('replay_client_lag').add(i < 2 ? heldUpMs : 0.2);
  }
  return found;
}

test.each([
  ['little of a short latency', 50, 9, undefined],
  ['more than a tenth of it', 50, 12, '1% of the requests were sent 12.0 ms or more after their scheduled time'],
  ['the same beside a long latency', 500, 12, undefined],
  ['more than a tenth of that', 500, 60, 'expected: at most 50.0 ms'],
])('%s', (_, latencyMs, heldUpMs, said) => {
  const bottleneck = clientBottleneck(stats(latencyMs, heldUpMs));
  if (said === undefined) expect(bottleneck).toBeUndefined();
  else expect(bottleneck).toContain(said);
});

test('a run without requests has none', () => expect(clientBottleneck(new RunStats())).toBeUndefined());

test('requests that had no descriptor are this machine’s, not the target’s', () => {
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
