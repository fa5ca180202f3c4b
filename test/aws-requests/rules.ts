/** What a model says about an operation's input: members, types, enums, lengths, ranges and patterns. */
import type { ServiceModel, Shape, ShapeUse } from './models.ts';
import { wholeValue } from './patterns.ts';
import { Bytes, type Call, Text } from './wire.ts';

/** A rule of AWS that a request breaks. */
export interface Violation {
  /** Service and operation, such as `s3:PutObject`. */
  operation: string;
  /** The member's path; empty: the request as a whole. */
  where: string;
  got: string;
  rule: string;
}

/** A limit that AWS documents, but does not publish in its model. */
interface DocumentedRule {
  operations: RegExp;
  member: string;
  holds: (value: string) => boolean;
  rule: string;
}

const bytes = (text: string): number => Buffer.byteLength(text);

const DOCUMENTED: DocumentedRule[] = [
  {
    operations: /^s3:/,
    member: 'Key',
    holds: (key) => bytes(key) <= 1024,
    // https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
    rule: 'at most 1,024 bytes',
  },
  {
    operations: /^s3:/,
    member: 'Bucket',
    holds: (bucket) => bucket.startsWith('arn:') || /^(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket),
    // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    rule: '3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit at both ends',
  },
  {
    operations: /^stepfunctions:StartExecution$/,
    member: 'name',
    // https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what AWS excludes
    holds: (name) => !/[\s<>{}[\]?*"#%\\^|~`$&,;:/\u0000-\u001f\u007f-\u009f\ufffe\uffff\ud800-\udfff]/.test(name),
    rule: 'no white space, brackets, wildcards, control characters or any of "#%\\^|~`$&,;:/',
  },
];

const MAX_SHOWN = 100;

function shown(value: unknown): string {
  if (value instanceof Bytes) return `${value.length} bytes`;
  const plain = textOf(value);
  const text = typeof plain === 'string' ? plain : (JSON.stringify(plain) ?? 'nothing');
  return text.length > MAX_SHOWN ? `"${text.slice(0, MAX_SHOWN)}…" (${text.length} characters)` : `"${text}"`;
}

/** A violation of an operation that the caller knows. */
type Fault = Omit<Violation, 'operation'>;

const fault = (where: string, got: unknown, rule: string): Fault[] => [{ where, got: shown(got), rule }];

/** Returns the rules of the model, and those that AWS documents besides, which the call breaks. */
export function violationsOf({ model, operation, input, unknown }: Call): Violation[] {
  const name = `${model.name}:${operation.name}`;
  const surplus = unknown.map((got) => ({ where: '', got, rule: `${operation.name} has none` }));
  const ofModel = operation.input ? new ShapeCheck(model).faultsOf(operation.input, input, '') : [];
  const documented = DOCUMENTED.flatMap(({ operations, member, holds, rule }) => {
    const value = textOf(input[member]);
    return operations.test(name) && typeof value === 'string' && !holds(value) ? fault(member, value, rule) : [];
  });
  return [...surplus, ...ofModel, ...documented].map((one) => ({ operation: name, ...one }));
}

const textOf = (value: unknown): unknown => (value instanceof Text ? value.text : value);

class ShapeCheck {
  readonly #model: ServiceModel;

  constructor(model: ServiceModel) {
    this.#model = model;
  }

  faultsOf({ shape: name }: ShapeUse, value: unknown, where: string): Fault[] {
    const shape = this.#model.shapes[name];
    if (shape === undefined) throw new Error(`${this.#model.name} has no shape ${name}`);
    if (shape.document) return [];
    switch (shape.type) {
      case 'structure':
        return this.#structure(name, shape, value, where);
      case 'list':
        return this.#list(shape, value, where);
      case 'map':
        return this.#map(shape, value, where);
      case 'string':
      case 'character':
        return string(shape, value, where);
      case 'blob':
        return blob(shape, value, where);
      case 'boolean':
        return isBoolean(value) ? [] : fault(where, value, 'true or false');
      case 'timestamp':
        return isTime(textOf(value)) ? [] : fault(where, value, 'a time');
      default:
        return number(shape, value, where);
    }
  }

  #structure(name: string, shape: Shape, value: unknown, where: string): Fault[] {
    if (!isObject(value)) return fault(where, value, `a structure ${name}`);
    const inside = (member: string): string => (where ? `${where}.${member}` : member);
    // JSON's null means that a member is not set.
    const given = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
    const names = given.map(([member]) => member);
    const missing = (shape.required ?? []).filter((member) => !names.includes(member));
    return [
      ...given.flatMap(([member, content]) => {
        const use = shape.members?.[member];
        if (use) return this.faultsOf(use, content, inside(member));
        return fault(inside(member), content, `${name} has no such member`);
      }),
      ...missing.flatMap((member) => fault(inside(member), undefined, `required by ${name}`)),
      ...(shape.union && names.length !== 1 ? fault(where, names, `exactly one member of ${name}`) : []),
    ];
  }

  #list(shape: Shape, value: unknown, where: string): Fault[] {
    if (!Array.isArray(value)) return fault(where, value, 'a list');
    return [
      ...range(shape, value.length, where, value, 'items'),
      ...value.flatMap((item, index) => this.faultsOf(shape.member as ShapeUse, item, `${where}[${index}]`)),
    ];
  }

  #map(shape: Shape, value: unknown, where: string): Fault[] {
    if (!isObject(value)) return fault(where, value, 'a map');
    const entries = Object.entries(value);
    return [
      ...range(shape, entries.length, where, value, 'entries'),
      ...entries.flatMap(([key, item]) => [
        ...this.faultsOf(shape.key as ShapeUse, key, `${where} (key)`),
        ...this.faultsOf(shape.value as ShapeUse, item, `${where}.${key}`),
      ]),
    ];
  }
}

function string(shape: Shape, value: unknown, where: string): Fault[] {
  if (value instanceof Bytes) return range(shape, value.length, where, value, 'bytes');
  const text = textOf(value);
  if (typeof text !== 'string') return fault(where, value, 'a text');
  const isListed = !shape.enum || shape.enum.includes(text);
  const fits = !shape.pattern || wholeValue(shape.pattern)?.test(text) !== false;
  return [
    ...range(shape, [...text].length, where, text, 'characters'),
    ...(isListed ? [] : fault(where, text, `one of ${shape.enum?.join(', ')}`)),
    ...(fits ? [] : fault(where, text, `the pattern ${shape.pattern}`)),
  ];
}

function blob(shape: Shape, value: unknown, where: string): Fault[] {
  if (value instanceof Bytes) return range(shape, value.length, where, value, 'bytes');
  const text = textOf(value);
  if (typeof text !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return fault(where, value, 'Base64');
  return range(shape, Buffer.from(text, 'base64').length, where, text, 'bytes');
}

function number(shape: Shape, value: unknown, where: string): Fault[] {
  const isWhole = ['integer', 'long', 'short', 'byte'].includes(shape.type);
  const plain = value instanceof Text && value.text !== '' ? Number(value.text) : value;
  if (typeof plain !== 'number' || Number.isNaN(plain) || (isWhole && !Number.isInteger(plain)))
    return fault(where, value, isWhole ? 'a whole number' : 'a number');
  return range(shape, plain, where, plain, '');
}

function range({ min = -Infinity, max = Infinity }: Shape, size: number, where: string, value: unknown, unit: string) {
  if (size < min) return fault(where, value, `at least ${min} ${unit}`.trimEnd());
  return size > max ? fault(where, value, `at most ${max} ${unit}`.trimEnd()) : [];
}

const isBoolean = (value: unknown): boolean =>
  value instanceof Text ? /^(?:true|false)$/.test(value.text) : typeof value === 'boolean';

const isTime = (value: unknown): boolean =>
  typeof value === 'number' || (typeof value === 'string' && !Number.isNaN(Date.parse(value)));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !(value instanceof Text || value instanceof Bytes);
