/** `inference-monitor start`: runs the whole pipeline on this machine, as `npm start` does in a clone. */
import { pathToFileURL } from 'node:url';
import { programArgs } from '../../src/core/process/package-folder.ts';
import { argument, command, type FlagsOf, numbers, option, options } from '../cli/options.ts';

const port = numbers.from(1, 65_535);

const OPTIONS = options(
  argument('[captures]', 'a .jsonl file of Data Capture, or a folder with such files (default: examples/captures)'),
  option('--endpoint <name>', 'the endpoint of all files'),
  option('--scorer-file <file>', 'scorers in Python, as a function of the emulated AWS: docs/scorers.md'),
  option('--bedrock', 'judge with the real model, with your own AWS credentials. This costs money'),
  option('--region <region>', 'region of Bedrock (default: AWS_REGION, AWS_DEFAULT_REGION, us-east-1)'),
  option('--exit', 'exit after the result'),
  option('--port <port>', 'port of the emulated AWS (default: a free port)', port),
  option('--mlflow-port <port>', 'port of the MLflow page (default: a free port)', port),
  option('--judge-port <port>', 'port of the stand-in judge (default: a free port)', port),
  option('--keep <folder>', "keep MLflow's database and artifacts there (default: Ctrl-C deletes them)"),
);

export type StartFlags = FlagsOf<typeof OPTIONS>;

/** The program is built as a file of its own, which this room does not import. */
type Program = { start(flags: StartFlags): Promise<number> };

export default command('start', OPTIONS, async (flags) => {
  const file = programArgs('local/start/start.ts', 'start').at(-1) ?? '';
  const { start } = (await import(pathToFileURL(file).href)) as Program;
  process.exit(await start(flags));
});
