/** The output of the replay command. */

import { connectPairwiseJudge } from '../../../bin/commands/replay-services.ts';
import { awsFailure } from '../../../src/core/errors/aws-failures.ts';
import { durationText } from '../../../src/core/text/terminal-text.ts';

test.each([
  [0, '0.0 s'],
  [59.94, '59.9 s'],
  [61, '1 min 1 s'],
  [9_366, '2 h 36 min'],
  [7_200, '2 h'],
  [23_704_230, '274 d 8 h'],
])('formats %d seconds as %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
});

test('rejects a judge without a region or credentials before anything is sent', async () => {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
  const none = { AWS_EC2_METADATA_DISABLED: 'true', AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' };
  Object.assign(process.env, none, { AWS_REGION: 'eu-west-1', DOTENV_CONFIG_PATH: '/none' });
  try {
    const connected = (): Promise<unknown> => connectPairwiseJudge({ budget: 20 }).catch(awsFailure);
    expect(await connected()).toMatchObject({ name: 'AwsCredentialsMissing' });
    delete process.env.AWS_REGION;
    expect(await connected()).toMatchObject({ name: 'AwsRegionMissing' });
  } finally {
    process.env = before;
  }
});
