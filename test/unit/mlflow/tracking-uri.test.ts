/** Tests of parsing tracking URIs. */
import { parseTrackingUri } from '../../../src/mlflow/tracking-uri.ts';
import { MANAGED_ARN } from '../../helpers/mlflow-managed.ts';

test('parses the ARN of an app', () => {
  const baseUrl = new URL('https://mlflow.sagemaker.us-east-1.app.aws');
  expect(parseTrackingUri(MANAGED_ARN)).toMatchObject({ kind: 'mlflow-app', baseUrl, region: 'us-east-1' });
});

test('a custom endpoint replaces only the address', () => {
  const target = parseTrackingUri(MANAGED_ARN, 'https://mlflow.example.com');
  expect(target).toMatchObject({ baseUrl: new URL('https://mlflow.example.com'), region: 'us-east-1' });
});

test('parses a URL with a path', () => {
  const baseUrl = new URL('https://mlflow.example.com/team');
  expect(parseTrackingUri(baseUrl.href)).toEqual({ kind: 'url', baseUrl });
});

test.each([
  'databricks',
  'sqlite:///mlflow.db',
  'file:///tmp/x',
  '',
  'arn:aws:sagemaker:eu-central-1:123456789012:endpoint/x',
  'arn:aws:sagemaker:eu-central-1:123456789012:mlflow-tracking-server/x',
  'arn:aws:s3:eu-central-1:123456789012:mlflow-app/x',
])('refuses %s', (uri) => {
  expect(() => parseTrackingUri(uri)).toThrow(expect.objectContaining({ name: 'MlflowTrackingUriInvalid' }));
});

test('refuses a URL with a password, without quoting it', () => {
  const refusal = () => parseTrackingUri('https://user:hunter2@mlflow.example.com');
  expect(refusal).toThrow(/secret/);
  expect(refusal).not.toThrow(/hunter2/);
});
