/** Tests of the capabilities of MLflow versions. */
import { capabilitiesOf } from '../../../src/mlflow/capabilities.ts';

test.each([
  ['3.2.0', { otlp: false }],
  ['3.4.0', { otlp: false }],
  ['3.10.1', { otlp: false }],
  ['3.11.1', { otlp: false }],
  ['3.13.0', { otlp: false }],
  ['3.14.0', { otlp: false }],
  ['3.16.0', { otlp: false }],
  ['3.17.2', { otlp: true }],
  ['4.0.0rc1', { otlp: true }],
])('version %s has its capabilities', (version, expected) => {
  expect(capabilitiesOf(version)).toMatchObject({ version, ...expected });
});

test('an unknown version counts as the oldest', () => {
  expect(capabilitiesOf(undefined)).toMatchObject({ otlp: false });
});

test.each(['2.22.4', '3.0.0', '3.1.4'])('a server of version %s is refused', (version) => {
  expect(() => capabilitiesOf(version)).toThrow(expect.objectContaining({ name: 'MlflowTooOld' }));
});
