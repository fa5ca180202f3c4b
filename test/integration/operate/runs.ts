/** Tests of the commands about runs. */
import { processed } from './stack.ts';

test('has a processed capture file', () => {
  expect(processed).toMatchObject({ status: 'SUCCEEDED' });
});
