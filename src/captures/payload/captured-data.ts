/** Reads the `data` of a captured side: the text or the bytes that its encoding announces. */
import { isObject, toJson } from '../json.ts';
import type { Payload } from '../types.ts';

/** Returns the content type and the encoding of `endpointInput` or `endpointOutput`, if they are texts. */
export function announcedBy(side: unknown): Pick<Payload, 'contentType' | 'encoding'> {
  const { observedContentType: type, encoding } = isObject(side) ? side : {};
  return {
    contentType: typeof type === 'string' ? type : null,
    encoding: typeof encoding === 'string' ? encoding : '',
  };
}

/** @returns `undefined` when the data is null or missing. */
export function capturedData(side: unknown): { text: string } | { bytes: Buffer } | { problem: string } | undefined {
  const { data } = isObject(side) ? side : {};
  if (data === undefined || data === null) return undefined;
  if (typeof data !== 'string') {
    // A document in place of its text. Data Capture does not write this, but the meaning is clear.
    const text = toJson(data);
    return text === undefined ? { problem: 'nested too deep to be written out' } : { text };
  }
  const { encoding } = announcedBy(side);
  switch (encoding.toUpperCase()) {
    case '':
    case 'JSON':
    case 'CSV':
      return { text: data };
    case 'BASE64': {
      const bytes = decodeBase64(data);
      return bytes === undefined ? { problem: 'announced as BASE64 but not valid base64' } : { bytes };
    }
    default:
      return { problem: `encoded as “${encoding.slice(0, 40)}”, which is unknown; expected: JSON, CSV or BASE64` };
  }
}

/** Returns the bytes of a captured side as they were on the wire, or a text that explains why they are not available. */
export function payloadBytes(side: unknown): Buffer | string {
  const data = capturedData(side);
  if (data === undefined) return 'its data is null';
  if ('problem' in data) return data.problem;
  return 'text' in data ? Buffer.from(data.text) : data.bytes;
}

/** A character outside both alphabets of base64 that is neither padding nor a line break. */
const NOT_BASE64 = /[^A-Za-z0-9+/_=\s-]/;

/** @returns `undefined` when the text is not base64. Node's decoder skips invalid characters instead. */
export function decodeBase64(data: string): Buffer | undefined {
  if (NOT_BASE64.test(data)) return undefined;
  const dense = /\s/.test(data) ? data.replace(/\s+/g, '') : data;
  const firstPad = dense.indexOf('=');
  const digits = firstPad === -1 ? dense.length : firstPad;
  const isPadded = /^={0,2}$/.test(dense.slice(digits, digits + 3));
  return isPadded && digits % 4 !== 1 ? Buffer.from(dense, 'base64') : undefined;
}
