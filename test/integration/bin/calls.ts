/** Invocations that the emulator knows, since somebody has put them into its CloudWatch: `status` sees that captures have stopped. */
import statusCommand from '../../../bin/commands/status.ts';
import { callAws } from '../../../src/core/aws/aws-json.ts';
import { ENDPOINT, environment, PREFIX, run } from './stack.ts';

const HOUR_S = 3_600;

test('captures that stop are missing, as soon as the calls are known', async () => {
  const status = async () => (await run(statusCommand(), '--stack', PREFIX)).stdout;
  expect(await status()).not.toMatch(/missing: |could not ask about captures/);
  const nowS = Math.floor(Date.now() / 1000);
  const Dimensions = Object.entries({ EndpointName: ENDPOINT, VariantName: 'AllTraffic' });
  const datum = {
    MetricName: 'Invocations',
    Value: 40,
    Dimensions: Dimensions.map(([Name, Value]) => ({ Name, Value })),
  };
  const MetricData = [1, 2, 3, 4].map((ago) => ({ ...datum, Timestamp: nowS - ago * HOUR_S }));
  await callAws(environment.clients.sfn, 'monitoring', 'PutMetricData', { Namespace: 'AWS/SageMaker', MetricData });
  expect(await status()).toMatch(
    /^✗ .*captures are missing: \d+ captures? of 120 invocations of variant AllTraffic from .*, and Data Capture takes 100%/,
  );
});
