/** Processes hostile lines between good lines; large ones, and judges that answer oddly, are in test/slow. A hostile line must not affect the good ones. */
import { hostileLines } from '../hostile/lines.ts';
import { between, isSmall, testGoodLines } from '../hostile/mixed.ts';
import { throughReplay } from '../hostile/replaying.ts';

const hostile = hostileLines();

testGoodLines('3.17.2', hostile.filter(isSmall));

test('leave the good lines unchanged in a replay and its comparison', async () => {
  const mixed = between(hostile);
  const outcome = await throughReplay(mixed);
  const sent = new Map(
    outcome.records.map((record) => [record.metadata.event_id ?? record.metadata.x_request_id, record]),
  );
  expect({ stderr: outcome.stderr, comparison: outcome.comparison }).toMatchObject({ comparison: 0 });
  expect(outcome.records.length + outcome.skipped.length).toBe(mixed.length);
  for (let index = 0; index <= hostile.length; index += 1) {
    expect(sent.get(`good-${index}`)).toBeDefined();
    expect(sent.get(`good-${index}`)?.error).toBeUndefined();
  }
});
