/** Long values of environment variables, compressed: Lambda accepts 4 KB for all the variables of a function. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** Shorter values stay as they are, so that a person can read them in Lambda's console. */
const MIN_PACKED_BYTES = 1000;
const MARK = 'deflate:';

export const packed = (text: string): string =>
  Buffer.byteLength(text) < MIN_PACKED_BYTES ? text : MARK + deflateRawSync(text).toString('base64');

/** Returns variables as they were before `packed`. */
export const unpacked = (variables: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> =>
  Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name,
      value?.startsWith(MARK) ? inflateRawSync(Buffer.from(value.slice(MARK.length), 'base64')).toString() : value,
    ]),
  );
