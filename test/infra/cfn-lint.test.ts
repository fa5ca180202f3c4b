/** The templates of the most different settings in each partition. `npm run test:slow` has every variant in every region. */
import { readdirSync } from 'node:fs';
import { releasedTemplate } from '../../lib/released-stack.ts';
import { type Sample, samplesOf, testTemplates } from '../helpers/cfn-lint.ts';
import { PLACES } from '../helpers/settings-variants.ts';
import { REQUIRED_SETTINGS, templateOf } from '../helpers/synth.ts';

const [east, central, government, china] = PLACES;

/** The template with parameters. */
function releaseSample(): Sample {
  const region = east?.region ?? '';
  const zips = Object.fromEntries(readdirSync('lambda').map((folder) => [folder, `${folder}.zip`]));
  const settings = {
    ...REQUIRED_SETTINGS,
    MLFLOW_TRACKING_URI: `arn:aws:sagemaker:${region}:123456789012:mlflow-app/app-1`,
    ALARM_EMAIL: 'oncall@example.com',
    WORK_KMS_KEY_ARN: `arn:aws:kms:${region}:123456789012:key/a`,
  };
  return { variant: 'a release', template: releasedTemplate(settings, zips), regions: [region] };
}

testTemplates(() => [
  releaseSample(),
  ...(
    [
      ['the required settings', east],
      ['keys of a person', central],
      ['a Bedrock model with a guardrail', government],
      ['encrypted captures, replays in a VPC, a judge in an inference component', china],
    ] as const
  ).flatMap(([variant, place]) => {
    const samples = place === undefined ? [] : samplesOf(variant, [place]);
    if (samples.length === 0) throw new Error(`${variant} is no variant in ${place?.region}`);
    return samples;
  }),
]);

it.each([
  ['MLflow apps in China', 'MLFLOW_TRACKING_URI', 3, 'arn:aws-cn:sagemaker:cn-north-1:123456789012:mlflow-app/app-1'],
  ['GovCloud without a judge', 'BEDROCK_MODEL_ID', 2, 'https://mlflow.example.com'],
  ['China without a judge', 'BEDROCK_MODEL_ID', 3, 'https://mlflow.example.com'],
])('refuses %s at synth', (_, setting, place, uri) => {
  expect(() => templateOf({ MLFLOW_TRACKING_URI: uri }, PLACES[place]?.region)).toThrow(
    new RegExp(`^  ${setting}`, 'm'),
  );
});
