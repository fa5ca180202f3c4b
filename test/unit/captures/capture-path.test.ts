/** Parsing the hour folder and the variant from the key of a capture file. */
import { capturePathOf, formatHour, hourPathOf } from '../../../src/captures/files/capture-path.ts';

describe('hour folders', () => {
  test('are read from the keys that Data Capture writes', () => {
    expect(hourPathOf('my-endpoint/AllTraffic/2026/11/20/10/00-00-000-a.jsonl')).toEqual({
      base: 'my-endpoint/AllTraffic/',
      startMs: Date.UTC(2026, 10, 20, 10),
    });
    expect(hourPathOf('2026/11/20/10/a.jsonl')).toEqual({ base: '', startMs: Date.UTC(2026, 10, 20, 10) });
  });

  test.each([
    'a.jsonl',
    'e/2026/13/20/10/a.jsonl',
    'e/2026/02/30/10/a.jsonl',
    'e/2026/11/20/24/a.jsonl',
    'e/2026/11/20/a.jsonl',
    'x2026/11/20/10/a.jsonl',
  ])('%s has no hour folder', (key) => {
    expect(hourPathOf(key)).toBeUndefined();
    expect(capturePathOf(key)).toEqual({});
  });

  test.each([
    [
      'captures/my-endpoint/AllTraffic/2026/11/20/10/a.jsonl',
      { endpoint: 'my-endpoint', variant: 'AllTraffic', hourMs: Date.UTC(2026, 10, 20, 10) },
    ],
    ['AllTraffic/2026/11/20/10/a.jsonl', { variant: 'AllTraffic', hourMs: Date.UTC(2026, 10, 20, 10) }],
    ['2026/11/20/10/a.jsonl', { hourMs: Date.UTC(2026, 10, 20, 10) }],
  ])('%s contains its endpoint, variant and hour', (key, path) => {
    expect(capturePathOf(key)).toEqual(path);
  });

  test('are formatted by the inverse function', () => {
    expect(formatHour(Date.UTC(2026, 0, 2, 3, 59, 59))).toBe('2026/01/02/03');
  });
});
