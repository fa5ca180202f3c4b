import { consoleLinks } from '../../../src/core/aws/console-links.ts';

const ARN = 'arn:aws:states:eu-west-1:123456789012:execution:sagemaker-data-capture-monitoring-prod:files-2026';
const of = (region: string, env: NodeJS.ProcessEnv = {}) => consoleLinks(region, env);

test.each([
  ['eu-west-1', 'https://eu-west-1.console.aws.amazon.com/'],
  ['cn-north-1', 'https://cn-north-1.console.amazonaws.cn/'],
  ['us-gov-west-1', 'https://us-gov-west-1.console.amazonaws-us-gov.com/'],
])('the console of %s is that of its partition', (region, start) => {
  expect(of(region)?.execution(ARN)).toBe(`${start}states/home?region=${region}#/v2/executions/details/${ARN}`);
});

test('names in addresses are encoded as each page decodes them', () => {
  const links = of('eu-west-1');
  expect(links?.logGroup('/aws/lambda/a')).toMatch(/#logsV2:log-groups\/log-group\/\$252Faws\$252Flambda\$252Fa$/);
  expect(links?.dashboard('A b')).toMatch(/#dashboards\/dashboard\/A%20b$/);
  expect(links?.s3('bucket', 'runs/a b/summary.json')).toMatch(
    /\/s3\/object\/bucket\?region=eu-west-1&prefix=runs%2Fa\+b%2Fsummary\.json$/,
  );
  expect(links?.s3('bucket', 'runs/a/')).toMatch(/\/s3\/buckets\/bucket\?/);
});

test('an emulator has no console', () => {
  expect(of('us-east-1', { AWS_ENDPOINT_URL: 'http://127.0.0.1:4566' })).toBeUndefined();
});
