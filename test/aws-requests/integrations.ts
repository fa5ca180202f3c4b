/** The requests that Step Functions makes for its states, as calls of the service's own operations. */
import { type Operation, type ServiceModel, type ServiceModels, type Shape, STATES_SERVICES } from './models.ts';
import type { Violation } from './rules.ts';
import type { Call } from './wire.ts';

/** A step as `recorder.py` writes it. */
export interface LoggedStep {
  resource: string;
  parameters?: Record<string, unknown>;
  /** The ResultWriter of a Map: its `Prefix` is a part of the keys that it writes. */
  writes?: 'results';
  /** Bytes of JSON. */
  inputLength?: number;
  outputLength?: number;
}

/** https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html, in bytes of UTF-8. */
const MAX_DATA = 256 * 1024;

/** What a ResultWriter appends to its prefix: a Map Run's id and a file. */
const RESULT_FILE = '/01234567-89ab-cdef-0123-456789abcdef/SUCCEEDED_0.json';

/** Returns whether the data that enters or leaves the state is too much. */
export function tooMuchData({ resource, inputLength = 0, outputLength = 0 }: LoggedStep): Violation[] {
  const length = Math.max(inputLength, outputLength);
  if (length <= MAX_DATA) return [];
  return [{ operation: resource, where: '', got: `${length} bytes of JSON`, rule: `at most ${MAX_DATA} bytes` }];
}

/** @returns the call, or what is wrong with the resource; `undefined` if the step makes no call */
export function callOfStep(step: LoggedStep, models: ServiceModels): Call | string | undefined {
  const { resource, parameters } = step;
  if (/^arn:[\w-]+:lambda:/.test(resource)) {
    const lambda = models.model('lambda') as ServiceModel;
    const operation = lambda.operations.Invoke as Operation;
    return { model: lambda, operation, input: { FunctionName: resource }, unknown: [] };
  }
  if (parameters === undefined) return undefined;
  const [service = '', name = ''] = resource
    .replace(/^arn:[\w-]+:states:::(?:aws-sdk:)?/, '')
    .replace(/\.(?:sync(?::2)?|waitForTaskToken)$/, '')
    .split(':');
  const model = models.model(STATES_SERVICES[service] ?? service);
  const operation = model?.operations[`${name.charAt(0).toUpperCase()}${name.slice(1)}`];
  if (model === undefined || operation === undefined) return `${resource} is no operation of a service`;
  const { Prefix, ...others } = parameters;
  const given = step.writes && Prefix !== undefined ? { ...others, Key: `${Prefix}${RESULT_FILE}` } : parameters;
  const unknown: string[] = [];
  const shape = operation.input ? model.shapes[operation.input.shape] : undefined;
  const input = shape ? fromStates(model, shape, given, unknown) : {};
  return { model, operation, input: input as Call['input'], unknown };
}

/** Step Functions writes every member with a capital letter, whatever the service does. */
function fromStates(model: ServiceModel, shape: Shape, value: unknown, unknown: string[]): unknown {
  if (shape.type === 'structure' && typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([given, content]) => {
        const [name, use] =
          Object.entries(shape.members ?? {}).find(
            ([member]) => `${member.charAt(0).toUpperCase()}${member.slice(1)}` === given,
          ) ?? [];
        if (name === undefined || use === undefined) {
          unknown.push(`parameter ${given}`);
          return [given, undefined];
        }
        return [name, fromStates(model, model.shapes[use.shape] as Shape, content, unknown)];
      }),
    );
  }
  if (shape.type === 'list' && Array.isArray(value) && shape.member) {
    const item = model.shapes[shape.member.shape] as Shape;
    return value.map((one) => fromStates(model, item, one, unknown));
  }
  // Integrations take JSON where the service takes its text: `Payload` of Invoke, `Input` of StartExecution.
  if (['blob', 'string'].includes(shape.type) && typeof value === 'object' && value !== null) {
    const text = JSON.stringify(value);
    return shape.type === 'blob' ? Buffer.from(text).toString('base64') : text;
  }
  return value;
}
