import { isObject, toJson } from '../../formats/json.ts';
import { decodeBase64 } from '../../formats/payload/decode-payload.ts';

/**
 * The bytes of one side of a capture record, of those encodings that the pipeline knows; a string says why there are none.
 * A document that stands where SageMaker puts its text is written out as it was, long numbers too.
 */
export function payloadBytes(side: unknown): Buffer | string {
  const { data, encoding } = isObject(side) ? side : {};
  if (data === null || data === undefined) return 'its data is null';
  if (typeof data !== 'string') {
    const text = toJson(data);
    return text === undefined ? 'its data is nested too deep to be written out' : Buffer.from(text);
  }
  const name = typeof encoding === 'string' ? encoding.toUpperCase() : '';
  if (name === '' || name === 'JSON' || name === 'CSV') return Buffer.from(data, 'utf8');
  if (name !== 'BASE64') return `its encoding is ${JSON.stringify(encoding)}; expected: JSON, CSV or BASE64`;
  return decodeBase64(data) ?? 'its data is not base64';
}
