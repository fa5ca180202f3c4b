/** The templates of the two most different settings and partitions. `npm run test:slow` has every variant in every region. */
import { samplesOf, testTemplates } from '../helpers/cfn-lint.ts';
import { PLACES } from '../helpers/settings-variants.ts';
import { templateOf } from '../helpers/synth.ts';

const [east, , , china] = PLACES;

testTemplates(() =>
  (
    [
      ['the required settings', east],
      ['encrypted captures, replays in a VPC, a judge in an inference component', china],
    ] as const
  ).flatMap(([variant, place]) => {
    const samples = place === undefined ? [] : samplesOf(variant, [place]);
    if (samples.length === 0) throw new Error(`${variant} is no variant in ${place?.region}`);
    return samples;
  }),
);

it.each([
  ['MLflow apps in China', 'MLFLOW_TRACKING_URI', 3, 'arn:aws-cn:sagemaker:cn-north-1:123456789012:mlflow-app/app-1'],
  ['GovCloud without a judge', 'BEDROCK_MODEL_ID', 2, 'https://mlflow.example.com'],
  ['China without a judge', 'BEDROCK_MODEL_ID', 3, 'https://mlflow.example.com'],
])('refuses %s at synth', (_, setting, place, uri) => {
  expect(() => templateOf({ MLFLOW_TRACKING_URI: uri }, PLACES[place]?.region)).toThrow(
    new RegExp(`^  ${setting}`, 'm'),
  );
});
