/** Reads requests of OTLP as a receiver does, from their wire format: https://protobuf.dev/programming-guides/encoding/ */
import { gunzipSync } from 'node:zlib';
import type { SeenRequest } from '../doubles/misbehaving-server.ts';

/** The values of each field, by its number. */
type Message = Map<number, (Buffer | number)[]>;

function messageOf(bytes: Buffer): Message {
  const message: Message = new Map();
  let at = 0;
  const varint = (): number => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(value);
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const [field, type] = [tag >> 3, tag & 7];
    const size = type === 2 ? varint() : type === 1 ? 8 : type === 5 ? 4 : 0;
    const value = type === 0 ? varint() : bytes.subarray(at, at + size);
    at += size;
    message.set(field, [...(message.get(field) ?? []), value]);
  }
  return message;
}

const within = (message: Message, ...path: number[]): Message[] =>
  path.reduce(
    (all, field) => all.flatMap((one) => (one.get(field) ?? []).map((value) => messageOf(value as Buffer))),
    [message],
  );

const bytesIn = (message: Message, field: number): Buffer => (message.get(field)?.[0] ?? Buffer.alloc(0)) as Buffer;

function valueIn(value: Message): unknown {
  if (value.has(1)) return bytesIn(value, 1).toString();
  if (value.has(2)) return value.get(2)?.[0] === 1;
  if (value.has(3)) return value.get(3)?.[0];
  return value.has(4) ? bytesIn(value, 4).readDoubleLE() : within(value, 5, 1).map(valueIn);
}

const attributesIn = (message: Message, field: number): Record<string, unknown> =>
  Object.fromEntries(
    within(message, field).map((one) => [bytesIn(one, 1).toString(), valueIn(within(one, 2)[0] ?? new Map())]),
  );

/** Returns the spans or log records of requests, each with the attributes of its resource. */
export function itemsOf(requests: readonly SeenRequest[], signal: 'traces' | 'logs') {
  const [trace, span, attributes] = signal === 'traces' ? [1, 2, 9] : [9, 10, 6];
  const ofSignal = requests.filter(({ path }) => path.endsWith(`/v1/${signal}`));
  return ofSignal.flatMap(({ body }) =>
    within(messageOf(gunzipSync(body)), 1).flatMap((group) =>
      within(group, 2, 2).map((item) => ({
        traceId: bytesIn(item, trace).toString('hex'),
        spanId: bytesIn(item, span).toString('hex'),
        event: bytesIn(item, 12).toString(),
        attributes: attributesIn(item, attributes),
        resource: attributesIn(within(group, 1)[0] ?? new Map(), 1),
      })),
    ),
  );
}
