/** Long values of environment variables, compressed: Lambda accepts 4 KB for all the variables of a function. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** Shorter values stay as they are, so that a person can read them in Lambda's console. */
const MIN_PACKED_BYTES = 1000;
const MARK = 'deflate:';

export const packed = (text: string): string =>
  Buffer.byteLength(text) < MIN_PACKED_BYTES ? text : MARK + deflateRawSync(text).toString('base64');

/** Returns variables as they were before `packed`. A value that is damaged stays as it is, for its reader to refuse. */
export const unpacked = <V extends string | undefined>(variables: Readonly<Record<string, V>>): Record<string, V> =>
  Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, plain(value)]));

function plain<V extends string | undefined>(value: V): V {
  if (!value?.startsWith(MARK)) return value;
  try {
    return inflateRawSync(Buffer.from(value.slice(MARK.length), 'base64')).toString() as V;
  } catch {
    return value;
  }
}
