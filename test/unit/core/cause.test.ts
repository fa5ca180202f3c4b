/** Tests of reading and shortening the causes of failed executions. */
import { causeOf, withinCause } from '../../../src/core/errors/cause.ts';

it.each([
  ['a Lambda’s', '{"errorType":"CaptureChanged","errorMessage":"overwritten","trace":[]}', 'overwritten'],
  ['a service’s own', 'The state was too slow', 'The state was too slow'],
  ['JSON of another form', '{"message":"x"}', '{"message":"x"}'],
])('reads the cause of %s failure', (_, cause, expected) => expect(causeOf(cause)).toBe(expected));

it('shortens a cause to what a Fail state accepts', () => {
  expect(withinCause('short')).toBe('short');
  expect(withinCause('x'.repeat(100_000)).length).toBeLessThan(32_768);
});
