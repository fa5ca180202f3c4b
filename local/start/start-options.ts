/** The command line of `npm start`. */
import { relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

export type StartOptions = ReturnType<typeof parseStartOptions>;

/** npm runs scripts in the project's folder, but the user means a relative path from their own. */
const typedIn = (): string => process.env.INIT_CWD ?? process.cwd();
const asTyped = (path: string): string => resolve(typedIn(), path);

/** Shortens a path to the form the user would type. */
export function asShown(path: string): string {
  const short = relative(typedIn(), path);
  return short.length < path.length ? short : path;
}

const MAX_PORT = 65_535;

/** Parses the command line. @throws Error with the option, its value and the allowed values */
export function parseStartOptions(args: readonly string[]) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      endpoint: { type: 'string' },
      bedrock: { type: 'boolean', default: false },
      region: { type: 'string' },
      exit: { type: 'boolean', default: false },
      port: { type: 'string' },
      'mlflow-port': { type: 'string' },
      'judge-port': { type: 'string' },
      keep: { type: 'string' },
    },
  });
  if (positionals.length > 1) {
    throw new Error(
      `Too many paths; got: ${positionals.join(', ')}; expected: one file or folder. See npm start -- --help`,
    );
  }
  const { port: aws, 'mlflow-port': mlflow, 'judge-port': judge, keep, ...others } = values;
  return {
    ...others,
    captures: positionals[0] && asTyped(positionals[0]),
    awsPort: port('--port', aws),
    mlflowPort: port('--mlflow-port', mlflow),
    judgePort: port('--judge-port', judge),
    keep: keep && asTyped(keep),
  };
}

function port(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (Number.isInteger(number) && number > 0 && number <= MAX_PORT) return number;
  throw new Error(`${option} is not a port; got: ${text}; expected: a whole number from 1 to ${MAX_PORT}`);
}
