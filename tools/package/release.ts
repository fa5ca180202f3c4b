/** `npm run release`: the stack as a template and zips, for people who deploy without Node. docs/install.md shows how. */
import { parseArgs } from 'node:util';
import { settingVariables } from '../../lib/settings/settings.ts';
import { describeError } from '../../src/core/errors/describe-error.ts';
import { makeRelease, withBundles } from './make-release.ts';

const HELP = `Usage: npm run release -- [--out DIR]

Makes a CloudFormation template of the stack and the zips of its functions, for a bucket of your own: without Node, the CDK and
its bootstrap. The settings of .env decide the template's shape (the kind of MLflow, the judge, memory, a VPC, …). Names and
addresses are parameters of the template, with the settings as their defaults. The default of the judge is that of AWS_REGION.

  --out DIR    the folder to write to (default: release)`;

try {
  const { values } = parseArgs({
    options: { out: { type: 'string', default: 'release' }, help: { type: 'boolean', short: 'h', default: false } },
  });
  if (values.help) console.log(HELP);
  else {
    const { CDK_DEFAULT_REGION = process.env.AWS_REGION || process.env.AWS_DEFAULT_REGION } = process.env;
    const { variables, slips } = settingVariables(
      { ...process.env, CDK_DEFAULT_REGION },
      process.env.DOTENV_CONFIG_PATH,
    );
    withBundles((bundles) => makeRelease(variables, bundles, values.out));
    for (const slip of slips) console.error(`Warning: ${slip}`);
    console.log(`${values.out}/template.json\n${values.out}/zips`);
  }
} catch (error) {
  console.error(describeError(error));
  process.exitCode = 2;
}
