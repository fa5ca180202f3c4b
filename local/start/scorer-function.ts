/** Deploys the scorers of a Python file as a function of the emulated AWS. */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CreateFunctionCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { strToU8, zipSync } from 'fflate';
import { openScorerFile, type ScorerFile } from '../../bin/offline/scorer-file.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** A file with scorers. */
type OfFile = Pick<ScorerFile, 'scorers'> & { path: string };

/** Reads the scorers of a file. A stack must know their values. @throws PermanentError `ScorerFileUnusable` */
export async function readScorers(path: string | undefined): Promise<OfFile | undefined> {
  if (path === undefined) return undefined;
  const { scorers, close } = await openScorerFile(path);
  close();
  const unknown = scorers.find(({ values }) => 'values' in values && values.values.length === 0);
  if (unknown === undefined) return { path, scorers };
  const expected = 'the annotation float, int, bool or Literal["good", "bad"] of its result';
  throw new PermanentError('ScorerFileUnusable', `${path}: the values of ${unknown.name} are not known`, { expected });
}

const CLIENT = packagePath('clients', 'python-scorers');

/** A file is imported with the Python files beside it. */
const handlerOf = (module: string): string => `import importlib
from sagemaker_inference_monitor_scorers import Scorer, serve
handler = serve(*(one for one in vars(importlib.import_module(${JSON.stringify(module)})).values() if isinstance(one, Scorer)))
`;

/** Deploys the function. @returns `SCORER_FUNCTIONS` of the stacks */
export async function deployScorers(lambda: LambdaClient, { path, scorers }: OfFile): Promise<string> {
  const files = { 'scorers_handler.py': strToU8(handlerOf(basename(path, '.py'))) } as Record<string, Uint8Array>;
  for (const [cwd, names] of Object.entries({ [dirname(path)]: '*.py', [CLIENT]: '*/*.py' }))
    for (const name of globSync(names, { cwd })) files[name] = readFileSync(join(cwd, name));
  const code = {
    Runtime: 'python3.12',
    Handler: 'scorers_handler.handler',
    Code: { ZipFile: zipSync(files) },
  } as const;
  const role = { Role: 'arn:aws:iam::000000000000:role/scorers', Timeout: 60 };
  const { FunctionArn, Version } = await lambda.send(
    new CreateFunctionCommand({ FunctionName: 'scorers', ...code, ...role, Publish: true }),
  );
  const arn = `${FunctionArn}:${Version}`;
  const settings = scorers.map(({ name, needs, values }) => {
    const given = values.kind === 'categories' ? values.values : values.kind;
    return [name, { arn, values: given, needs }];
  });
  return JSON.stringify(Object.fromEntries(settings));
}
