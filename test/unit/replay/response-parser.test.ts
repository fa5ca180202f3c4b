/** Parsing HTTP responses that arrive in pieces. */
import fc from 'fast-check';
import { BadResponse, ResponseParser } from '../../../src/replay/http/response-parser.ts';

interface Read {
  status: number;
  headers: Record<string, string>;
  body: string;
  ended: boolean;
  keepAlive: boolean;
}

/** Feeds `wire` in pieces, cut at the given positions, and returns the parsed response. */
function read(wire: string, cuts: number[] = [], closes = false): Read {
  const bytes = Buffer.from(wire, 'latin1');
  const parser = new ResponseParser();
  const result: Read = { status: 0, headers: {}, body: '', ended: false, keepAlive: false };
  const sink = {
    onHead: (status: number, headers: Map<string, string>) => {
      result.status = status;
      result.headers = Object.fromEntries(headers);
    },
    onBody: (buffer: Buffer, start: number, end: number) => {
      result.body += buffer.toString('latin1', start, end);
    },
    onEnd: () => {
      result.ended = true;
    },
  };
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b);
  // Every piece is in the same large buffer, followed by old bytes, like in the shared read buffer of the sockets.
  const shared = Buffer.alloc(bytes.length + 64, 'HTTP/1.1 ');
  for (let i = 1; i < places.length; i++) {
    const length = bytes.copy(shared, 0, places[i - 1], places[i]);
    parser.feed(shared, length, sink);
  }
  if (closes) parser.end(sink);
  result.keepAlive = parser.keepAlive;
  return result;
}

const CHUNKED =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n' +
  '5\r\nhello\r\n1a;name=value\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nX-Trailer: kept out\r\n\r\n';
const PLAIN =
  'HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nsorry';

describe('the response parser', () => {
  test('parses a body with a length', () => {
    const result = read(PLAIN);
    expect(result).toMatchObject({ status: 404, body: 'sorry', ended: true, keepAlive: false });
    expect(result.headers).toEqual({ 'content-length': '5', connection: 'close', 'set-cookie': 'a=1, b=2' });
  });

  test('parses chunks with an extension and a trailer', () => {
    const result = read(CHUNKED);
    expect(result.body).toBe('helloabcdefghijklmnopqrstuvwxyz');
    expect(result).toMatchObject({ status: 200, ended: true, keepAlive: true });
  });

  test.each([PLAIN, CHUNKED])('parses the same response from any pieces', (wire) => {
    const whole = read(wire);
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 12 }), (cuts) => {
        expect(read(wire, cuts)).toEqual(whole);
      }),
    );
    expect(
      read(
        wire,
        [...wire].map((_, i) => i),
      ),
    ).toEqual(whole);
  });

  test('skips an interim response', () => {
    expect(
      read(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${PLAIN}`, [30, 50]),
    ).toMatchObject({
      status: 404,
      body: 'sorry',
      ended: true,
    });
  });

  test('parses a response without a body', () => {
    const none = read('HTTP/1.1 204 No Content\r\n\r\n');
    expect(none).toMatchObject({ status: 204, body: '', ended: true, keepAlive: true });
    expect(read('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')).toMatchObject({ ended: true, keepAlive: true });
  });

  test('parses a body that ends with the connection', () => {
    const wire = 'HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it';
    expect(read(wire)).toMatchObject({ body: 'all of it', ended: false });
    expect(read(wire, [3, 60], true)).toMatchObject({ body: 'all of it', ended: true, keepAlive: false });
  });

  test('does not complete a response that is truncated in its body', () => {
    expect(read(PLAIN.slice(0, -2), [], true)).toMatchObject({ body: 'sor', ended: false });
    expect(read(CHUNKED.slice(0, -2), [], true)).toMatchObject({ ended: false });
  });

  test('keeps an HTTP/1.0 connection only if the server announces it', () => {
    expect(read('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n').keepAlive).toBe(false);
    expect(read('HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n').keepAlive).toBe(true);
  });

  test.each([
    ['empty lines before the response', `\r\n\r\n${PLAIN}`, 'sorry'],
    ['sizes of 16 digits', CHUNKED.replace('\r\n5\r\n', '\r\n0000000000000005\r\n'), 'helloabcdefghijklmnopqrstuvwxyz'],
    ['a long trailer', CHUNKED.replace('kept out', 'x'.repeat(10_000)), 'helloabcdefghijklmnopqrstuvwxyz'],
    ['the identity coding', PLAIN.replace('Connection', 'Transfer-Encoding: identity\r\nConnection'), 'sorry'],
  ])('accepts %s, in any pieces', (_, wire, body) => {
    for (const cuts of [[], [3, 60, 100], [...wire].map((_, i) => i)]) {
      expect(read(wire, cuts)).toMatchObject({ body, ended: true });
    }
  });

  test('does not mistake the coding xchunked for chunked', () => {
    const wire = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n5\r\nhello';
    expect(read(wire, [], true)).toMatchObject({ body: '5\r\nhello', ended: true });
  });

  test('parses a long head that arrives byte by byte in linear time', () => {
    const timeOf = (bytes: number): number => {
      const wire = Buffer.from(`HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(bytes / 8)}`);
      const parser = new ResponseParser();
      const from = performance.now();
      for (let i = 0; i < wire.length; i++) {
        parser.feed(wire.subarray(i, i + 1), 1, { onHead: () => {}, onBody: () => {}, onEnd: () => {} });
      }
      return performance.now() - from;
    };
    // Linear: 8 times as long. Quadratic: 64 times. Takes the best of three runs, for busy machines.
    const best = (bytes: number): number => Math.min(...[1, 2, 3].map(() => timeOf(bytes)));
    expect(best(64_000) / Math.max(10, best(8_000))).toBeLessThan(30);
  });

  test.each([
    ['white space before a colon', 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok'],
    [
      'a chunk size above the safe integers',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'f'.repeat(16)}\r\n`,
    ],
    ['an endless trailer', `${CHUNKED.slice(0, -4)}${'x'.repeat(70_000)}`],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['two different lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello'],
    ['a length in words', 'HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello'],
    ['an invalid chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'],
    ['a chunk that is too long', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n'],
    ['bytes after the end', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore'],
    ['endless headers', `HTTP/1.1 200 OK\r\n${'X-A: b\r\n'.repeat(20_000)}`],
    ['an endless line', `HTTP/1.1 200 ${'x'.repeat(200_000)}`],
    ['switched protocols', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ])('rejects %s', (_, wire) => {
    expect(() => read(wire)).toThrow(BadResponse);
  });

  test('reads the keep-alive time of the server', () => {
    const parser = new ResponseParser();
    const wire = Buffer.from('HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5, max=100\r\n\r\n');
    parser.feed(wire, wire.length, { onHead: () => {}, onBody: () => {}, onEnd: () => {} });
    expect(parser.keepAliveSeconds).toBe(5);
  });
});
