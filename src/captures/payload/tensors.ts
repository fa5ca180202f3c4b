/**
 * Reads the binary form of the open inference protocol (KServe v2, Triton): a JSON document, then the raw values of its
 * tensors. The result is the document of the JSON form, with the values under `data`.
 */
import { isUtf8 } from 'node:buffer';
import { exactInteger, isObject, type JsonObject, parseJson } from '../json.ts';
import { countValues, type Scale } from '../weight.ts';

type Value = (bytes: Buffer, at: number) => unknown;

const float = (value: number): number | string => (Number.isFinite(value) ? value : String(value));
const SCRATCH = Buffer.alloc(4);

function bfloat16(bytes: Buffer, at: number): number {
  SCRATCH.writeUInt16LE(bytes.readUInt16LE(at), 2);
  return SCRATCH.readFloatLE();
}

function float16(bytes: Buffer, at: number): number {
  const bits = bytes.readUInt16LE(at);
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 0x1f, (bits & 0x3ff) / 1024];
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15));
}

/** Width of a value in bytes by datatype, and its reader. `BYTES` are texts with a length each. */
const DATATYPES = new Map<unknown, [width: number, value: Value]>(
  Object.entries({
    BOOL: [1, (bytes, at) => bytes[at] !== 0],
    INT8: [1, (bytes, at) => bytes.readInt8(at)],
    INT16: [2, (bytes, at) => bytes.readInt16LE(at)],
    INT32: [4, (bytes, at) => bytes.readInt32LE(at)],
    INT64: [8, (bytes, at) => exactInteger(bytes.readBigInt64LE(at))],
    UINT8: [1, (bytes, at) => bytes.readUInt8(at)],
    UINT16: [2, (bytes, at) => bytes.readUInt16LE(at)],
    UINT32: [4, (bytes, at) => bytes.readUInt32LE(at)],
    UINT64: [8, (bytes, at) => exactInteger(bytes.readBigUInt64LE(at))],
    FP16: [2, (bytes, at) => float(float16(bytes, at))],
    BF16: [2, (bytes, at) => float(bfloat16(bytes, at))],
    FP32: [4, (bytes, at) => float(bytes.readFloatLE(at))],
    FP64: [8, (bytes, at) => float(bytes.readDoubleLE(at))],
  }),
);
const LENGTH_BYTES = 4;

class Malformed extends Error {}

/**
 * @param headerBytes length of the JSON document.
 * @param scale adds up the memory of the values before they are allocated.
 * @returns the document, or a description of its fault.
 * @throws TooHeavy
 */
export function readTensors(
  bytes: Buffer,
  headerBytes: number,
  scale: Scale,
): { value: JsonObject } | { problem: string } {
  try {
    if (headerBytes > bytes.length)
      throw new Malformed(`its JSON has ${headerBytes} bytes, but the whole body has ${bytes.length}`);
    const header = bytes.toString('utf8', 0, headerBytes);
    scale.values(countValues(header));
    const parsed = parseJson(header);
    if (!parsed.ok) throw new Malformed(parsed.problem);
    if (!isObject(parsed.value)) throw new Malformed('its JSON is not an object');
    const value = { ...parsed.value };
    let at = headerBytes;
    for (const side of ['inputs', 'outputs']) {
      const tensors = value[side];
      if (!Array.isArray(tensors)) continue;
      value[side] = tensors.map((tensor) => {
        const size = isObject(tensor) && isObject(tensor.parameters) ? tensor.parameters.binary_data_size : undefined;
        // The values of this tensor are in the JSON.
        if (size === undefined) return tensor;
        const end = at + wholeNumber(size, bytes.length - at, 'binary_data_size');
        const filled = filledTensor(tensor, bytes.subarray(at, end), scale);
        at = end;
        return filled;
      });
    }
    if (at < bytes.length) throw new Malformed(`its tensors end ${bytes.length - at} bytes before its end`);
    return { value };
  } catch (error) {
    if (error instanceof Malformed) return { problem: error.message };
    throw error;
  }
}

function wholeNumber(value: unknown, most: number, name: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= most) return value;
  throw new Malformed(`its ${name} is not a whole number from 0 to ${most}`);
}

function filledTensor(tensor: JsonObject, bytes: Buffer, scale: Scale): JsonObject {
  const { parameters, ...named } = tensor;
  const { binary_data_size: _, ...others } = parameters as JsonObject;
  const shape = Array.isArray(tensor.shape) ? tensor.shape : [];
  // A tensor has no more values than bytes. Do not trust a larger count.
  const count = shape.reduce(
    (product: number, size) => wholeNumber(product * wholeNumber(size, bytes.length, 'shape'), bytes.length, 'shape'),
    1,
  );
  const [width, value] = DATATYPES.get(tensor.datatype) ?? [LENGTH_BYTES, undefined];
  if (value === undefined && tensor.datatype !== 'BYTES') throw new Malformed('a datatype is unknown');
  if (count * width > bytes.length || (value !== undefined && count * width < bytes.length)) {
    throw new Malformed(`a tensor of ${count} values has ${bytes.length} bytes`);
  }
  scale.values(count);
  const data =
    value === undefined
      ? textsOf(bytes, count)
      : Array.from({ length: count }, (_item, index) => value(bytes, index * width));
  return { ...named, ...(Object.keys(others).length > 0 ? { parameters: others } : {}), data };
}

function textsOf(bytes: Buffer, count: number): unknown[] {
  let at = 0;
  const texts = Array.from({ length: count }, () => {
    if (at + LENGTH_BYTES > bytes.length) throw new Malformed('its texts are longer than the tensor');
    const from = at + LENGTH_BYTES;
    at = from + wholeNumber(bytes.readUInt32LE(at), bytes.length - from, 'text’s length');
    const text = bytes.subarray(from, at);
    return isUtf8(text) ? text.toString('utf8') : { binary: true, bytes: text.length };
  });
  if (at < bytes.length) throw new Malformed('its texts are shorter than the tensor');
  return texts;
}
