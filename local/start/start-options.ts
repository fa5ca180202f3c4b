/** The command line of `npm start`. */
import { relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

export type StartOptions = ReturnType<typeof parseStartOptions>;

export const START_HELP = `Usage: npm start -- [captures] [options]

Runs the whole pipeline on this machine: emulated AWS (MiniStack), a real MLflow server and a stand-in judge. Deploys
the stack, puts the captures into the bucket, follows the executions, prints a summary and stays up until Ctrl-C.

  captures              a .jsonl file of SageMaker Data Capture, or a folder with such files (default: examples/captures).
                        Files in SageMaker's layout (<endpoint>/<variant>/yyyy/mm/dd/hh/) keep it; others go under
                        <endpoint>/AllTraffic/ and the hour of their first record. Each endpoint gets a separate stack
  --endpoint NAME       the endpoint of all files
  --bedrock             judge with the real model: the stand-in forwards calls to Bedrock with your own AWS credentials.
                        This costs money
  --region REGION       region of Bedrock (default: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1)
  --exit                exit after the summary
  --port PORT           port of the emulated AWS (default: a free port)
  --mlflow-port PORT    port of the MLflow page (default: a free port)
  --judge-port PORT     port of the stand-in judge (default: a free port)
  --keep FOLDER         keep MLflow's database and artifacts in this folder (default: Ctrl-C deletes them)
  --help                this text

With more than 20 files per endpoint, they are put before the stack is deployed and one backfill processes them. With
fewer, they are put afterwards, and the bucket's rule starts executions for them, as on AWS.

Exit codes: 1 if something could not be started, if a run failed, or if lines were captured and none became a trace; 130 if
stopped before the summary; else 0.`;

/** npm runs scripts in the project's folder, but the user means a relative path from their own. */
const typedIn = (): string => process.env.INIT_CWD ?? process.cwd();
const asTyped = (path: string): string => resolve(typedIn(), path);

/** Shortens a path to the form the user would type. */
export function asShown(path: string): string {
  const short = relative(typedIn(), path);
  return short.length < path.length ? short : path;
}

const MAX_PORT = 65_535;

/** Parses the command line. @throws Error with the option, its value and what is allowed */
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
      help: { type: 'boolean', short: 'h', default: false },
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
