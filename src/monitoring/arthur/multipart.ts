/** A file as the only part of a `multipart/form-data` body, of known length and never whole in memory. */
import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import type { StreamedBody } from '../../mlflow/transport.ts';

/** Characters that end a quoted name, as browsers write them: https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data */
const ESCAPED: Record<string, string> = { '"': '%22', '\r': '%0D', '\n': '%0A' };

/**
 * @param key the end of the object's key is the name of the file
 * @param content of exactly `size` bytes
 */
export function multipartFile(
  field: string,
  { key, size, content }: { key: string; size: number; content: AsyncIterable<Buffer> },
): { contentType: string; body: StreamedBody } {
  // Random, so that no capture can contain it.
  const boundary = `inference-monitor-${randomUUID()}`;
  const name = basename(key).replace(/["\r\n]/g, (char) => ESCAPED[char] ?? '');
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield head;
    yield* content;
    yield tail;
  }
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: { length: head.length + size + tail.length, pieces: pieces() },
  };
}
