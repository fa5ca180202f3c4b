/** Deploys the scorers of a Python file as a function of the emulated AWS. */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CreateFunctionCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { strToU8, zipSync } from 'fflate';
import { scorersOf } from '../../bin/offline/scorer-file.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** A file with scorers. */
interface OfFile {
  path: string;
  scorers: Awaited<ReturnType<typeof scorersOf>>;
}

/** Reads the scorers of a file. A stack must know their values. @throws PermanentError `ScorerFileUnusable` */
export async function readScorers(path: string | undefined): Promise<OfFile | undefined> {
  if (path === undefined) return undefined;
  const scorers = await scorersOf(path);
  const unknown = scorers.find(({ values }) => values.kind === 'categories' && values.values.length === 0);
  if (unknown === undefined) return { path, scorers };
  const expected = 'the annotation float, int, bool or Literal["good", "bad"] of its result';
  throw new PermanentError('ScorerFileUnusable', `${path}: the values of ${unknown.name} are not known`, { expected });
}

/** A file is imported with the Python files beside it. */
const handlerOf = (module: string): string => `import importlib
from sagemaker_inference_monitor_scorers import Scorer, serve
handler = serve(*(one for one in vars(importlib.import_module(${JSON.stringify(module)})).values() if isinstance(one, Scorer)))
`;

/** Deploys the function. @returns `SCORER_FUNCTIONS` of the stacks */
export async function deployScorers(lambda: LambdaClient, { path, scorers }: OfFile): Promise<string> {
  const folders = [dirname(path), packagePath('clients', 'python-scorers')];
  const files = [globSync('*.py', { cwd: folders[0] }), globSync('*/*.py', { cwd: folders[1] })].flatMap((names, of) =>
    names.map((name) => [name, readFileSync(join(folders[of] as string, name))] as const),
  );
  const handler = strToU8(handlerOf(basename(path, '.py')));
  const { FunctionArn, Version } = await lambda.send(
    new CreateFunctionCommand({
      FunctionName: 'scorers',
      Runtime: 'python3.12',
      Handler: 'scorers_handler.handler',
      Role: 'arn:aws:iam::000000000000:role/scorers',
      Timeout: 60,
      Code: { ZipFile: zipSync({ ...Object.fromEntries(files), 'scorers_handler.py': handler }) },
      Publish: true,
    }),
  );
  const settings = scorers.map(({ name, needs, values }) => {
    const given = values.kind === 'categories' ? values.values : values.kind;
    return [name, { arn: `${FunctionArn}:${Version}`, values: given, needs }];
  });
  return JSON.stringify(Object.fromEntries(settings));
}
