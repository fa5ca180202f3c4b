/** Reads an observed content type. */
import { TextDecoder } from 'node:util';
import { asCount } from './json.ts';

export interface ContentType {
  /** Lower case, without parameters. `undefined` when missing, null or empty. */
  media: string | undefined;
  charset: string | undefined;
  /** Bytes of the JSON before raw tensors, in the binary form of the open inference protocol. */
  headerBytes?: number;
  /** The kind of payload that the media type announces, if it does. */
  announces: 'json' | 'csv' | 'jsonlines' | 'event-stream' | 'text' | 'binary' | undefined;
}

const JSON_LINES = /^(?:application|text)\/(?:x-)?(?:jsonlines|jsonl|ndjson|json-lines|json-stream)$/;

const BINARY =
  /^(?:image|audio|video|font|model)\/|^application\/(?:x-image|x-npy|x-npz|x-recordio(?:-protobuf)?|x-protobuf|protobuf|vnd\.google\.protobuf|x-parquet|vnd\.apache\.parquet|x-avro|avro|zip|gzip|x-tar|pdf|x-python-pickle|x-pickle|x-rio|vnd\.amazon\.eventstream)$|^application\/vnd\.sagemaker\..*binary/;

function announced(media: string): ContentType['announces'] {
  if (media === 'text/event-stream') return 'event-stream';
  if (JSON_LINES.test(media)) return 'jsonlines';
  if (media === 'csv' || media === 'text/csv' || media === 'application/csv' || media === 'text/x-csv') return 'csv';
  if (media === 'json') return 'json';
  if (/^(?:application|text)\/(?:json|x-json|.+\+json)$/.test(media)) return 'json';
  // SVG is an image, but also text.
  if (media === 'image/svg+xml') return 'text';
  if (BINARY.test(media)) return 'binary';
  if (media.startsWith('text/') || media === 'application/xml' || media.endsWith('+xml')) return 'text';
  return undefined;
}

/**
 * @param observed `observedContentType` as captured, e.g. `text/csv; charset=utf-8`. Values other than strings are
 *   ignored.
 */
export function parseContentType(observed: unknown): ContentType {
  const [first = '', ...parameters] = typeof observed === 'string' ? observed.split(';') : [];
  const media = first.trim().toLowerCase();
  const values = new Map(
    parameters.map((parameter) => {
      const [name = '', value = ''] = parameter.split('=');
      const text = value.trim().replace(/^["']|["']$/g, '');
      return [name.trim().toLowerCase(), text.toLowerCase()] as const;
    }),
  );
  const headerBytes = asCount(values.get('json-header-size'));
  return {
    media: media === '' ? undefined : media,
    charset: values.get('charset') || undefined,
    headerBytes,
    announces: announced(media),
  };
}

/** @returns `undefined` if the charset is unknown. @param fatal throws at bytes that are not valid, in place of U+FFFD */
export const decoderOf = (charset: string, fatal = true): TextDecoder | undefined => {
  try {
    return new TextDecoder(charset, { fatal });
  } catch {
    return undefined;
  }
};
