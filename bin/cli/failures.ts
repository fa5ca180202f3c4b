/** Errors as the command line prints them. */
import { inspect } from 'node:util';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';

interface FailureOptions {
  /** With the stack trace and the causes. */
  debug: boolean;
  /** As one line of JSON: `{"error": {"name", "message"}}`. */
  json: boolean;
}

/** Everything but line ends and tabs that a terminal would interpret. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this expression removes control characters
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** Describes why a command could not do what was asked. */
export function failureText(error: unknown, { debug, json }: FailureOptions): string {
  const failure = awsFailure(error);
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
  const said = failure ?? { name, message };
  const trace = debug ? inspect(error) : undefined;
  if (json) return JSON.stringify({ error: { ...said, ...(trace === undefined ? {} : { trace }) } });
  return `${said.name}: ${said.message}${trace === undefined ? '' : `\n${trace}`}`.replace(CONTROLS, ' ');
}
