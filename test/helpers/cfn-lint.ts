/** Templates against CloudFormation's resource schemas and rules, by cfn-lint. An accepted finding has a reason, and must still occur. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { PLACES, type Place, settingsVariants } from './settings-variants.ts';
import { templateOf } from './synth.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Findings that are no fault: rule, place in the template, and why. */
const ACCEPTED: { rule: string; path: RegExp; why: string }[] = [
  {
    rule: 'W3005',
    path: /^Resources\/\w+(Function|StateMachine|NotificationsHandler)\w+\/DependsOn\/\d+$/,
    why: 'The CDK has a function wait for the policies of its role, and lists the role with them, which is redundant.',
  },
];

interface Finding {
  Filename: string;
  Level: string;
  Message: string;
  Rule: { Id: string };
  Location: { Path: (string | number)[] };
}

/** A template, and the regions in which it is the same but for the region's and the partition's name. */
export interface Sample {
  variant: string;
  template: Record<string, unknown>;
  regions: string[];
}

/** Synthesizes a variant for each of the regions that it can be in. Most give one sample for all of them. */
export function samplesOf(variant: string, places: readonly Place[] = PLACES): Sample[] {
  const samples = new Map<string, Sample>();
  for (const place of places) {
    const settings = settingsVariants(place)[variant];
    if (settings === undefined) continue;
    const template = templateOf(settings, place.region).toJSON();
    const form = withoutPlace(JSON.stringify(template), place);
    const sample = samples.get(form);
    if (sample === undefined) samples.set(form, { variant, template, regions: [place.region] });
    else sample.regions.push(place.region);
  }
  return [...samples.values()];
}

/** Without the names of the region, of the partition and of the geography's model. */
const withoutPlace = (text: string, { region, partition }: Place): string =>
  text
    .replaceAll(region, '<region>')
    .replaceAll(`arn:${partition}:`, 'arn:<partition>:')
    .replaceAll(/(?:(?:us|eu|us-gov)\.)?anthropic\.claude-sonnet-4[\w:-]*/g, '<model>');

/** Runs cfn-lint once for all templates, since starting it takes three seconds. Each template names its regions. */
async function lint(samples: Sample[]): Promise<Finding[]> {
  const { bin } = await lockedEnvironment('aws-checks');
  const folder = temporaryFolder('cfn-lint-');
  const files = samples.map(({ template, regions }, index) => {
    const file = join(folder, `${index}.json`);
    writeFileSync(file, JSON.stringify({ ...template, Metadata: { 'cfn-lint': { config: { regions } } } }));
    return file;
  });
  const options = ['--format', 'json', '--non-zero-exit-code', 'none'];
  const { stdout } = await promisify(execFile)(join(bin, 'cfn-lint'), [...options, '--', ...files], {
    cwd: folder,
    maxBuffer: 64 * 1024 * 1024,
  });
  return (JSON.parse(stdout) as Finding[]).map((finding) => {
    const { variant, regions } = samples[files.indexOf(finding.Filename)] as Sample;
    return { ...finding, Filename: `${variant} in ${regions.join(', ')}` };
  });
}

const isAccepted = ({ Rule, Location }: Finding): boolean =>
  ACCEPTED.some(({ rule, path }) => rule === Rule.Id && path.test(Location.Path.join('/')));

/** Declares the tests of some samples. */
export function testTemplates(samples: () => Sample[]): void {
  let findings: Finding[];
  beforeAll(async () => {
    findings = await lint(samples());
  });

  it('has no error and no warning', () => {
    const texts = findings
      .filter((finding) => !isAccepted(finding))
      .map(
        ({ Filename, Level, Message, Rule, Location }) =>
          `${Filename}: ${Level} ${Rule.Id} ${Location.Path.join('/')}: ${Message}`,
      );
    expect(texts).toEqual([]);
  });

  it('accepts nothing that does not occur', () => {
    const unused = ACCEPTED.filter(
      ({ rule, path }) =>
        !findings.some(({ Rule, Location }) => Rule.Id === rule && path.test(Location.Path.join('/'))),
    );
    expect(unused).toEqual([]);
  });
}
