/** With `CONTENT=none`, commands that need words say that there are none, before the judge costs money. */
import { runHere } from '../../../helpers/command-here.ts';

const place = { DATA_CAPTURE_S3_BUCKET: 'captures', AWS_REGION: 'us-east-1' };
const env = { ...place, CONTENT: 'none', SAGEMAKER_ENDPOINT_NAME: 'e', MLFLOW_TRACKING_URI: 'http://127.0.0.1:9' };

test.each([
  ['calibrate', '--add-examples'],
  ['compare', 'a', 'b', '--judge'],
])('%s %s says that it needs texts', async (...args) => {
  const { code, stderr } = await runHere(args, env);
  expect(code).toBe(2);
  expect(stderr).toMatch(/NoContent: Traces have no texts, since CONTENT=none\. .*dataset --out FILE --raw/);
});
