/** Reads a logged request as the service would: which operation it calls, and with which input. */
import type { Operation, ServiceModel, ServiceModels, Shape, ShapeUse } from './models.ts';

/** An element as [tag, text, children]. */
type Xml = [string, string, Xml[]];

/** A request as `recorder.py` and `logRequest` write it. */
export interface LoggedRequest {
  method: string;
  path: string;
  query: string;
  headers: Record<string, string>;
  length: number;
  text?: string;
  xml?: Xml | null;
}

/** A scalar that came as text: in a header, the path, the query, a form or XML. */
export class Text {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Bytes, of which only the number is logged. */
export class Bytes {
  readonly length: number;
  constructor(length: number) {
    this.length = length;
  }
}

export interface Call {
  model: ServiceModel;
  operation: Operation;
  /** Its members by their names in the model. */
  input: Record<string, unknown>;
  /** Parts of the request that the model does not know. */
  unknown: string[];
}

/** @returns the call, what is wrong with it if there is no such operation, or `undefined` if the request is not signed, or of no model */
export function readCall(request: LoggedRequest, models: ServiceModels): Call | string | undefined {
  const query = new URLSearchParams(request.query);
  const credential = query.get('X-Amz-Credential') ?? request.headers.authorization ?? '';
  const name = /[^/=\s]+\/\d{8}\/[^/]*\/([\w-]+)\/aws4_request/.exec(credential)?.[1];
  // CloudWatch's PromQL API is in its manual and in no model. `test/helpers/asked-stack.ts` checks its requests.
  if (name === undefined || (name === 'monitoring' && request.path === '/api/v1/query')) return undefined;
  const services = models.signedAs(name);
  const what = `${request.method} ${request.path}${request.query && `?${request.query}`}`;
  for (const model of services) {
    try {
      const call = readWith(model, request, query);
      if (call !== undefined) return call;
    } catch (error) {
      return `${what} cannot be read: ${error}`;
    }
  }
  return services.length === 0
    ? `${what} is signed for ${name}, of which there is no model`
    : `${what}${request.headers['x-amz-target'] ? ` (${request.headers['x-amz-target']})` : ''} is no operation of ${name}`;
}

function readWith(model: ServiceModel, request: LoggedRequest, query: URLSearchParams): Call | undefined {
  const { protocol } = model.metadata;
  // CloudWatch still takes the JSON that it spoke before CBOR.
  if (protocol === 'json' || request.headers['x-amz-target']) return readJson(model, request);
  if (protocol === 'query') return readForm(model, request, query);
  if (protocol.startsWith('rest-')) return readRest(model, request, query);
  throw new Error(`${model.name} speaks ${protocol}, which this check cannot read yet`);
}

const shapeOf = (model: ServiceModel, use: ShapeUse): Shape => model.shapes[use.shape] as Shape;
const inputShape = (model: ServiceModel, { input }: Operation): Shape =>
  input ? shapeOf(model, input) : { type: 'structure', members: {} };

function readJson(model: ServiceModel, { headers, text }: LoggedRequest): Call | undefined {
  const [prefix, name = ''] = (headers['x-amz-target'] ?? '').split('.');
  const operation = prefix === model.metadata.targetPrefix ? model.operations[name] : undefined;
  if (operation === undefined) return undefined;
  return { model, operation, ...fromJson(inputShape(model, operation), text || '{}') };
}

/** Members of a JSON body by their names in the model; others are unknown. */
function fromJson(shape: Shape, text: string): Pick<Call, 'input' | 'unknown'> {
  const body = JSON.parse(text) as Record<string, unknown>;
  const inBody = Object.entries(shape.members ?? {}).filter(([, { location }]) => location === undefined);
  const names = new Map(inBody.map(([name, { locationName = name }]) => [locationName, name]));
  const input: Record<string, unknown> = {};
  const unknown: string[] = [];
  for (const [key, value] of Object.entries(body)) {
    const name = names.get(key);
    if (name === undefined) unknown.push(`member ${key}`);
    else input[name] = value;
  }
  return { input, unknown };
}

/** A form's parameters as a tree: `A.member.1.B` is four levels deep. */
type Tree = { text?: string; parts: Map<string, Tree> };

function readForm(model: ServiceModel, { text, headers }: LoggedRequest, query: URLSearchParams): Call | undefined {
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded');
  const parameters = isForm ? new URLSearchParams(text ?? '') : query;
  const operation = model.operations[parameters.get('Action') ?? ''];
  if (operation === undefined) return undefined;
  const root: Tree = { parts: new Map() };
  for (const [name, value] of parameters) {
    if (['Action', 'Version'].includes(name) || name.startsWith('X-Amz-')) continue;
    let node = root;
    for (const part of name.split('.')) {
      const next = node.parts.get(part) ?? { parts: new Map() };
      node.parts.set(part, next);
      node = next;
    }
    node.text = value;
  }
  return { model, operation, input: ofTree(model, inputShape(model, operation), root) as Call['input'], unknown: [] };
}

const byNumber = (node: Tree | undefined): Tree[] =>
  [...(node?.parts ?? [])].sort(([a], [b]) => Number(a) - Number(b)).map(([, item]) => item);

function ofTree(model: ServiceModel, shape: Shape, node: Tree): unknown {
  if (shape.type === 'structure') {
    const names = new Map(Object.entries(shape.members ?? {}).map(([name, use]) => [formName(model, name, use), name]));
    return Object.fromEntries(
      [...node.parts].map(([key, part]) => {
        const name = names.get(key) ?? key;
        const use = shape.members?.[name];
        return [name, use ? ofTree(model, shapeOf(model, use), part) : new Text(part.text ?? '')];
      }),
    );
  }
  if (shape.type === 'list') {
    const use = shape.member as ShapeUse;
    // An empty list is sent as an empty text.
    const items = shape.flattened ? node : node.parts.get(use.locationName ?? 'member');
    return byNumber(items).map((item) => ofTree(model, shapeOf(model, use), item));
  }
  if (shape.type === 'map') {
    const [key, value] = [shape.key as ShapeUse, shape.value as ShapeUse];
    const entries = shape.flattened ? node : node.parts.get('entry');
    return Object.fromEntries(
      byNumber(entries).map(({ parts }) => [
        parts.get(key.locationName ?? 'key')?.text ?? '',
        ofTree(model, shapeOf(model, value), parts.get(value.locationName ?? 'value') ?? { parts: new Map() }),
      ]),
    );
  }
  return new Text(node.text ?? '');
}

/** The name of a member in a form. A flattened list has the name of its items. */
function formName(model: ServiceModel, name: string, use: ShapeUse): string {
  const { flattened, member } = shapeOf(model, use);
  return (flattened ? member?.locationName : undefined) ?? use.locationName ?? name;
}

/** Headers of every request, and those of checksums that the SDK adds. */
const COMMON_HEADERS =
  /^x-amz-(?:date|content-sha256|security-token|user-agent|decoded-content-length|trailer|te|checksum-\w+|sdk-checksum-algorithm)$|^x-amzn-(?:trace-id|query-mode)$/;
const COMMON_PARAMETERS = /^(?:x-id|X-Amz-.*)$/;

function readRest(model: ServiceModel, request: LoggedRequest, query: URLSearchParams): Call | undefined {
  const matches = Object.values(model.operations)
    .flatMap((operation) => matchOf(model, operation, request, query) ?? [])
    .toSorted((a, b) => b.score - a.score);
  const [best] = matches;
  if (best === undefined) return undefined;
  const { operation, labels } = best;
  const shape = inputShape(model, operation);
  const { input, unknown } = restBody(model, shape, request);
  const known = new Set(new URLSearchParams(operation.http.requestUri.split('?')[1]).keys());
  const headers = new Set<string>();
  for (const [name, use] of Object.entries(shape.members ?? {})) {
    const { location, locationName = name } = use;
    const isList = shapeOf(model, use).type === 'list';
    if (location === 'uri' && labels[locationName] !== undefined) input[name] = new Text(labels[locationName]);
    if (location === 'querystring') {
      known.add(locationName);
      const values = query.getAll(locationName).map((value) => new Text(value));
      if (values.length > 0) input[name] = isList ? values : values[0];
    }
    if (location === 'header') {
      headers.add(locationName.toLowerCase());
      const value = request.headers[locationName.toLowerCase()];
      if (value !== undefined)
        input[name] = isList ? value.split(',').map((item) => new Text(item.trim())) : new Text(value);
    }
    if (location === 'headers') {
      const prefix = locationName.toLowerCase();
      const found = Object.entries(request.headers).filter(([header]) => header.startsWith(prefix));
      for (const [header] of found) headers.add(header);
      if (found.length > 0)
        input[name] = Object.fromEntries(
          found.map(([header, value]) => [header.slice(prefix.length), new Text(value)]),
        );
    }
  }
  for (const name of new Set(query.keys()))
    if (!known.has(name) && !COMMON_PARAMETERS.test(name)) unknown.push(`query parameter ${name}`);
  for (const name of Object.keys(request.headers))
    if (/^x-amzn?-/.test(name) && !headers.has(name) && !COMMON_HEADERS.test(name)) unknown.push(`header ${name}`);
  return { model, operation, input, unknown };
}

/** Returns the operation with the labels of its path, and how much of the request it names itself. */
function matchOf(model: ServiceModel, operation: Operation, request: LoggedRequest, query: URLSearchParams) {
  const { method, requestUri } = operation.http;
  if (method !== request.method) return undefined;
  const [template = '', literals = ''] = requestUri.split('?');
  const { expression, labels } = templateOf(template);
  const found = expression.exec(request.path);
  if (found === null) return undefined;
  const named = [...new URLSearchParams(literals)];
  if (!named.every(([name, value]) => query.has(name) && (value === '' || query.get(name) === value))) return undefined;
  const shape = inputShape(model, operation);
  // Two names of one route: the newer one has the whole model.
  let score = (operation.deprecated ? -10 : 0) + named.length * 10 + template.replace(/\{[^}]*\}/g, '').length;
  for (const name of shape.required ?? []) {
    const { location, locationName = name } = (shape.members as Record<string, ShapeUse>)[name] as ShapeUse;
    if (location !== 'querystring' && location !== 'header') continue;
    const isThere = location === 'header' ? locationName.toLowerCase() in request.headers : query.has(locationName);
    score += isThere ? 10 : -10;
  }
  // The SDK names its operation.
  if (query.get('x-id') === operation.name) score += 100;
  const values = labels.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? '')]);
  return { operation, labels: Object.fromEntries(values) as Record<string, string>, score };
}

interface Template {
  expression: RegExp;
  /** The names of its groups. */
  labels: string[];
}
const templates = new Map<string, Template>();

/** The expression for a path such as `/{Bucket}/{Key+}`. */
function templateOf(template: string): Template {
  const known = templates.get(template);
  if (known !== undefined) return known;
  const labels: string[] = [];
  const source = template
    .split(/(\{[^}]*\})/)
    .map((part) => {
      const [, label, greedy] = /^\{([^+]+)(\+?)\}$/.exec(part) ?? [];
      if (label === undefined) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      labels.push(label);
      return greedy ? '(.+)' : '([^/]+)';
    })
    .join('');
  const made = { expression: new RegExp(`^${source.replace(/\/$/, '')}/?$`), labels };
  templates.set(template, made);
  return made;
}

function restBody(model: ServiceModel, shape: Shape, request: LoggedRequest): Pick<Call, 'input' | 'unknown'> {
  const { text, xml, length } = request;
  const { payload } = shape;
  if (payload === undefined) {
    if (model.metadata.protocol === 'rest-json')
      return length > 0 ? fromJson(shape, text ?? '') : { input: {}, unknown: [] };
    return { input: xml ? (ofXml(model, shape, [xml]) as Call['input']) : {}, unknown: [] };
  }
  if (length === 0) return { input: {}, unknown: [] };
  const use = shape.members?.[payload] as ShapeUse;
  const body = shapeOf(model, use);
  if (body.type === 'blob') return { input: { [payload]: new Bytes(length) }, unknown: [] };
  if (body.type === 'string') return { input: { [payload]: text ?? new Bytes(length) }, unknown: [] };
  if (model.metadata.protocol === 'rest-json') return { input: { [payload]: JSON.parse(text ?? '') }, unknown: [] };
  return { input: { [payload]: xml ? ofXml(model, body, [xml]) : new Bytes(length) }, unknown: [] };
}

/** @param nodes all elements of the member: a flattened list has several */
function ofXml(model: ServiceModel, shape: Shape, nodes: Xml[]): unknown {
  const [[, text = '', children = []] = [] as unknown as Xml] = nodes;
  if (shape.type === 'structure') {
    const names = new Map(Object.entries(shape.members ?? {}).map(([name, use]) => [use.locationName ?? name, name]));
    const tags = [...new Set(children.map(([tag]) => tag))];
    return Object.fromEntries(
      tags.map((tag) => {
        const name = names.get(tag) ?? tag;
        const use = shape.members?.[name];
        const found = children.filter(([other]) => other === tag);
        return [name, use ? ofXml(model, shapeOf(model, use), found) : new Text(found[0]?.[1] ?? '')];
      }),
    );
  }
  if (shape.type === 'list') {
    const use = shape.member as ShapeUse;
    return (shape.flattened ? nodes : children).map((item) => ofXml(model, shapeOf(model, use), [item]));
  }
  return new Text(text);
}
