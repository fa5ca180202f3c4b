/** The bundles of the functions: small and complete. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Template } from 'aws-cdk-lib/assertions';
import { flattened, type Resource, resourcesOf, testApp, testStack } from '../helpers/synth.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** The required limit. A cold start reads and compiles the whole bundle. */
const MAX_BUNDLE_BYTES = 2 * 1000 * 1000;
/** It draws the page, merges Parquet, and reads MLflow: the last two are compiled when there is something to do. */
const MAX_SUMMARIZER_BYTES = 2.4 * 1000 * 1000;
/** With the client of Lambda, for the functions of scorers. */
const MAX_EVALUATOR_BYTES = 2_100_000;

const NODE = resolve('node_modules', 'node', 'bin', 'node');
const outdir = temporaryFolder('bundles-');

const stack = testStack({}, testApp({ outdir, bundle: true }));
const template = Template.fromStack(stack);
const functions = Object.values(resourcesOf(template))
  .filter(({ Type, Properties }) => Type === 'AWS::Lambda::Function' && Properties.Runtime === 'nodejs24.x')
  .map((resource): [string, Resource] => [String(resource.Properties.FunctionName), resource]);

const folderOf = ({ Properties }: Resource): string => {
  const { S3Key } = flattened(Properties.Code) as { S3Key: string };
  return join(outdir, `asset.${S3Key.replace('.zip', '')}`);
};

describe.each(functions)('%s', (name, resource) => {
  it('is a single file of at most 2 MB (the evaluator 2.1, the summarizer 2.4), with the process for heavy captures next to those that read them', () => {
    const files = readdirSync(folderOf(resource));
    const reads = /planner|processor|evaluator/.test(name) && !name.includes('replay');
    expect(files).toEqual(reads ? ['heavy-process.mjs', 'index.mjs'] : ['index.mjs']);
    const ofEvaluator = name.includes('evaluator') ? MAX_EVALUATOR_BYTES : MAX_BUNDLE_BYTES;
    const most = name.includes('summarizer') ? MAX_SUMMARIZER_BYTES : ofEvaluator;
    for (const file of files) expect(statSync(join(folderOf(resource), file)).size).toBeLessThanOrEqual(most);
  });

  it('loads without any installed packages and accepts its environment', () => {
    // Outside the project, whose node_modules would hide a missing package.
    const away = temporaryFolder('function-');
    cpSync(folderOf(resource), away, { recursive: true });
    const { Variables } = flattened(resource.Properties.Environment) as { Variables: Record<string, string> };
    const script = "import('./index.mjs').then(({ handler }) => console.log(typeof handler))";
    const { stdout, stderr } = spawnSync(NODE, ['-e', script], {
      cwd: away,
      encoding: 'utf8',
      env: { ...Variables, AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' },
    });
    expect({ stdout, stderr }).toEqual({ stdout: 'function\n', stderr: '' });
  });

  it('fails with InvalidEnvironment if its variables are missing', () => {
    const { stdout } = spawnSync(
      NODE,
      ['-e', "import('./index.mjs').catch((error) => console.log(error.name, error.message))"],
      { cwd: folderOf(resource), encoding: 'utf8', env: { AWS_REGION: 'eu-west-1' } },
    );
    expect(stdout).toMatch(/^InvalidEnvironment .*STACK_PREFIX.*WORK_BUCKET/);
  });
});
